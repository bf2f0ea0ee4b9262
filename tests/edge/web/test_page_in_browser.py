from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any, Literal

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


async def test_a_person_sees_each_part_and_markup_from_workers_stays_text(browser: Browser) -> None:
    daemon = PageDaemon(steering={"dry_run": True, "trial_until": None})
    daemon.state["fleet"][1]["reason"] = "<img src=x onerror=alert(1)>"
    async with (
        serving(daemon, queries=PageHistory()) as server,
        looking(browser) as (page, faults),
    ):
        await page.goto(server.url)
        await expect(page.locator("#level")).to_have_text("2: cheaper-sibling")
        await expect(page.locator("#level-why")).to_have_text("QueueDepthHigh on sim-full-1")
        await expect(page.locator("#level-effects")).to_contain_text("at most 16 tokens an answer")
        await expect(page.locator("#level-dry")).to_have_text("dry run: told, not done")
        waiting = "Waiting for: sim-quantized-1 to load its model"
        await expect(page.locator("#waiting")).to_have_text(waiting)
        await expect(page.locator("#ready")).to_have_text("1 of 2")
        await expect(page.locator("#alert-count")).to_have_text("1 firing")
        await expect(page.locator("#cost-hour")).to_have_text("1.90\u00a0USD")
        card = page.locator("#fleet > li", has_text="sim-full-1")
        await expect(card).to_contain_text("81.2\u00a0%")  # memory
        await expect(card).to_contain_text("8 running")
        await expect(card).to_contain_text("75.0\u00a0%")  # hits
        await expect(card).to_contain_text("143 out, 813 in")
        await expect(card.locator(".spark .line").first).to_have_attribute("d", re.compile("M0.0,"))
        await expect(page.locator("#fleet")).to_contain_text("<img src=x onerror=alert(1)>")
        assert await page.locator("#fleet img").count() == 0
        await expect(page.locator("#audit")).to_contain_text("level 1 to 2 (cheaper-sibling)")
        assert faults == []


async def test_alerts_say_how_far_each_tier_is(browser: Browser) -> None:
    async with (
        serving(PageDaemon(), queries=PageHistory()) as server,
        looking(browser) as (page, faults),
    ):
        await page.goto(server.url)
        alert = page.locator("#alerts > li", has_text="QueueDepthHigh")
        await expect(alert).to_contain_text("warning over 20: passed by 3, firing")
        await expect(alert).to_contain_text("critical over 50: 27 to go")
        await expect(page.locator("#alerts > li", has_text="CacheMissHigh")).to_contain_text(
            "silenced"
        )
        await expect(page.locator("#near")).to_contain_text("warning under 1: 1 to go")
        await page.locator("#rules-title").click()
        await expect(page.locator("#rules > li")).to_have_count(2)
        assert faults == []


class SlowTiers(PageDaemon):
    """With tiers of one threshold, that wait for different times."""

    def rules(self) -> list[dict[str, Any]]:
        found = super().rules()
        rule = next(it for it in found if it["name"] == "QueueDepthHigh")
        for tier, wait in zip(rule["tiers"][1:], (60.0, 600.0), strict=True):
            tier.update(threshold=20.0, for_seconds=wait)
        return found


async def test_an_alert_leads_to_its_runbook_which_the_daemon_has(browser: Browser) -> None:
    daemon = PageDaemon()
    daemon.state["alerts"][1]["runbook_url"] = "javascript:alert(1)"
    async with (
        serving(daemon, queries=PageHistory()) as server,
        looking(browser) as (page, faults),
    ):
        await page.goto(server.url)
        links = page.get_by_role("link", name="Runbook")
        await expect(links).to_have_count(1)  # none to what is no address
        assert faults == []
        await links.click()
        await expect(page.locator("body")).to_contain_text("# QueueDepthHigh")
        assert page.url == f"{server.url}/runbooks/QueueDepthHigh.md"


async def test_tiers_with_one_threshold_are_told_apart_by_how_long(browser: Browser) -> None:
    async with (
        serving(SlowTiers(), queries=PageHistory()) as server,
        looking(browser) as (page, faults),
    ):
        await page.goto(server.url)
        row = page.locator("#alerts > li", has_text="QueueDepthHigh")
        await expect(row).to_contain_text("over 20 for 60\u00a0s: passed by 3")
        await expect(row).to_contain_text("over 20 for 600\u00a0s: passed by 3")
        assert faults == []


async def test_money_history_and_load_ahead_are_drawn_and_told_in_tables(browser: Browser) -> None:
    history = PageHistory()
    async with serving(PageDaemon(), queries=history) as server, looking(browser) as (page, faults):
        await page.goto(server.url)
        await expect(page.locator("#why tr")).to_have_text(
            ["expected2.00\u00a0EUR", "traffic+1.00\u00a0EUR", "price+2.00\u00a0EUR",
             "this hour5.00\u00a0EUR"]
        )  # fmt: skip
        await expect(page.locator("#parts tr").first).to_have_text("busy2.50\u00a0EUR")
        await expect(page.locator("#ahead")).to_contain_text("5.5 (4 to 7)")
        await expect(page.locator("#ahead")).to_contain_text("1 + 1 starting of 2")
        await expect(page.locator("#forecasts canvas")).to_have_count(1)
        await expect(page.locator("#charts canvas")).to_have_count(6)
        await expect(page.locator("#timeline .bar.firing")).not_to_have_count(0)
        first = page.locator("#charts figure").first
        await first.locator(".plot").focus()
        await page.keyboard.press("Home")
        await expect(first.locator(".when")).not_to_have_text("now")
        await page.keyboard.press("Escape")
        await expect(first.locator(".when")).to_have_text("now")
        await first.locator(".plot").hover()
        await expect(first.locator(".when")).not_to_have_text("now")
        await first.get_by_text("As a table").click()
        await expect(first.get_by_role("columnheader")).to_have_text(
            ["Time", "generated", "prompt"]
        )
        history.asked.clear()
        async with page.expect_response(lambda it: "step=4" in it.url):
            await page.get_by_text("15 min").click()
        assert faults == []


async def test_who_is_not_logged_in_reads_and_is_told_how_to_log_in(browser: Browser) -> None:
    async with (
        serving(PageDaemon(), queries=PageHistory()) as server,
        looking(browser) as (page, _faults),
    ):
        await page.goto(server.url)
        await expect(page.locator("#approvals")).to_contain_text("KvCachePressure is firing")
        await page.get_by_text("Log in").click()
        await expect(page.locator("#login-help")).to_contain_text("ds4watch status --link")
        for name in ("Hold", "Approve", "Refuse", "Silence", "Undo"):
            assert await page.get_by_role("button", name=name).count() == 0, name


async def test_an_operator_holds_and_resumes_with_the_keyboard_alone(browser: Browser) -> None:
    daemon = PageDaemon()
    async with serving(daemon, queries=PageHistory()) as server, looking(browser) as (page, faults):
        await log_in(page, server)
        await expect(page.locator("#who")).to_have_text("operator (operator)")
        await page.locator("#hold").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_be_hidden()
        await expect(page.locator("#hold")).to_be_focused()
        await page.keyboard.press("Enter")
        await page.get_by_label("Why").fill("a look at the queue")
        await page.keyboard.press("Enter")
        await expect(page.locator("#holds")).to_contain_text("everything, by operator: a look at")
        assert daemon.held["*"]["until_at"] == AT + 3600
        await page.get_by_role("button", name="Resume everything").click()
        await expect(page.locator("#holds")).to_be_hidden()
        assert daemon.held == {}
        assert faults == []


async def test_an_operator_approves_refuses_and_undoes(browser: Browser) -> None:
    daemon = PageDaemon()
    asked = daemon.desk.asked
    async with serving(daemon, queries=PageHistory()) as server, looking(browser) as (page, faults):
        await log_in(page, server)
        title = page.locator("#approvals-title")
        await expect(title).to_have_text("1 action waits for approval")
        await page.get_by_role("button", name="Approve set level on sim-full").click()
        await page.get_by_role("dialog").get_by_role("button", name="Approve").click()
        await expect(page.locator("#toasts")).to_contain_text("approve: done")
        await expect(page.locator("#approvals-section")).to_be_hidden()
        await page.get_by_role("button", name="Undo last action").click()
        await page.get_by_role("dialog").get_by_role("button", name="Undo").click()
        await expect(page.locator("#toasts")).to_contain_text("undo: done")
        assert [(it["kind"], it["body"]["why"]) for it in asked] == [
            ("approve", "from the status page"),
            ("undo", "from the status page"),
        ]
        assert faults == []


async def test_an_operator_silences_an_alert_and_ends_that(browser: Browser) -> None:
    daemon = PageDaemon()
    async with serving(daemon, queries=PageHistory()) as server, looking(browser) as (page, faults):
        await log_in(page, server)
        alert = page.locator("#alerts > li", has_text="QueueDepthHigh")
        await alert.get_by_role("button", name="Silence 1 h").click()
        await expect(alert.get_by_role("button", name="End silence")).to_be_visible()
        (placed,) = daemon.desk.placed.values()
        assert placed["ends_at"] == AT + 3600
        assert placed["matchers"] == ['alertname="QueueDepthHigh"', 'worker="sim-full-1"']
        await alert.get_by_role("button", name="End silence").click()
        await expect(alert.get_by_role("button", name="Silence 1 h")).to_be_visible()
        assert faults == []


async def test_a_session_that_ended_leaves_a_page_that_reads(browser: Browser) -> None:
    async with (
        serving(PageDaemon(), queries=PageHistory()) as server,
        looking(browser) as (page, _faults),
    ):
        await log_in(page, server)
        await page.get_by_role("button", name="Log out").click()
        await expect(page.locator("#who")).to_have_text("read only")
        await expect(page.locator("#hold")).to_be_hidden()


async def test_what_happens_is_seen_at_once_by_events(browser: Browser) -> None:
    daemon = PageDaemon()
    async with serving(daemon, queries=PageHistory()) as server, looking(browser) as (page, faults):
        await page.goto(server.url)
        await expect(page.locator("#live")).to_have_text("live")
        daemon.desk.happen("outcome", "level 2 to 1: it is over")
        await expect(page.locator("#audit")).to_contain_text("level 2 to 1: it is over")
        await expect(page.locator("#said")).to_have_text("level 2 to 1: it is over")
        for alert in daemon.state["alerts"]:
            alert["phase"] = "resolved"
        await expect(page.locator("#level-why")).to_contain_text("That is over; the level follows")
        await expect(page.locator("#alerts > li").first).to_contain_text("Last: ")
        assert faults == []


async def test_a_daemon_that_is_gone_and_back_is_told_and_followed_again(browser: Browser) -> None:
    daemon = PageDaemon()
    daemon.desk.happen("alert", "before")
    async with looking(browser) as (page, _faults):
        async with serving(daemon, queries=PageHistory()) as server:
            port = server.port
            await page.goto(server.url)
            await expect(page.locator("#live")).to_have_text("live")
        await expect(page.locator("#banner")).to_contain_text("The daemon does not answer since ")
        await expect(page.locator("body")).to_have_class("stale")
        await expect(page.locator("#level")).to_have_text("2: cheaper-sibling")
        daemon.state["policy"] |= {"level": 0, "level_name": "normal"}
        async with serving(daemon, queries=PageHistory(), port=port):
            await page.get_by_role("button", name="Ask now").click()
            await expect(page.locator("#banner")).to_contain_text("The daemon is back, after ")
            await expect(page.locator("#level")).to_have_text("normal")
            await expect(page.locator("#live")).to_have_text("live")
            daemon.desk.happen("alert", "after")
            await expect(page.locator("#audit")).to_contain_text("after")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
async def test_everybody_can_use_it(
    browser: Browser, scheme: Literal["light", "dark"], width: int
) -> None:
    async with (
        serving(PageDaemon(), queries=PageHistory()) as server,
        looking(browser, scheme=scheme, width=width) as (page, faults),
    ):
        await log_in(page, server)
        await expect(page.locator("#forecasts canvas")).to_have_count(1)
        await expect(page.locator("#charts canvas")).to_have_count(6)
        await expect(page.locator("#near > li")).to_have_count(1)
        background = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert background == {"light": "rgb(244, 246, 249)", "dark": "rgb(15, 19, 26)"}[scheme]
        for box in await page.locator("details > summary:visible").all():
            await box.click()
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await serious_faults(page) == []
        await page.locator("#hold").click()
        assert await serious_faults(page) == []
        await page.keyboard.press("Escape")
        await page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        assert faults == []


async def test_the_first_stop_of_the_keyboard_is_the_way_to_the_content(browser: Browser) -> None:
    async with (
        serving(PageDaemon(), queries=PageHistory()) as server,
        looking(browser) as (page, _faults),
    ):
        await page.goto(server.url)
        await page.keyboard.press("Tab")
        await expect(page.get_by_text("Skip to the content")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator("#main")).to_be_focused()


async def test_what_stands_still_is_not_moved_by_an_update(browser: Browser) -> None:
    daemon = PageDaemon()
    async with (
        serving(daemon, queries=PageHistory()) as server,
        looking(browser) as (page, _faults),
    ):
        await log_in(page, server)
        await expect(page.locator("#charts canvas")).to_have_count(6)
        await expect(page.locator("#near > li")).to_have_count(1)
        await expect(page.locator("#ahead tr")).to_have_count(1)
        parts = "[...document.querySelectorAll('section, .card, .alert, figure')]"
        places = f"{parts}.map(it => it.offsetTop)"
        before = await page.evaluate(places)
        button = page.get_by_role("button", name="Silence 1 h: QueueDepthHigh")
        await button.focus()
        daemon.state["fleet"][0]["load"]["waiting"] = 24.0
        await expect(page.locator("#fleet")).to_contain_text("24")
        assert await page.evaluate(places) == before
        await expect(button).to_be_focused()
