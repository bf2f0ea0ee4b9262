from __future__ import annotations

import pytest

from ds4watch.model.service_policy import Limits
from ds4watch.routing.admission import ShedReason, admit, priority_of


@pytest.mark.parametrize(
    ("limits", "inflight", "processes", "priority", "shed"),
    [
        (Limits(), 0, 1, 5, None),
        (Limits(), 9, 1, 5, None),
        (Limits(), 10, 1, 5, ShedReason.INFLIGHT),
        (Limits(max_inflight=2), 1, 1, 5, None),
        (Limits(max_inflight=2), 2, 1, 5, ShedReason.INFLIGHT),
        (Limits(max_inflight=99), 10, 1, 5, ShedReason.INFLIGHT),
        (Limits(max_inflight=4), 1, 2, 5, None),
        (Limits(max_inflight=4), 2, 2, 5, ShedReason.INFLIGHT),
        (Limits(max_inflight=1), 0, 8, 5, None),
        (Limits(max_inflight=1), 1, 8, 5, ShedReason.INFLIGHT),
        (Limits(shed_below_priority=5), 0, 1, 5, None),
        (Limits(shed_below_priority=5), 0, 1, 4, ShedReason.PRIORITY),
    ],
)
def test_who_is_let_in(
    limits: Limits, inflight: int, processes: int, priority: int, shed: ShedReason | None
) -> None:
    assert (
        admit(limits, inflight=inflight, max_inflight=10, processes=processes, priority=priority)
        == shed
    )


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
