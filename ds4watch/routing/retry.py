"""What follows a failed attempt, and the budget that keeps retries from making things worse."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ds4watch.model.usage import RetryReason


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt failed; `status` is the worker's, None if it gave none."""

    reason: RetryReason
    status: int | None = None


class GiveUp(StrEnum):
    """Why a failure is final."""

    BYTES_SENT = "bytes_sent"
    ATTEMPTS = "attempts"
    BUDGET = "budget"
    DEADLINE = "deadline"


_UNAUTHORIZED = 401


@dataclass(frozen=True, slots=True)
class Retry:
    """Try another worker; the reason is the metric's label."""

    reason: RetryReason


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer the client with `status`."""

    status: int
    reason: RetryReason
    because: GiveUp


@dataclass(slots=True)
class RetryBudget:
    """Retries as a share of the requests of a window, over all requests of this process.

    A window allows `ratio` of its requests, and `floor` in any case, so that a quiet gateway
    can still step round a dead worker. Times are monotonic seconds.
    """

    ratio: float
    floor: int = 10
    window_seconds: float = 10.0
    started_at: float = 0.0
    requests: int = 0
    retries: int = 0

    def count_request(self, now: float) -> None:
        """Count a request: it earns its share of retries."""
        if not 0 <= now - self.started_at < self.window_seconds:
            self._begin(now)
        self.requests += 1

    def spend_retry(self, now: float) -> None:
        """Count a retry."""
        if not 0 <= now - self.started_at < self.window_seconds:
            self._begin(now)
        self.retries += 1

    def has_room(self, now: float) -> bool:
        """Return whether one more retry may be made."""
        if not 0 <= now - self.started_at < self.window_seconds:
            self._begin(now)
        return self.retries < max(float(self.floor), self.ratio * self.requests)

    def _begin(self, now: float) -> None:
        self.started_at, self.requests, self.retries = now, 0, 0


def next_step(
    failure: Failure,
    *,
    attempt: int,
    max_attempts: int,
    bytes_sent: bool,
    budget_left: bool,
    in_time: bool = True,
) -> Retry | Fail:
    """Return whether to try another worker after the `attempt`-th try (from 1) failed.

    Never once a byte has reached the client: it would read two answers as one. Answers below
    500 are no failures; they are passed on before this is asked.
    """
    status = status_of(failure)
    if bytes_sent:
        return Fail(status, failure.reason, GiveUp.BYTES_SENT)
    if attempt >= max_attempts:
        return Fail(status, failure.reason, GiveUp.ATTEMPTS)
    if not in_time:
        return Fail(status, failure.reason, GiveUp.DEADLINE)
    if not budget_left:
        return Fail(status, failure.reason, GiveUp.BUDGET)
    return Retry(failure.reason)


def costs_budget(failure: Failure, *, attempt: int) -> bool:
    """Return whether a retry after the `attempt`-th try (from 1) is paid from the budget.

    The budget keeps retries from adding load where there is too much. A worker that could not be
    reached never had the request, and one that broke the connection off has let go of it: when it
    dies, all that it had open at once moves elsewhere, which may be far over the budget. Once for
    each request, as it may be what breaks workers.
    """
    if failure.reason is RetryReason.CONNECT:
        return False
    return attempt > 1 or failure.reason is not RetryReason.BROKEN


def failure_of_status(status: int) -> Failure | None:
    """Return the failure that a worker's status stands for; None if it is the client's, or none.

    503 is what vLLM answers when its admission is full: the worker is busy, not broken. 401 is
    about the key that we show: the client's own is not passed on.
    """
    if status == _UNAUTHORIZED:
        return Failure(RetryReason.UNAUTHORIZED, status)
    if status < 500:
        return None
    return Failure(RetryReason.BUSY if status == 503 else RetryReason.STATUS_5XX, status)


def status_of(failure: Failure) -> int:
    """Return the status a client gets for a failure that is final."""
    if failure.status is not None and 500 <= failure.status <= 599:
        return failure.status
    if failure.reason is RetryReason.CONNECT:
        return 503  # nothing is wrong with the request, and nobody has seen it
    return 504 if failure.reason is RetryReason.TIMEOUT else 502
