"""Waves over time: each group at its own pace, slow targets less often."""

from __future__ import annotations

import logging
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import pytest
from aiohttp import web

from ds4watch.model.errors import EdgeReason
from ds4watch.model.scrape import FLEET_GROUP, Target
from ds4watch.scrape.descriptors import raise_limit
from ds4watch.scrape.options import ScrapeOptions
from ds4watch.scrape.wave import Scraper
from tests.edge.scrape.wave_support import (
    START,
    Site,
    always,
    by_name,
    good,
    hang,
    scraper,
    text_page,
)
from tests.edge.scrape.wave_support import (
    site as _site,
)

site = _site


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return START + self.at

    def monotonic(self) -> float:
        return self.at


async def scraped_at(
    subject: Scraper, clock: SetClock, targets: list[Target], *, times: int, step: float
) -> dict[str, list[float]]:
    """Ask for waves in steps; return when each target was scraped, counted from the first."""
    begun = clock.at
    scraped: dict[str, list[float]] = {target.name: [] for target in targets}
    for _ in range(times):
        for result in await subject.wave(targets, START):
            scraped[result.target.name].append(clock.at - begun)
        clock.at += step
    return scraped


async def test_each_group_is_scraped_at_its_own_interval(site: Site) -> None:
    clock = SetClock()
    groups = {
        "slow": ScrapeOptions(interval_seconds=3.0),
        "odd": ScrapeOptions(interval_seconds=2.5),
        "fast": ScrapeOptions(interval_seconds=0.1),
    }
    targets = [
        site.target("w"),
        *(Target(name, site.target(name).url, group=name) for name in groups),
    ]
    async with scraper(groups=groups, interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, targets, times=9, step=1.0)
    assert scraped["w"] == scraped["fast"] == list(range(9))
    assert scraped["slow"] == [0, 3, 6]
    assert scraped["odd"] == [0, 2, 5, 7]


async def test_waves_that_come_late_do_not_make_up_for_missed_scrapes(site: Site) -> None:
    clock = SetClock()
    slow = {"slow": ScrapeOptions(interval_seconds=3.0)}
    targets = [Target("slow", site.target("slow").url, group="slow")]
    async with scraper(groups=slow, interval_seconds=1.0, clock=clock) as subject:
        await scraped_at(subject, clock, targets, times=1, step=20.0)
        scraped = await scraped_at(subject, clock, targets, times=6, step=1.0)
    assert scraped["slow"] == [0, 3]


async def test_groups_can_be_replaced_while_running(site: Site) -> None:
    clock = SetClock()
    targets = [Target("w", site.target("w").url, group="g"), site.target("v")]
    async with scraper(interval_seconds=1.0, clock=clock) as subject:
        (alone,) = (it for it in await subject.wave(targets, START) if it.failure)
        assert alone.failure is not None
        assert "no target group 'g'" in alone.failure.message
        fleet = ScrapeOptions(interval_seconds=1.0)
        subject.set_groups({FLEET_GROUP: fleet, "g": ScrapeOptions(max_body_bytes=3)})
        failures = {it.target.name: it.failure for it in await subject.wave(targets, START)}
        assert failures["v"] is None
        assert failures["w"] is not None
        assert failures["w"].reason is EdgeReason.TOO_LARGE
        subject.set_groups({FLEET_GROUP: fleet, "g": ScrapeOptions()})
        results = by_name(await subject.wave(targets, START))
        assert results["w"].values.tolist() == [1.0, 2.0]


async def test_of_two_targets_with_one_name_the_first_is_scraped_and_it_is_told(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    twins = [site.target("w"), Target("w", site.target("v").url), site.target("w")]
    async with scraper() as subject:
        (result,) = await subject.wave(twins, START)
    assert result.target == twins[0]
    assert site.hits == {"w": 1}
    assert "two targets are called w" in caplog.text


async def test_a_target_that_moves_is_scraped_at_its_new_address(site: Site) -> None:
    async with scraper() as subject:
        await subject.wave([site.target("w")], START)
        (result,) = await subject.wave([Target("w", site.target("v").url)], START)
    assert result.failure is None
    assert site.hits == {"w": 1, "v": 1}


async def test_one_that_times_out_again_and_again_is_scraped_less_often_until_it_answers(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ds4watch.scrape")
    hang(site)
    clock = SetClock()
    brief = {"brief": ScrapeOptions(interval_seconds=1.0, timeout_seconds=0.02)}
    targets = [Target("hangs", site.target("hangs").url, group="brief"), site.target("w")]
    async with scraper(groups=brief, interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, targets, times=34, step=1.0)
        subject.set_groups({name: ScrapeOptions() for name in ("brief", FLEET_GROUP)})
        site.release.set()
        again = await scraped_at(subject, clock, targets, times=8, step=1.0)
    assert scraped["hangs"] == [0, 1, 2, 4, 8, 16, 24, 32]
    assert scraped["w"] == list(range(34))
    assert again["hangs"] == [6, 7]
    told = [record.message for record in caplog.records]
    assert sum("scraped less often" in line for line in told) == 1
    assert told[-1] == "scrapes of hangs succeed again"
    assert len(told) == 3


async def test_a_long_interval_is_not_stretched_beyond_a_minute(site: Site) -> None:
    hang(site)
    clock = SetClock()
    groups = {"slow": ScrapeOptions(interval_seconds=25.0, timeout_seconds=0.01)}
    targets = [Target("hangs", site.target("hangs").url, group="slow")]
    async with scraper(groups=groups, interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, targets, times=8, step=25.0)
    assert scraped["hangs"] == [0, 25, 50, 100, 150]


async def test_case_8_a_slow_page_takes_at_most_half_of_a_workers_time(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ds4watch.scrape")
    clock = SetClock()
    took = 2.5

    async def slow(request: web.Request) -> web.Response:
        clock.at += took
        return await good(request)

    site.pages["slow"] = slow
    targets = [Target("slow", site.target("slow").url, group="g")]
    groups = {"g": ScrapeOptions(interval_seconds=0.1)}  # it is scraped at the base interval
    async with scraper(groups=groups, interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, targets, times=9, step=1.0)
        took = 0.2
        quick = await scraped_at(subject, clock, targets, times=7, step=1.0)
        assert subject.left_out == 9
    ends = scraped["slow"]
    assert [after - before for before, after in pairwise(ends)] == [6.5, 6.5]
    assert len(quick["slow"]) == 4
    told = [record.message for record in caplog.records]
    assert len(told) == 2
    assert told[0].startswith("the page of slow took 2.5 s, and the interval is 1 s")
    assert told[1] == "the page of slow is quick again"


async def test_more_targets_than_files_may_be_open_are_told_once_with_the_mending(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    targets = [site.target(f"w{n}") for n in range(30)]
    with open_files(220):
        async with scraper() as subject:
            await subject.wave(targets, START)
            await subject.wave(targets[:25], START)
            await subject.wave(targets[:10], START)
    (told,) = [record.message for record in caplog.records]
    assert told.startswith("30 targets need a connection each, and at most 220 files may be open")
    assert "raise the limit to 230 or more (ulimit -Hn; LimitNOFILE=" in told


def test_the_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with open_files(220):
        assert raise_limit() == min(hard, 1 << 20)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (raise_limit(), hard)


@contextmanager
def open_files(soft: int) -> Iterator[None]:
    """Allow so many open files meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_few_missed_answers_in_a_burst_change_nothing(site: Site) -> None:
    """A busy worker may miss a round (cases 7 and 8): no scrape is left out for that."""
    hang(site)
    clock = SetClock()
    targets = [site.target("hangs")]
    async with scraper(timeout_seconds=0.01, interval_seconds=1.0, clock=clock) as subject:
        missed = await scraped_at(subject, clock, targets, times=2, step=1.0)
        subject.set_groups({FLEET_GROUP: ScrapeOptions()})
        site.release.set()
        answered = await scraped_at(subject, clock, targets, times=4, step=1.0)
    assert missed["hangs"] == [0, 1]
    assert answered["hangs"] == [0, 1, 2, 3]


async def test_other_failures_than_time_outs_leave_no_scrape_out(site: Site) -> None:
    """A page that answers 500 for ever (case 25) is a reason to look on, not away."""
    clock = SetClock()
    site.pages["w"] = always(partial(text_page, b"", 500))
    async with scraper(interval_seconds=1.0, clock=clock) as subject:
        scraped = await scraped_at(subject, clock, [site.target("w")], times=6, step=1.0)
        (result,) = await subject.wave([site.target("w")], START)
    assert scraped["w"] == list(range(6))
    assert result.failure is not None
    assert result.failure.reason is EdgeReason.STATUS


@pytest.mark.parametrize("body", [b"", b"python_info 1\nprocess_open_fds 5\n"])
async def test_a_page_without_engine_metrics_is_no_failed_scrape(site: Site, body: bytes) -> None:
    """Case 26: it is for the vocabulary to say that the engine tells nothing."""
    site.pages["w"] = always(partial(text_page, body))
    async with scraper() as subject:
        (result,) = await subject.wave([site.target("w")], START)
    assert result.failure is None
    assert result.values.size == body.count(b"\n")
