from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from ds4watch.telemetry.own_lag import Alarm, OwnLag, patient


class Loop:
    """A loop whose time only passes when told; one that stands still runs its timers late."""

    def __init__(self) -> None:
        self.at = 0.0
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[..., Any], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.at

    def call_at(self, due: float, act: Callable[..., Any], *given: Any) -> Loop:
        heapq.heappush(self._due, (due, next(self._order), act, given))
        return self

    def call_later(self, seconds: float, act: Callable[..., Any], *given: Any) -> Loop:
        return self.call_at(self.at + seconds, act, *given)

    def cancel(self) -> None:
        self._due.clear()

    def stand_still(self, seconds: float) -> None:
        self.at += seconds
        self.run(0.0)

    def run(self, seconds: float) -> None:
        until = self.at + seconds
        while self._due and self._due[0][0] <= until:
            due, _, act, given = heapq.heappop(self._due)
            self.at = max(self.at, due)
            act(*given)
        self.at = until


def measured() -> tuple[Loop, OwnLag]:
    loop, lag = Loop(), OwnLag()
    lag._look(loop, loop.time())  # type: ignore[arg-type]
    return loop, lag


def test_what_a_loop_lost_is_known_by_when_it_was() -> None:
    loop, lag = measured()
    loop.run(10.0)
    assert lag.lost_seconds(0.0) == 0.0
    loop.stand_still(5.0)
    loop.run(10.0)
    assert lag.lost_seconds(0.0) == pytest.approx(5.0, abs=0.26)
    assert lag.lost_seconds(12.0) == pytest.approx(3.0)
    assert lag.lost_seconds(0.0, 12.0) == pytest.approx(2.0, abs=0.26)
    assert lag.lost_seconds(16.0) == 0.0


def test_an_alarm_on_time_rings_at_once_and_a_late_one_so_much_later_once() -> None:
    loop, rung = Loop(), list[float]()
    Alarm(loop, 5.0, lambda: rung.append(loop.at))  # type: ignore[arg-type]
    loop.run(6.0)
    assert rung == [5.0]
    Alarm(loop, 10.0, lambda: rung.append(loop.at))  # type: ignore[arg-type]
    loop.stand_still(6.0)  # it rings at 12, two seconds late
    loop.run(1.9)
    assert rung == [5.0]
    loop.stand_still(60.0)  # and late once more, but it was put off before
    assert rung[1:] == [loop.at]


def test_an_alarm_that_is_cancelled_is_silent() -> None:
    loop, rung = Loop(), list[float]()
    Alarm(loop, 5.0, lambda: rung.append(loop.at)).cancel()  # type: ignore[arg-type]
    loop.run(6.0)
    assert rung == []


async def test_who_waits_in_vain_is_told_so() -> None:
    with pytest.raises(TimeoutError):
        async with patient(0.01):
            await asyncio.Event().wait()


async def test_an_answer_that_was_there_while_we_stood_still_is_taken() -> None:
    """A timer that came due meanwhile runs first; the answer is read all the same."""
    loop, reader = asyncio.get_running_loop(), asyncio.Event()
    async with patient(0.05):
        await asyncio.sleep(0)
        time.sleep(0.3)  # noqa: ASYNC251 - the loop stands still
        loop.call_later(0.02, reader.set)  # what is read only after the timers
        await reader.wait()


async def test_a_loop_that_is_blocked_is_noticed() -> None:
    with OwnLag() as lag:
        began = time.monotonic()
        await asyncio.sleep(0)
        time.sleep(0.7)  # noqa: ASYNC251 - the loop stands still
        await asyncio.sleep(0.01)
        assert lag.lost_seconds(began) > 0.4
