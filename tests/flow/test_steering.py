"""What the policy does to workers, and what persons say of it, on a daemon with its workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.flow.daemon import Daemon, ask, new_daemon, until

RULES = """\
groups:
  - name: flow
    rules:
      - alert: Odd
        expr: up{worker="sim-full-0"} == 1 and on () ds4_degradation_level == 1
        labels: {severity: warning}
      - alert: Odder
        expr: up{worker="sim-full-0"} == 1 and on () ds4_degradation_level == 2
        labels: {severity: warning}
"""
POLICY = """\
pools:
  default:
    settle_seconds: 0
    clear_hold_seconds: 1
    ladder:
      - {name: one, max_tokens_cap: 512}
      - {name: two, max_tokens_cap: 256}
actions:
  ask-first:
    kind: exclude_worker
    cooldown_seconds: 0
    action_cooldown_seconds: 0
    approval: {by: [ann], expires_seconds: 3}
    undo_after_seconds: 1
  only-told:
    kind: drain_worker
    dry_run: true
bindings:
  - {match: {alertname: Odd}, action: ask-first}
  - {match: {alertname: Odder}, action: only-told}
"""
"""Levels are put in force by hand here, and make the alerts fire."""


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon(rules=RULES, policy=POLICY, fleet={"min_hot": 1}) as daemon:
        daemon.up()
        yield daemon


def told(daemon: Daemon, *arguments: str, fails: bool = False) -> str:
    done = daemon.command(*arguments, *daemon.options)
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def decide(
    daemon: Daemon, verb: str, action: str, *, who: str, dry_run: bool = False
) -> dict[str, Any]:
    """Say yes or no as somebody else than who runs the tests, and return what came of it."""
    token = (daemon.state / "admin.token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    path = f"/api/ds4/v1/actions/{quote(action, safe='')}/{verb}"
    asked = ask(
        daemon.admin_port, path, {"who": who, "why": "a test", "dry_run": dry_run}, headers=headers
    ).json()
    told = f"/api/ds4/v1/commands/{asked['id']}"
    return until(
        lambda: (found := ask(daemon.admin_port, told).json())["status"] != "waiting" and found,
        "an answer",
    )


def actions(daemon: Daemon, status: str) -> list[str]:
    return [it["id"] for it in daemon.status()["steering"]["actions"] if it["status"] == status]


def level(daemon: Daemon, name: str) -> None:
    wanted = ["normal", "one", "two"].index(name)
    told(daemon, "act", name, "--why", "a test")
    until(lambda: daemon.level() == wanted, name)


def test_a_worker_is_drained_by_hand_and_let_go_again(daemon: Daemon) -> None:
    would = told(
        daemon, "act", "drain-worker", "--worker", "sim-full-0", "--dry-run", "--why", "looking"
    )
    assert would.startswith("would do drain-worker on sim-full-0; nothing is done")
    assert daemon.worker("sim-full-0")["phase"] == "ready"
    begun = told(daemon, "act", "drain-worker", "--worker", "sim-full-0", "--why", "looking")
    action = begun.strip().rpartition("its id is ")[2]
    until(lambda: daemon.worker("sim-full-0")["phase"] == "draining", "a drained worker")
    until(lambda: not actions(daemon, "planned") and action in actions(daemon, "applied"))
    # min_hot is 1, and the other one is left: one more is refused.
    refused = told(
        daemon, "act", "exclude-worker", "--worker", "sim-quantized-0", "--why", "x", fails=True
    )
    assert "refused: floor: 0 would be left to serve, min_hot is 1" in refused
    told(daemon, "undo", action, "--why", "seen enough")
    until(lambda: daemon.worker("sim-full-0")["phase"] == "ready", "a worker that serves again")
    until(lambda: action not in actions(daemon, "applied"), "an action taken back")
    (row,) = daemon.rows(f"SELECT status, who FROM actions WHERE id = '{action}'")
    assert row[0] == "undone"
    effect = [it["summary"] for it in daemon.audit("effect") if it["detail"]["id"] == action]
    assert "sim-full-0 is draining; a person asked for it: it helped" in effect[0]


def test_a_hold_stops_what_is_asked_for_by_hand_too(daemon: Daemon) -> None:
    told(daemon, "hold", "--pool", "default", "--for", "1m", "--why", "hands off")
    refused = told(daemon, "act", "one", "--why", "x", fails=True)
    assert "hold" in refused
    told(daemon, "resume", "--pool", "default")


def books(daemon: Daemon) -> list[Any]:
    """Return all that a deed would leave behind."""
    tables = ("holds", "silences", "worker_wishes", "api_keys", "actions")
    return [daemon.rows(f"SELECT * FROM {it}") for it in tables]


def test_a_dry_run_of_anything_by_hand_is_told_and_leaves_nothing_behind(daemon: Daemon) -> None:
    held = told(daemon, "hold", "sim-full-0", "--for", "1m", "--why", "hands off")
    assert "nothing is about to be done that it holds back" in held
    told(daemon, "silence", "Odd", "--for", "1m", "--why", "x")
    (silence,) = json.loads(told(daemon, "silences", "--json"))
    begun = told(daemon, "act", "exclude-worker", "--worker", "sim-quantized-0", "--why", "x")
    action = begun.strip().rpartition("its id is ")[2]
    until(lambda: action in actions(daemon, "applied"))
    before = books(daemon)
    for said, arguments in (
        ("hold on default until", ("hold", "--pool", "default", "--why", "x")),
        ("there is no pool and no worker sim-ful-0", ("hold", "sim-ful-0", "--why", "x")),
        ("the hold on sim-full-0 is lifted", ("resume", "sim-full-0")),
        ("it mutes nothing that fires now", ("silence", "Odd", "--why", "x")),
        ("nothing that it mutes fires now", ("unsilence", silence["id"])),
        ("would take exclude_worker on sim-quantized-0 back", ("undo", action, "--why", "x")),
        ("to be drained and stopped; 1 workers are ready", ("workers", "stop", "sim-full-0")),
        ("x is let in; nothing is done", ("keys", "add", "x")),
    ):
        assert said in told(daemon, *arguments, "--dry-run"), arguments
    for said, arguments in (
        ("there is no hold on sim-quantized-0", ("resume", "sim-quantized-0")),
        ("there is no action", ("undo", "act:4711", "--why", "x")),
        ("there is no worker w", ("workers", "stop", "w")),
        ("no rolling change is under way", ("fleet", "pause")),
        ("there is no key y", ("keys", "revoke", "y")),
    ):
        assert said in told(daemon, *arguments, "--dry-run", fails=True), arguments
    assert books(daemon) == before
    assert daemon.status()["policy"]["excluded_workers"] == ["sim-quantized-0"]
    told(daemon, "undo", action, "--why", "seen enough")
    told(daemon, "resume", "sim-full-0")
    until(lambda: not daemon.status()["policy"]["excluded_workers"], "a worker that serves")
    until(lambda: action not in actions(daemon, "applied"), "an action taken back")


def test_only_an_approver_in_time_lets_an_action_be_done_and_it_is_undone_when_all_is_well(
    daemon: Daemon,
) -> None:
    level(daemon, "one")
    (waits,) = until(lambda: actions(daemon, "waiting"), "an action that waits")
    for verb, said in (("approve", "would be begun"), ("refuse", "it goes on to wait")):
        dry = decide(daemon, verb, waits, who="ann", dry_run=True)
        assert (dry["status"], said in dry["told"]) == ("done", True), dry
    assert "only ann may say" in decide(daemon, "approve", waits, who="bob", dry_run=True)["told"]
    assert actions(daemon, "waiting") == [waits]
    no = decide(daemon, "approve", waits, who="bob")
    assert (no["status"], no["told"]) == ("refused", "only ann may say, not bob")
    yes = decide(daemon, "approve", waits, who="ann")
    assert yes["status"] == "done", yes
    until(lambda: daemon.status()["policy"]["excluded_workers"] == ["sim-full-0"], "an exclusion")
    level(daemon, "normal")
    until(lambda: daemon.status()["policy"]["excluded_workers"] == [], "an exclusion taken back")
    assert daemon.level() == 0
    # Nobody says anything the next time, which means no.
    level(daemon, "one")
    (waits,) = until(lambda: actions(daemon, "waiting"), "an action that waits")
    until(lambda: waits not in actions(daemon, "waiting"), "an end of the waiting")
    ((status,),) = daemon.rows(f"SELECT status FROM actions WHERE id = '{waits}'")
    assert status == "expired"
    late = decide(daemon, "approve", waits, who="ann")
    assert (late["status"], late["told"]) == ("refused", "it waits for nobody: it is expired")
    assert daemon.status()["policy"]["excluded_workers"] == []


def test_a_dry_run_is_told_and_not_done(daemon: Daemon) -> None:
    level(daemon, "two")
    until(
        lambda: any(
            "would do drain_worker on sim-full-0" in it["summary"] for it in daemon.audit()
        ),
        "a row of what would be done",
    )
    assert daemon.worker("sim-full-0")["phase"] == "ready"
    explained = json.loads(told(daemon, "policy", "explain", "Odder", "--json"))
    (asks,) = explained["alerts"][0]["asks"]
    assert asks["then"].startswith("only told, for the action only-told has dry_run: true")
    level(daemon, "normal")
