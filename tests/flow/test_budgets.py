"""Budgets of an hour that would be gone within seconds: service is eased before the wall."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from tests.flow.daemon import Answer, Daemon, ask, chat, new_daemon, until

pytestmark = pytest.mark.slow

RULES = """\
groups:
  - name: budgets
    interval: 1s
    rules:
      - alert: BudgetBurning
        expr: ds4_cost_budget_lasts_seconds{scope="total"} < 120
        labels: {severity: critical}
"""
POLICY = """\
pools:
  default:
    settle_seconds: 10
    ladder:
      - {name: shorter, max_tokens_cap: 16}
      - {name: shortest, max_tokens_cap: 4}
      - {name: least, max_tokens_cap: 2}
bindings:
  - {match: {alertname: BudgetBurning, severity: critical}, level: 3, jump: true}
"""
PRICES = [{"profile": "*", "per_hour": 3600}]
"""Each worker costs 1 a second."""


@pytest.fixture(autouse=True)
def _within_an_hour() -> None:
    """A test may not go over the end of an hour: a new budget begins there."""
    until(lambda: time.time() % 3600 < 3480, "a new hour", seconds=130)


def complete(daemon: Daemon, secret: str) -> Answer:
    headers = {"Authorization": f"Bearer {secret}"}
    body = chat(max_tokens=100)  # takes two seconds
    return ask(daemon.gateway_port, "/v1/chat/completions", body, headers=headers)


def key(daemon: Daemon) -> dict[str, Any]:
    (found,) = ask(daemon.admin_port, "/api/ds4/v1/keys").json()["keys"]
    return dict(found)


def test_a_key_whose_hour_would_be_gone_in_half_a_minute_is_eased_and_never_refused() -> None:
    limit = 40.0
    with new_daemon(policy=POLICY, sections={"cost": {"prices": PRICES}}) as daemon:
        daemon.up()
        made = daemon.command("keys", "add", "team", "--budget-hour", str(limit), *daemon.options)
        secret = made.stdout.strip()
        until(lambda: complete(daemon, secret).status == 200, "a key that is let in")
        answers: list[Answer] = []
        over = threading.Event()

        def asks() -> None:
            while not over.is_set():  # as users do: one every second, however long the answer
                one = threading.Thread(target=lambda: answers.append(complete(daemon, secret)))
                one.start()
                over.wait(1.0)
            one.join()

        asker = threading.Thread(target=asks)
        asker.start()
        try:
            until(lambda: key(daemon)["eased"] == "firm", "a key that is eased firmly")
            left_then, began = key(daemon)["left"]["nanos"] / 1e9, time.monotonic()
            assert left_then > 0.3 * limit
            until(lambda: time.monotonic() - began > 15, "a while of it")
            spent_since = left_then - key(daemon)["left"]["nanos"] / 1e9
        finally:
            over.set()
            asker.join()
        # Uneased both workers are busy most of the time: about 2 a second.
        assert spent_since / (time.monotonic() - began) < 0.8
        assert {it.status for it in answers} == {200}
        assert "budget=eased" in answers[-1].headers["x-ds4-degraded"]


def test_the_budget_of_all_that_would_be_gone_in_a_minute_leads_to_a_jump_before_it_is() -> None:
    budgets = [{"limit": 160, "period": "hour"}]
    sections = {"cost": {"prices": PRICES, "budgets": budgets}}
    with new_daemon(rules=RULES, policy=POLICY, sections=sections) as daemon:
        daemon.up()
        until(lambda: daemon.level() == 3, "a jump to the level that a critical burn asks for")
        spent = daemon.metric('ds4_cost_budget_spent{scope="total"')
        spent = spent or daemon.metric("ds4_cost_budget_spent")
        assert spent is not None
        assert spent < 0.6 * 160
        assert daemon.complete(max_tokens=100).json()["usage"]["completion_tokens"] == 2
        (applied,) = daemon.rows("SELECT target, status FROM actions WHERE kind = 'set_level'")
        assert applied == ("default", "applied")
