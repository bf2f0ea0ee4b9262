"""How workers spend their time, and how long starts and prefill take, as samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ds4watch.fleet.tended import Stay
from ds4watch.model.series import Labels, Sample, labels_of

_TOKENS = "ds4_prefill_tokens_total"
_SECONDS = "ds4_prefill_seconds_total"


class Newest(Protocol):
    """Where the newest values of a series are."""

    def newest(self, name: str) -> list[tuple[Labels, float]]:
        """Return the labels and the value of each series of a name."""
        ...


def stay_samples(stays: Sequence[Stay]) -> list[Sample]:
    """Return the time of each worker in each state that it was in, and in its present one."""
    found = []
    for stay in stays:
        own = {"worker": stay.worker, "profile": stay.profile}
        found += [
            Sample(
                "ds4_worker_state_seconds_total", labels_of(own | {"state": phase.value}), seconds
            )
            for phase, seconds in stay.seconds.items()
        ]
        found.append(Sample("ds4_worker_state_since_seconds", labels_of(own), stay.since_seconds))
    return found


def startup_samples(medians: Mapping[str, float]) -> list[Sample]:
    """Return the usual start-up time of each profile."""
    return [
        Sample("ds4_profile_startup_seconds", (("profile", profile),), seconds)
        for profile, seconds in medians.items()
    ]


def measured_prefill(live: Newest) -> dict[str, tuple[float, float]]:
    """Return by worker the prompt tokens computed and the seconds of prefill, where both are."""
    tokens, seconds = _by_worker(live, _TOKENS), _by_worker(live, _SECONDS)
    return {name: (tokens[name], seconds[name]) for name in tokens.keys() & seconds.keys()}


def _by_worker(live: Newest, name: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for labels, value in live.newest(name):
        worker = dict(labels).get("worker")
        if worker is not None and value == value:  # noqa: PLR0124 - NaN
            found[worker] = found.get(worker, 0.0) + value
    return found
