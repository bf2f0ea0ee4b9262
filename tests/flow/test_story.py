"""One load from calm to calm: alert, degradation, recovery, and what the books say of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest

from tests.flow.daemon import Answer, Daemon, ended, new_daemon, until

pytestmark = pytest.mark.slow

QUEUE_HIGH = """\
groups:
  - name: flow
    rules:
      - alert: QueueHigh
        expr: sum(ds4_queue_depth) > 50
        for: 1s
        keep_firing_for: 1s
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
"""
PRICE_PER_HOUR = 0.95
LEVEL = 'ds4_degradation_level{pool="default"}'
SPENT = "ds4_cost_spent_total{"


@dataclass(slots=True)
class Story:
    """What a person saw from before the load until all was normal again."""

    daemon: Daemon
    before: dict[str, Any]
    calm: Answer
    levels: list[int] = field(default_factory=list)
    """Each level that was seen, without repetitions."""
    phases: list[str] = field(default_factory=list)
    """Each phase of the alert that was seen, without repetitions."""
    degraded: Answer | None = None
    highest_metric: float = 0.0
    load: dict[str, Any] = field(default_factory=dict)
    after: dict[str, Any] = field(default_factory=dict)

    def look(self) -> int:
        """Note what stands now, and return the level."""
        status = self.daemon.status()
        level = int(status["policy"]["level"])
        if self.levels[-1:] != [level]:
            self.levels.append(level)
        for alert in status["alerts"]:
            if alert["name"] == "QueueHigh" and self.phases[-1:] != [alert["phase"]]:
                self.phases.append(alert["phase"])
        self.highest_metric = max(self.highest_metric, self.daemon.metric(LEVEL) or 0.0)
        return level


@pytest.fixture(scope="module")
def story() -> Iterator[Story]:
    with new_daemon(rules=QUEUE_HIGH) as daemon, ThreadPoolExecutor(1) as pool:
        daemon.up()
        story = Story(daemon, before=daemon.status(), calm=daemon.complete(max_tokens=64))
        story.look()
        load = daemon.begin(
            *("load", "--url", f"http://127.0.0.1:{daemon.gateway_port}", "--model", "sim"),
            *("--concurrency", "96", "--seconds", "6", "--no-stream", "--json"),
        )
        try:
            until(lambda: story.look() == 2, "the highest level")
            # it waits its turn behind the load
            asked = pool.submit(daemon.complete, max_tokens=64)
            until(lambda: story.look() is not None and load.poll() is not None, "the load's end")
            story.load = json.loads(ended(load))
            story.degraded = asked.result()
        finally:
            load.kill()
        until(lambda: story.look() == 0, "the lowest level")
        until(lambda: daemon.metric(LEVEL) == 0, "the lowest level on /metrics")
        until(lambda: daemon.booked() == sent(story), "every request in the ledger")
        story.after = daemon.status()
        yield story


def sent(story: Story) -> int:
    return int(story.load["requests"]) + 2


def test_the_load_makes_the_alert_pending_then_firing_then_resolved(story: Story) -> None:
    assert story.phases == ["pending", "firing", "resolved"]


def test_the_gateway_degrades_step_by_step_and_recovers_step_by_step(story: Story) -> None:
    assert story.levels == [0, 1, 2, 1, 0]
    assert story.highest_metric == 2


def test_a_degraded_answer_is_shorter_and_says_so(story: Story) -> None:
    calm, degraded = story.calm, story.degraded
    assert calm.status == 200
    assert calm.json()["usage"]["completion_tokens"] == 64
    assert "x-ds4-degraded" not in calm.headers
    assert degraded is not None
    assert degraded.status == 200
    assert degraded.json()["usage"]["completion_tokens"] == 16
    assert degraded.headers["x-ds4-degraded"] == "level=2;max_tokens=16"


def test_the_load_lost_no_request_and_saw_the_degradation(story: Story) -> None:
    assert story.load["ok"] == story.load["requests"] > 96
    assert story.load["errors"] == {}
    assert story.load["degraded"] > 0


def test_the_audit_tells_the_story_in_order(story: Story) -> None:
    told = [it for row in story.daemon.audit() if (it := in_short(row))]
    assert told == [
        "QueueHigh inactive → pending",
        "QueueHigh pending → firing",
        "level 0 → 1",
        "applied at level 1",
        "level 1 → 2",
        "applied at level 2",
        "QueueHigh firing → resolved",
        "level 2 → 1",
        "applied at level 1",
        "level 1 → 0",
        "applied at level 0",
    ]


def in_short(row: dict[str, Any]) -> str:
    detail = row["detail"]
    match row["kind"]:
        case "alert":
            return f"{row['target']} {detail['old']} → {detail['new']}"
        case "plan":
            return f"level {detail['before']['level']} → {detail['parameters']['level']}"
        case "outcome":
            return f"{detail['status']} at level {detail['after']['level']}"
    return ""


def test_the_command_line_tells_it_too(story: Story) -> None:
    config = ("--config", str(story.daemon.config))
    told = story.daemon.command("audit", *config)
    assert told.returncode == 0, told.stderr
    lines = told.stdout.splitlines()
    expected = ("→ pending", "→ firing", "planned", "applied", "→ resolved")
    places = [next(at for at, line in enumerate(lines) if word in line) for word in expected]
    assert places == sorted(places)
    shown = story.daemon.command("status", *config)
    assert shown.returncode == 0, shown.stderr
    for word in ("sim-full-0", "sim-quantized-0", "QueueHigh", "resolved", "normal"):
        assert word in shown.stdout


def test_the_history_shows_how_the_alert_stood(story: Story) -> None:
    config = ("--state", str(story.daemon.state), "--start", "10m", "--step", "1")
    found = story.daemon.command("history", "query", 'ALERTS{alertname="QueueHigh"}', *config)
    assert found.returncode == 0, found.stderr
    assert "pending" in found.stdout
    assert "firing" in found.stdout


def test_two_workers_cost_what_their_hours_cost(story: Story) -> None:
    before, after = story.before["cost"], story.after["cost"]
    assert float(after["per_hour"]) == 2 * PRICE_PER_HOUR
    hours = (story.after["at"] - story.before["at"]) / 3600
    rise = float(after["spent_total"]) - float(before["spent_total"])
    assert rise == pytest.approx(2 * PRICE_PER_HOUR * hours, rel=0.25)
    paid = float(after["spent_total"]) - 1e-6
    until(lambda: (story.daemon.metric(SPENT) or 0) >= paid, "the same on /metrics, a tick later")


def test_the_books_hold_every_request_token_and_nano(story: Story) -> None:
    ((requests, generated),) = story.daemon.rows(
        "SELECT sum(requests), sum(completion_tokens) FROM requests_hourly WHERE outcome = 'ok'"
    )
    assert requests == sent(story)
    assert generated == story.load["completion_tokens"] + 64 + 16
    shown = spent(story.daemon)
    ((nanos,),) = story.daemon.rows("SELECT sum(nanos) FROM cost_hourly")
    assert nanos / 1e9 >= shown - 1e-6
    until(lambda: spent(story.daemon) >= nanos / 1e9 - 1e-6, "as much as the table holds, shown")


def test_what_was_busy_is_told_by_stage_and_the_hour_is_kept_over_a_restart(story: Story) -> None:
    daemon = story.daemon
    ((busy,),) = daemon.rows(
        "SELECT sum(nanos) FROM cost_hourly WHERE part IN ('busy', 'prefill', 'decode')"
    )
    stages = [
        daemon.metric(f'ds4_cost_used_total{{currency="USD",profile="sim-full",stage="{it}"}}')
        for it in ("prefill", "decode")
    ]
    assert all(stages), stages
    used = daemon.metric("ds4_cost_used_total{") or 0.0
    assert 0 < used <= busy / 1e9 + 1e-6
    ((carry,),) = daemon.rows("SELECT value FROM meta WHERE name = 'carry'")
    assert "cost_hours" in json.loads(carry)


def spent(daemon: Daemon) -> float:
    return float(daemon.status()["cost"]["spent_total"])


def test_the_openai_client_gets_the_same_text_streamed_and_whole(story: Story) -> None:
    messages: Any = [{"role": "user", "content": "Tell me of the sea"}]
    url = f"http://127.0.0.1:{story.daemon.gateway_port}/v1"
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        assert {"sim", "sim-full", "sim-quantized"} <= {model.id for model in client.models.list()}
        create = client.chat.completions.create
        whole = create(model="sim-full", messages=messages, max_tokens=12)
        stream = create(model="sim-full", messages=messages, max_tokens=12, stream=True)
        pieces = [it.choices[0].delta.content or "" for it in stream if it.choices]
    text = whole.choices[0].message.content
    assert text
    assert "".join(pieces) == text
    assert len([piece for piece in pieces if piece]) > 1
