"""Our relabelling, and what of it we refuse, beside promtool's own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ds4watch.config.loader import load_settings
from ds4watch.model.errors import ConfigError
from ds4watch.model.scrape import Target
from ds4watch.scrape.listing import Listing
from ds4watch.scrape.relabel import compile_rules
from ds4watch.scrape.targets import TargetRules, target_of

pytestmark = pytest.mark.needs("promtool")

ADDRESSES = ("gpu-1.example:8000", "gpu-2.example:8001", "[::1]:9000")
LABELS = {"zone": "eu-West", "__meta_rack_name": "r;7", "__tmp_x": "1", "__param_a": "p"}
A = "__address__"
PIPELINES: list[list[dict[str, Any]]] = [
    [],
    [{"source_labels": [A], "regex": "(.*):(.*)", "target_label": "b", "replacement": "$2-${1}$$"}],
    [{"source_labels": [A, "zone", "none"], "separator": "|", "target_label": "joined"}],
    [{"source_labels": [A], "regex": "gpu-1.*", "action": "drop"}],
    [{"source_labels": [A], "regex": "gpu-2", "action": "keep"}],
    [{"source_labels": [A], "regex": "gpu-1.*|gpu-2.*", "action": "keep"}],
    [{"regex": "__meta_(.*)", "action": "labelmap"}],
    [{"regex": "__meta_rack_(.*)", "replacement": "rack_${1}_is", "action": "labelmap"}],
    [{"regex": "zone|job", "action": "labeldrop"}],
    [{"regex": "__.*|zone", "action": "labelkeep"}],
    [{"source_labels": ["zone"], "target_label": "zone", "action": "uppercase"}],
    [{"source_labels": ["zone"], "target_label": "low", "action": "lowercase"}],
    [{"source_labels": [A], "target_label": "shard", "modulus": 7, "action": "hashmod"}],
    [
        {"source_labels": [A], "target_label": "__tmp_y", "modulus": 2, "action": "hashmod"},
        {"source_labels": ["__tmp_y"], "target_label": "__tmp_x", "action": "keepequal"},
    ],
    [{"source_labels": ["__tmp_x"], "target_label": "__param_a", "action": "dropequal"}],
    [{"source_labels": ["zone"], "regex": "(..)-(.*)", "target_label": "${1}_$2"}],
    [{"source_labels": ["zone"], "regex": "(.*)", "target_label": "$1", "replacement": "dash"}],
    [{"target_label": "instance", "replacement": "one"}],
    [{"target_label": "job", "replacement": ""}],
    [{"source_labels": ["none"], "target_label": "zone"}],
    [{"source_labels": [A], "regex": "(.*):.*", "target_label": A, "replacement": "$1:80"}],
]  # fmt: skip


@pytest.mark.parametrize("steps", PIPELINES, ids=lambda steps: json.dumps(steps)[:80])
def test_targets_have_the_labels_that_promtool_gives_them(
    tmp_path: Path, steps: list[dict[str, Any]]
) -> None:
    job = {
        "job_name": "pool",
        "scrape_interval": "60s",
        "scrape_timeout": "5s",
        "static_configs": [{"targets": list(ADDRESSES), "labels": LABELS}],
        "relabel_configs": steps,
    }
    file = config(tmp_path, {"scrape_configs": [job]})
    done = promtool("check", "service-discovery", "--timeout=100ms", str(file), "pool")
    assert done.returncode == 0, done.stderr
    theirs = [
        {name: value for name, value in it["labels"].items() if not name.startswith("__")}
        for it in json.loads(done.stdout)
    ]
    assert [it for it in map(ours(steps), ADDRESSES) if it] == [it for it in theirs if it]


def ours(steps: list[dict[str, Any]]) -> Any:
    text = yaml.safe_dump({"scrape": {"groups": [group(steps)]}})
    (loaded,) = load_settings(text, "f.yml").scrape.groups
    rules = TargetRules(
        name="pool",
        interval_seconds=60.0,
        timeout_seconds=5.0,
        rules=compile_rules(loaded.relabel_configs),
    )
    (listing,) = [Listing(ADDRESSES, tuple(LABELS.items()))]

    def labels(address: str) -> dict[str, str]:
        made = target_of(rules, address, dict(listing.labels))
        if not isinstance(made, Target):
            return {}
        return {name: it for name, it in made.labels if name not in ("worker", "profile")}

    return labels


STEPS: list[dict[str, Any]] = [
    {"target_label": "ok"},
    {"action": "replace"},
    {"target_label": "not-ok"},
    {"target_label": "1a"},
    {"target_label": "a_${1}_b"},
    {"target_label": "${1}-b"},
    {"target_label": "a", "regex": "("},
    {"target_label": "a", "regex": "(?=x)"},
    {"action": "drop", "source_labels": ["a-b"]},
    {"action": "drop", "source_labels": ["a"]},
    {"action": "hashmod", "target_label": "a"},
    {"action": "hashmod", "target_label": "a", "modulus": 3},
    {"action": "hashmod", "modulus": 3},
    {"action": "hashmod", "target_label": "a-b", "modulus": 3},
    {"action": "lowercase", "source_labels": ["a"], "target_label": "b"},
    {"action": "lowercase", "source_labels": ["a"], "target_label": "b", "replacement": "x"},
    {"action": "uppercase", "source_labels": ["a"]},
    {"action": "labelmap", "regex": "a(.*)", "replacement": "b-$1"},
    {"action": "labelmap", "regex": "a(.*)", "replacement": "b_$1"},
    {"action": "labeldrop", "regex": "a"},
    {"action": "labeldrop", "regex": "a", "target_label": "b"},
    {"action": "labelkeep", "regex": "a", "source_labels": ["b"]},
    {"action": "keepequal", "source_labels": ["a"], "target_label": "b"},
    {"action": "keepequal", "source_labels": ["a"], "target_label": "b", "regex": "x"},
    {"action": "dropequal", "source_labels": ["a"]},
    {"action": "explode"},
]


def test_we_refuse_the_steps_that_promtool_refuses_and_no_others(tmp_path: Path) -> None:
    answers = [(refused_by_promtool(tmp_path, it), refused_by_us(it)) for it in STEPS]
    unlike = [
        (step, theirs, mine)
        for step, (theirs, mine) in zip(STEPS, answers, strict=True)
        if bool(theirs) != bool(mine)
    ]
    assert not unlike
    assert all("scrape.groups[0].relabel_configs[0]" in mine for _, mine in answers if mine)


def refused_by_promtool(folder: Path, step: dict[str, Any]) -> str:
    job = {
        "job_name": "pool",
        "static_configs": [{"targets": ["a:1"]}],
        "relabel_configs": [step],
    }
    done = promtool("check", "config", str(config(folder, {"scrape_configs": [job]})))
    return done.stderr if done.returncode else ""


def refused_by_us(step: dict[str, Any]) -> str:
    try:
        load_settings(yaml.safe_dump({"scrape": {"groups": [group([step])]}}), "f.yml")
    except ConfigError as error:
        return str(error)
    return ""


def group(steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"name": "pool", "static_configs": [{"targets": ["a:1"]}], "relabel_configs": steps}


def config(folder: Path, value: Any) -> Path:
    file = folder / "prometheus.yml"
    file.write_text(yaml.safe_dump(value), encoding="utf-8")
    return file


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, check=False, timeout=30
    )
