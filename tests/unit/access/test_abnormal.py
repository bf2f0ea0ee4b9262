from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.access.abnormal import NORMAL, Bounds, MinuteCounts, Oddity, Verdict, Watch, own_cap

BODY: dict[str, Any] = {"model": "m", "messages": []}


def judge(watch: Watch, now: float = 0.0, **more: Any) -> Verdict:
    values: dict[str, Any] = {"client": "a", "raw": b"{}", "body": BODY, "prompt_tokens": 10} | more
    return watch.judge(
        values.pop("client"), values.pop("raw"), values.pop("body"), now=now, **values
    )


def test_nothing_is_odd_if_nothing_is_bounded() -> None:
    watch = Watch(Bounds())
    watch.told_to_wait("a", 99.0)
    assert all(judge(watch) is NORMAL for _ in range(1000))


def test_a_body_that_comes_again_and_again_loses_its_priority_and_others_do_not() -> None:
    watch = Watch(Bounds(repeats_per_minute=3))
    assert [judge(watch) is NORMAL for _ in range(3)] == [True] * 3
    assert judge(watch) == Verdict((Oddity.REPEATING,), priority=0)
    assert judge(watch, raw=b"other") is NORMAL
    assert judge(watch, client="b") is NORMAL
    assert judge(watch, now=60.0) is NORMAL


def test_a_prompt_over_length_loses_its_priority() -> None:
    watch = Watch(Bounds(overlong_tokens=100))
    assert judge(watch, prompt_tokens=100) is NORMAL
    assert judge(watch, prompt_tokens=101) == Verdict((Oddity.OVERLONG,), priority=0)


@pytest.mark.parametrize(
    ("body", "cap"),
    [
        ({"max_tokens": 1000}, None),
        ({"max_tokens": 1001}, 1000),
        ({"n": 10, "max_tokens": 100}, None),
        ({"n": 10, "max_completion_tokens": 101}, 100),
        ({"n": 10}, 100),
        ({"prompt": ["a"] * 10, "max_tokens": 101}, 100),
        ({"prompt": [1] * 10, "max_tokens": 1000}, None),
        ({"best_of": 20, "max_tokens": 51}, 50),
        ({"logprobs": True, "top_logprobs": 19, "max_tokens": 51}, 50),
        ({"logprobs": True, "max_tokens": 501}, 500),
        ({"logprobs": 4, "max_tokens": 201}, 200),
        ({"n": "x", "max_tokens": -5}, None),
        ({"n": 10**9, "max_tokens": 10**9}, 1),
    ],
)
def test_a_costly_request_gets_a_cap_of_its_own(body: dict[str, Any], cap: int | None) -> None:
    assert own_cap(body, 1000) == cap
    verdict = judge(Watch(Bounds(costly_tokens=1000)), body=body)
    expected = NORMAL if cap is None else Verdict((Oddity.COSTLY,), max_tokens=cap)
    assert verdict == expected


def test_who_is_told_to_wait_and_hammers_on_has_to_wait_longer() -> None:
    watch = Watch(Bounds(early_retries_per_minute=5))
    watch.told_to_wait("a", 2.0)
    assert all(judge(watch, 1.0) is NORMAL for _ in range(5))
    storm = judge(watch, 1.0)
    assert storm.oddities == (Oddity.RETRYING,)
    assert storm.wait_seconds > 1.0
    for _ in range(500):
        storm = judge(watch, 1.0)
    assert storm.wait_seconds == 30.0
    assert judge(watch, 1.0, client="b") is NORMAL
    assert judge(watch, 31.1) is NORMAL
    assert judge(watch, 31.2) is NORMAL


@given(st.lists(st.tuples(st.integers(0, 300), st.floats(0, 200)), max_size=200))
def test_memory_is_bounded_and_a_count_is_never_too_high(events: list[tuple[int, float]]) -> None:
    counts = MinuteCounts(16)
    told: dict[tuple[int, int], int] = {}
    for name, now in sorted(events, key=lambda it: it[1]):
        minute = int(now // 60)
        told[name, minute] = told.get((name, minute), 0) + 1
        assert 1 <= counts.add(name, now) <= told[name, minute]
        assert len(counts._counts) <= 16


def test_the_watch_forgets_the_oldest_of_too_many_clients() -> None:
    watch = Watch(Bounds(early_retries_per_minute=1), most_names=4)
    for number in range(100):
        watch.told_to_wait(f"client-{number}", 99.0)
    assert len(watch._told_to_wait) == 4
