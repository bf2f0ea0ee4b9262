from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.routing import RoutingSettings
from ds4watch.routing.outliers import AsideReason, Outliers, Verdict, Window, is_slow

SETTINGS = RoutingSettings()


def noted(
    known: Outliers, *answers: tuple[int, bool, bool | None], at: float = 100.0
) -> Verdict | None:
    """Note so many answers of each kind; return the last verdict."""
    verdict = None
    for count, failed, slow in answers:
        for _ in range(count):
            verdict = known.note("w", at, failed=failed, slow=slow) or verdict
    return verdict


GOOD = (False, False)
SLOW = (False, True)
FAILED = (True, None)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        # (good, slow, failed)
        ((200, 0, 0), None),
        ((16, 0, 3), None),  # too few to say anything
        ((17, 0, 3), AsideReason.ERRORS),
        ((0, 0, 3), AsideReason.ERRORS),  # but this is plain
        ((3, 0, 3), AsideReason.ERRORS),
        ((4, 0, 3), None),
        ((0, 0, 2), None),
        ((0, 5, 0), None),
        ((200, 0, 2), None),  # two are noise
        ((297, 0, 3), None),  # exactly 1 %
        ((296, 0, 3), AsideReason.ERRORS),
        ((16, 3, 0), None),
        ((17, 3, 0), AsideReason.SLOW),
        ((57, 3, 0), None),  # p95 is exactly at the limit
        ((56, 3, 0), AsideReason.SLOW),
    ],
)
def test_a_worker_is_set_aside_for_its_errors_or_its_p95(
    answers: tuple[int, int, int], reason: AsideReason | None
) -> None:
    known = Outliers(SETTINGS)
    good, slow, failed = answers
    verdict = noted(known, (good, *GOOD), (slow, *SLOW), (failed, *FAILED))
    assert (verdict.reason if verdict else None) is reason
    assert known.aside() == ({"w": reason} if reason else {})


def test_answers_whose_time_says_nothing_do_not_thin_out_the_slow_ones() -> None:
    known = Outliers(SETTINGS)
    verdict = noted(known, (200, False, None), (17, *GOOD), (3, *SLOW))
    assert verdict is not None
    assert verdict.told == "p95 over 1.2 s: 3 of 20 answers"


def test_what_is_older_than_the_window_is_forgotten() -> None:
    known = Outliers(SETTINGS)
    assert noted(known, (18, *GOOD), (2, *FAILED), at=100.0) is None
    assert noted(known, (18, *GOOD), (2, *FAILED), at=131.0) is None
    assert noted(known, (1, *FAILED), at=132.0) is not None


def set_aside(known: Outliers, at: float) -> float:
    verdict = noted(known, (17, *GOOD), (3, *FAILED), at=at)
    assert verdict is not None
    return verdict.seconds


def test_it_comes_back_after_three_good_probes_and_not_before_its_time() -> None:
    known = Outliers(SETTINGS)
    assert set_aside(known, 100.0) == 10.0
    assert known.due(109.9) == ()
    assert known.next_due(109.9) == 110.0
    assert noted(known, (5, *GOOD), at=109.0) is None  # were under way
    assert noted(known, (5, *FAILED), at=109.0) is None
    assert known.due(110.0) == ("w",)
    assert noted(known, (2, *GOOD), at=111.0) is None
    back = noted(known, (1, *GOOD), at=112.0)
    assert back is not None
    assert (back.reason, known.aside()) == (None, {})
    assert known.next_due(0.0) == float("inf")


def test_a_bad_probe_doubles_the_time_up_to_the_longest_and_a_good_while_resets_it() -> None:
    known = Outliers(SETTINGS)
    now, seconds = 100.0, [set_aside(known, 100.0)]
    for kind in (FAILED, SLOW, FAILED, SLOW, FAILED, FAILED):
        now += seconds[-1]
        verdict = noted(known, (1, *kind), at=now)
        assert verdict is not None
        assert verdict.reason is AsideReason.PROBE_FAILED
        seconds.append(verdict.seconds)
    assert seconds == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]
    noted(known, (3, *GOOD), at=now + 300)
    assert set_aside(known, now + 350) == 300.0  # it was well for a moment only
    noted(known, (3, *GOOD), at=now + 700)
    assert set_aside(known, now + 1100) == 10.0


def test_a_worker_that_is_gone_is_forgotten() -> None:
    known = Outliers(SETTINGS)
    set_aside(known, 100.0)
    known.keep_only({"other"})
    assert known.aside() == {}
    assert known.due(1000.0) == ()


@pytest.mark.parametrize(
    ("stream", "first_byte", "tokens", "slow"),
    [
        (True, 1.2, 5000, False),
        (True, 1.3, 5000, True),
        (False, 1.3, 0, True),
        (False, 30.0, 300, False),  # 300 tokens may take 30 s
        (False, 31.3, 300, True),
        (False, 1.3, None, True),
    ],
)
def test_much_that_was_asked_for_is_not_slow(
    *, stream: bool, first_byte: float, tokens: int | None, slow: bool
) -> None:
    found = is_slow(
        SETTINGS, is_stream=stream, first_byte_seconds=first_byte, completion_tokens=tokens
    )
    assert found is slow


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 5)), max_size=40))
def test_the_sums_of_a_window_are_those_of_its_last_slices(
    steps: list[tuple[float, int]],
) -> None:
    window, now, seen = Window(10.0, kinds=1), 0.0, []
    for step, count in steps:
        now += step
        window.add(now, count)
        seen.append((int(now), count))
        assert window.totals == [sum(n for at, n in seen if at > int(now) - 10)]
