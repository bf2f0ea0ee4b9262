from __future__ import annotations

import pytest

from ds4watch.model.service_policy import Limits
from ds4watch.routing.admission import most_inflight, priority_of


@pytest.mark.parametrize(
    ("limits", "inflight", "processes", "full"),
    [
        (Limits(), 0, 1, False),
        (Limits(), 9, 1, False),
        (Limits(), 10, 1, True),
        (Limits(max_inflight=2), 1, 1, False),
        (Limits(max_inflight=2), 2, 1, True),
        (Limits(max_inflight=99), 10, 1, True),
        (Limits(max_inflight=4), 1, 2, False),
        (Limits(max_inflight=4), 2, 2, True),
        (Limits(max_inflight=1), 0, 8, False),
        (Limits(max_inflight=1), 1, 8, True),
    ],
)
def test_when_a_process_most_inflight(
    limits: Limits, inflight: int, processes: int, full: bool
) -> None:
    assert (inflight >= most_inflight(limits, max_inflight=10, processes=processes)) is full


@pytest.mark.parametrize(
    ("header", "priority"),
    [
        (None, 5),
        ("", 5),
        ("0", 0),
        (" 9 ", 9),
        ("10", 9),
        ("-1", 5),
        ("high", 5),
        ("²", 5),
        ("9" * 5000, 5),
    ],
)
def test_a_priority_is_read_without_trust(header: str | None, priority: int) -> None:
    assert priority_of(header) == priority


def test_a_class_may_have_a_default_of_its_own() -> None:
    assert (priority_of(None, 2), priority_of("junk", 2), priority_of("7", 2)) == (2, 2, 7)
