from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main
import yaml
from typer.core import TyperGroup

from ds4watch.alerting.rulefile import load_rules
from ds4watch.cli import COMMANDS
from ds4watch.config.reference import profile_reference, settings_reference
from ds4watch.cost.parts import Part
from ds4watch.history.rows import AuditKind
from ds4watch.model.action import ActionKind, ActionStatus, RefusalReason
from ds4watch.model.alert import AlertRule
from ds4watch.model.worker import WorkerPhase
from ds4watch.policy.policyfile import Binding, Level, PolicyFile, Pool
from ds4watch.policy.reference import policy_reference
from ds4watch.sim.faults import Fault
from ds4watch.vocabulary.names import (
    EXPOSED,
    FLEET_SIGNALS,
    GPU_SIGNALS,
    ROUTER_SIGNALS,
    WORKER_SIGNALS,
)
from ds4watch.vocabulary.reference import (
    device_origin,
    origin,
    render_metrics,
    router_origin,
    worker_origin,
)
from ds4watch.web.app import create_app
from ds4watch.web.ports import Ports
from ds4watch.web.tokens import TokenTable
from tests.unit.docs.documents import DOCS, ROOT, document, first_cells

RULES = sorted((ROOT / "rules").glob("*.yml"))


def missing(wanted: Any, found: set[str]) -> list[str]:
    return sorted(set(map(str, wanted)) - found)


def test_every_setting_and_profile_key_is_in_the_configuration() -> None:
    keys = [row.key for row in (*settings_reference(), *profile_reference())]
    assert not missing(keys, first_cells(document("configuration.md")))


def test_the_committed_metrics_are_what_the_vocabulary_says() -> None:
    text = document("metrics.md")
    assert text == render_metrics(), "run: ds4watch config metrics > docs/metrics.md"
    assert not missing(EXPOSED, first_cells(text))


def test_every_signal_says_where_it_comes_from() -> None:
    assert all(worker_origin(signal.name) for signal in WORKER_SIGNALS)
    assert not [signal.name for signal in FLEET_SIGNALS if not origin(signal.name)]
    assert all("DCGM" in device_origin(signal.name) for signal in GPU_SIGNALS)
    assert all("litellm" in router_origin(signal.name) for signal in ROUTER_SIGNALS)


@pytest.mark.parametrize("kind", [ActionKind, ActionStatus, AuditKind, RefusalReason])
def test_every_word_of_an_action_and_of_the_audit_is_told(kind: Any) -> None:
    assert not missing(kind, first_cells(document("actions.md")))


def test_every_key_of_the_policy_is_told() -> None:
    told = {re.split(r"[.\]]+", key)[-1] or key for key in first_cells(document("policy.md"))}
    told |= {"pools", "bindings"}  # told by the keys within
    told |= {
        key.removesuffix("[]").rpartition(".")[2] for key in first_cells(document("policy.md"))
    }
    for section in (PolicyFile, Pool, Level, Binding):
        assert not missing(section.model_fields.keys() - {"actions", "ladder"}, told), section
    assert policy_reference() in document("policy.md"), "run: ds4watch policy reference"


def test_the_example_policy_is_one() -> None:
    block = re.search(r"```yaml\n(.*?)```", document("policy.md"), re.DOTALL)
    assert block
    assert PolicyFile(**yaml.safe_load(block[1])).bindings


def test_every_route_of_the_admin_api_is_told() -> None:
    told = re.findall(r"^\| `([A-Z]+ \S+)` \| (\w+) \|", document("admin-api.md"), re.MULTILINE)
    unused: Any = None
    anything: Any = object()
    app = create_app(
        Ports(unused, unused, unused, unused, unused, unused, hooks=anything),
        tokens=TokenTable(),
        render_metrics=bytes,
        clock=unused,
    )
    routes = {
        (f"{method.upper()} {path}", operation["x-required-role"])
        for path, operations in app.openapi()["paths"].items()
        for method, operation in operations.items()
        if not path.startswith("/api/v1/")
    }
    assert routes | {("GET /", "viewer"), ("GET /login", "none")} == set(told)


def commands() -> Iterator[str]:
    """Yield every command that a person can type, subcommands too."""
    for name, command in COMMANDS.items():
        module = __import__(command.module, fromlist=["app"])
        found = typer.main.get_command(module.app)
        if isinstance(found, TyperGroup):
            yield from (f"ds4watch {name} {sub}" for sub in found.commands)
            if not found.invoke_without_command:
                continue
        yield f"ds4watch {name}"


def test_every_command_is_told() -> None:
    told = first_cells(document("commands.md"))
    assert not [name for name in commands() if not any(cell.startswith(name) for cell in told)]


def test_every_shipped_rule_has_a_runbook_and_no_runbook_is_left_over() -> None:
    names = {
        rule.name
        for file in RULES
        for group in load_rules(file.read_text(encoding="utf-8"), str(file))
        for rule in group.rules
        if isinstance(rule, AlertRule)
    }
    assert names == {path.stem for path in (DOCS / "runbooks").glob("*.md")}
    for name in names:
        text = document(f"runbooks/{name}.md")
        assert text.startswith(f"# {name}\n")
        assert "## What you can do" in text


def test_every_fault_that_can_be_tried_is_told() -> None:
    text = document("faults.md")
    assert not [fault for fault in Fault if f"`{fault}`" not in text]


def test_every_part_of_the_ledger_is_told() -> None:
    for name in ("concepts.md", "cost.md"):
        assert not missing(Part, first_cells(document(name))), name


def test_every_phase_of_a_worker_is_told() -> None:
    text = document("architecture.md").lower()
    assert not [phase for phase in WorkerPhase if phase.value not in text]
