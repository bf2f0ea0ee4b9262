"""What became of the last requests to each worker, as the gateway books them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from ds4watch.fleet.rolling_watch import Answered
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason

_KEPT = 2000
"""Of each worker."""


class Tallies:
    """Keeps outcome and times of the last requests by worker."""

    def __init__(self) -> None:
        self._by_worker: dict[str, deque[Answered]] = {}

    def note(self, records: Iterable[RequestRecord]) -> None:
        """Take in finished requests: who was given up for another has failed, too."""
        for record in records:
            for worker, answered in _of(record):
                self._by_worker.setdefault(worker, deque(maxlen=_KEPT)).append(answered)

    def since(self, workers: Iterable[str], at: UnixSeconds) -> list[Answered]:
        """Return what these workers were given that ended at `at` or later."""
        return [it for name in workers for it in self._by_worker.get(name, ()) if it.at >= at]

    def forget_all_but(self, workers: Iterable[str]) -> None:
        """Forget workers that are no longer there."""
        kept = set(workers)
        self._by_worker = {name: it for name, it in self._by_worker.items() if name in kept}


def _of(record: RequestRecord) -> Iterator[tuple[str, Answered]]:
    given_up = [worker for worker, reason in record.retries if reason is not RetryReason.BUSY]
    for worker in given_up:
        yield worker, Answered(record.ended_at, ok=False)
    if record.outcome is RequestOutcome.OK:
        first = record.first_byte_seconds if record.stream else None
        yield (
            record.worker,
            Answered(
                record.ended_at,
                ok=True,
                duration_seconds=record.duration_seconds,
                first_byte_seconds=first,
            ),
        )
    elif record.outcome is RequestOutcome.UPSTREAM_ERROR and record.worker not in ("", *given_up):
        yield record.worker, Answered(record.ended_at, ok=False)
