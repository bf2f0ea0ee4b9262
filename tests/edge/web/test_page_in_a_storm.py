"""What the page makes of much at once: many alerts alike, many workers, a choice to be made."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.edge.web.fake_answers import AT
from tests.edge.web.fakes import serving
from tests.edge.web.page import (
    PageDaemon,
    PageHistory,
    chromium,
    log_in,
    looking,
    serious_faults,
)

pytestmark = [pytest.mark.needs("chromium"), pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as found:
        yield found


async def test_many_alerts_alike_share_a_row_until_it_is_opened(browser: Browser) -> None:
    daemon = PageDaemon()
    first = daemon.state["alerts"][0]
    for number in range(12):
        worker = f"gpu-{number:02}"
        labels = {"alertname": "ScrapeDown", "severity": "warning", "worker": worker}
        told = {"name": "ScrapeDown", "phase": "firing", "severity": "warning", "labels": labels}
        daemon.state["alerts"].append(first | told | {"summary": f"{worker} is silent"})
    async with (
        serving(daemon, queries=PageHistory()) as server,
        looking(browser, width=390) as (page, faults),
    ):
        await page.goto(server.url)
        rows = page.locator("#alerts > .alert", has_text="ScrapeDown")
        await expect(rows).to_have_count(1)
        more = page.get_by_role("button", name="Show 11 more: ScrapeDown, firing")
        await expect(page.locator("#alerts > .alike")).to_contain_text("gpu-01, gpu-02")
        await more.click()
        await expect(rows).to_have_count(12)
        fewer = page.get_by_role("button", name="Show fewer: ScrapeDown, firing")
        await expect(fewer).to_have_attribute("aria-expanded", "true")
        assert await serious_faults(page) == []
        await fewer.click()
        await expect(rows).to_have_count(1)
        assert faults == []


async def test_of_many_workers_those_in_trouble_are_shown_and_some(browser: Browser) -> None:
    daemon = PageDaemon()
    ready, other = daemon.state["fleet"]
    fleet = [copy.deepcopy(ready) | {"id": f"gpu-{it:03}"} for it in range(100)]
    daemon.state["fleet"] = [*fleet, other | {"phase": "failed"}]
    async with (
        serving(daemon, queries=PageHistory()) as server,
        looking(browser) as (page, faults),
    ):
        await page.goto(server.url)
        cards = page.locator("#fleet > li")
        await expect(cards).to_have_count(24)
        await expect(cards.first).to_contain_text("failed")
        await page.get_by_role("button", name="Show all 101 workers: 77 more are ready").click()
        await expect(cards).to_have_count(101)
        await page.get_by_role("button", name="Show fewer workers").click()
        await expect(cards).to_have_count(24)
        assert faults == []


async def test_what_waits_for_a_person_says_who_may_until_when_and_what_follows(
    browser: Browser,
) -> None:
    waiting = {"id": "restart_worker:sim-full-1:7", "status": "waiting", "expires_at": AT + 900}
    steering = {
        "dry_run": False,
        "trial_until": None,
        "levels": {"default": 4},
        "actions": [waiting | {"approvers": ["ann", "bob"]}],
    }
    daemon = PageDaemon(steering=steering)
    daemon.desk.stored_actions[-1]["parameters"] = {
        "action": "restart-slow",
        "verify_seconds": 300,
        "signal": "",
        "otherwise": "undo",
        "undo_after_seconds": None,
    }
    async with (
        serving(daemon, queries=PageHistory()) as server,
        looking(browser) as (page, faults),
    ):
        await log_in(page, server)
        row = page.locator("#approvals > li")
        await expect(row).to_contain_text("“restart-slow” in the policy; it has 5\u00a0min to show")
        await expect(row).to_contain_text("taken back if it does not")
        await expect(row).to_contain_text("only ann, bob may approve")
        await expect(row).to_contain_text("means no")
        await expect(row).not_to_contain_text("null")
        await expect(page.locator("#pips")).to_have_attribute("aria-label", "Level 2 of 4")
        await expect(page.locator("#pips .pip")).to_have_count(4)
        assert faults == []
