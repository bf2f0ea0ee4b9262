from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.access.line import Line

COMERS = st.lists(st.integers(0, 9), max_size=40)


def drained(line: Line[int]) -> list[int]:
    found = []
    while (entry := line.next()) is not None:
        found.append(entry)
    return found


@given(COMERS)
def test_the_most_urgent_goes_first_and_among_equals_who_came_first(priorities: list[int]) -> None:
    line: Line[int] = Line(100)
    for number, priority in enumerate(priorities):
        assert line.join(number, priority) is None
    expected = sorted(range(len(priorities)), key=lambda it: (-priorities[it], it))
    assert drained(line) == expected
    assert line.size == 0


@given(COMERS, st.integers(1, 5))
def test_a_full_line_keeps_the_most_urgent(priorities: list[int], most: int) -> None:
    line: Line[int] = Line(most)
    out = []
    for number, priority in enumerate(priorities):
        displaced = line.join(number, priority)
        if displaced is not None:
            out.append(displaced)
            assert priorities[displaced] <= priority
        assert line.size <= most
    expected = sorted(range(len(priorities)), key=lambda it: (-priorities[it], it))
    kept = drained(line)
    assert kept == expected[:most]
    assert sorted(kept + out) == list(range(len(priorities)))


def test_nobody_of_the_same_priority_is_displaced() -> None:
    line: Line[str] = Line(1)
    assert line.join("first", 5) is None
    assert line.join("second", 5) == "second"
    assert line.join("urgent", 6) == "first"


def test_who_found_no_place_goes_back_to_the_head_and_who_leaves_is_gone() -> None:
    line: Line[str] = Line(9)
    for name in ("a", "b", "c"):
        line.join(name, 5)
    first = line.next()
    assert first == "a"
    line.rejoin(first, 5)
    assert line.leave("b", 5)
    assert not line.leave("b", 5)
    assert (line.next(), line.next(), line.next()) == ("a", "c", None)
