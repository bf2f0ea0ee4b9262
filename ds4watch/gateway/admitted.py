"""A request that was let in: what it may have, and what it holds until it ends."""

from __future__ import annotations

from dataclasses import dataclass

from ds4watch.access.abnormal import Verdict
from ds4watch.access.quota import Meter
from ds4watch.shaping.request import Asked


@dataclass(slots=True)
class Admitted:
    """Made by `Admission.enter`, given back by `Admission.leave` however the request ends."""

    asked: Asked
    refuses_change: bool
    is_long: bool
    verdict: Verdict
    meters: tuple[Meter, ...] = ()
    charged: float = 0.0
    pool: str = ""
    """Among whose long requests it counts, if it is one."""
