"""What a YAML block of a document is, and how it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ds4watch.alerting.rulefile import load_rules
from ds4watch.config.filter_file import load_filter
from ds4watch.config.loader import load_settings, read_profile
from ds4watch.policy.policyfile import PolicyFile, load_policy
from ds4watch.scrape.listing import read_yaml
from tests.unit.docs.documents import ROOT, Block, blocks

SHIPPED_POLICY: Mapping[str, Any] = yaml.safe_load(
    (ROOT / "serving" / "policy.yml").read_text(encoding="utf-8")
)


def policy_in_full(text: str) -> PolicyFile:
    """Read a policy, or part of one: pools, if it has none, are the shipped."""
    given = yaml.safe_load(text)
    if "pools" not in given:
        text += yaml.safe_dump({"pools": SHIPPED_POLICY["pools"]})
    return load_policy(text, "policy.yml")


def _profile(text: str) -> object:
    return read_profile(text, f"{yaml.safe_load(text)['name']}.yml")


def _filter(text: str) -> object:
    return load_filter(text, "filter.yml", lambda _name: "alpha\n")


def _targets(text: str) -> object:
    return read_yaml(text.encode(), {})


def _of_others(key: str) -> Callable[[str], object]:
    def read(text: str) -> object:
        found = yaml.safe_load(text)
        assert key in found
        return found

    return read


READERS: Mapping[str, Callable[[str], object]] = {
    "ds4watch.yml": lambda text: load_settings(text, "ds4watch.yml"),
    "policy.yml": policy_in_full,
    "rules.yml": lambda text: load_rules(text, "rules.yml"),
    "profile": _profile,
    "filter.yml": _filter,
    "targets.yml": _targets,
    "prometheus.yml": _of_others("scrape_configs"),
    "alertmanager.yml": _of_others("receivers"),
    "grafana.yml": _of_others("secureJsonData"),
}
BY_KEY = (
    ("scrape_configs", "prometheus.yml"),
    ("receivers", "alertmanager.yml"),
    ("secureJsonData", "grafana.yml"),
    ("groups", "rules.yml"),
    ("bindings", "policy.yml"),
    ("pools", "policy.yml"),
    ("served_names", "profile"),
    ("mask", "filter.yml"),
)
"""How a block that does not say what it is is known."""


def yaml_blocks(path: Path) -> list[Block]:
    """Return the blocks of a document that are YAML."""
    return [block for block in blocks(path) if block.info.partition(" ")[0] == "yaml"]


def as_parameters(found: Iterable[Block]) -> list[Any]:
    """Return blocks as a test's parameters; what needs policy keys to come fails until then."""
    later = pytest.mark.xfail(
        "actions" not in PolicyFile.model_fields, reason="needs actions on workers", strict=True
    )
    new = re.compile(r"^actions:|\bshares:", re.MULTILINE)
    return [
        pytest.param(it, id=str(it), marks=[later] if new.search(it.text) else []) for it in found
    ]


def kind_of(block: Block) -> str:
    """Return the kind that the first comment says, or what stands behind the fence, or its keys."""
    said = re.match(r"# *(?:\S*/)?([\w.-]+\.yml)\b", block.text)
    named = said[1] if said else block.info.partition(" ")[2]
    if said and Path(block.text.split()[1]).parent.name == "profiles":
        return "profile"
    if named in READERS:
        return named
    found = yaml.safe_load(block.text)
    if isinstance(found, list):
        return "targets.yml"
    return next((kind for key, kind in BY_KEY if key in found), "ds4watch.yml")
