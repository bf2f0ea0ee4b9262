"""What was asked and what it cost, added up for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, Connection, case, cast, column, func, select, table

from ds4watch.history import sql
from ds4watch.history.columns import Instant
from ds4watch.history.ledger_models import own_requests_hourly, requests_hourly
from ds4watch.history.ledger_rows import hour_of
from ds4watch.history.ledger_values import OwnRow
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import RequestOutcome


class SumBy(StrEnum):
    """What requests are added up by."""

    KEY = "key"
    MODEL = "model"
    WORKER = "worker"
    PROFILE = "profile"
    CLASS = "class"

    @property
    def column(self) -> str:
        """The column of `requests_hourly`."""
        return "work_class" if self is SumBy.CLASS else self.value


@dataclass(frozen=True, slots=True)
class RequestSum:
    """The requests of one key, model, … and their cost.

    errors: no worker answered well. refused: the client's fault. gone: the client left.
    """

    name: str
    requests: int
    errors: int
    refused: int
    shed: int
    gone: int
    retries: int
    degraded: int
    filtered: int
    estimated: int
    unmetered: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    worker_prompt_tokens: int
    queue_seconds: float
    lost_seconds: float
    prefill_seconds: float
    decode_seconds: float
    unsplit_seconds: float
    nanos: Nanos = 0

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self)


_OUTCOMES = {
    "errors": RequestOutcome.UPSTREAM_ERROR,
    "refused": RequestOutcome.CLIENT_ERROR,
    "shed": RequestOutcome.SHED,
    "gone": RequestOutcome.CLIENT_GONE,
}
_COUNTS = (
    "retries", "degraded", "filtered", "estimated", "unmetered", "prompt_tokens",
    "cached_tokens", "completion_tokens", "worker_prompt_tokens",
)  # fmt: skip
_SECONDS = (
    "queue_seconds", "lost_seconds", "prefill_seconds", "decode_seconds", "unsplit_seconds"
)  # fmt: skip
_COSTS = table(
    "requests_cost_hourly",
    column("hour_at", Instant()),
    *(column(by.column) for by in SumBy),
    column("nanos", BigInteger),
)


def request_sums(connection: Connection, by: SumBy, start_at: UnixSeconds) -> list[RequestSum]:
    """Return the sums of the hours that began at `start_at` or later, the dearest first."""
    costs = {name: int(nanos) for name, nanos in _rows(connection, by, start_at)}
    its = requests_hourly.c
    name = its[by.column]
    ended = (
        _total(case((its.outcome == outcome.value, its.requests), else_=0)).label(label)
        for label, outcome in _OUTCOMES.items()
    )
    query = (
        select(
            name.label("name"),
            _total(its.requests).label("requests"),
            *ended,
            *(_total(its[it]).label(it) for it in _COUNTS),
            *(func.sum(its[it]).label(it) for it in _SECONDS),
        )
        .where(its.hour_at >= start_at)
        .group_by(name)
    )
    rows = connection.execute(query).mappings()
    found = [RequestSum(**row, nanos=costs.get(row["name"], 0)) for row in rows]
    return sorted(found, key=lambda it: (-it.nanos, -it.requests, it.name))


def add_own(connection: Connection, rows: Sequence[OwnRow]) -> None:
    """Add what requests of our own used to the hours."""
    for row in rows:
        values = asdict(row) | {"hour_at": hour_of(row.at)}
        del values["at"]
        sql.add(connection, own_requests_hourly, [values])


def _rows(connection: Connection, by: SumBy, start_at: UnixSeconds) -> list[tuple[str, int]]:
    name = _COSTS.c[by.column]
    query = select(name, _total(_COSTS.c.nanos)).where(_COSTS.c.hour_at >= start_at).group_by(name)
    return [(str(it), int(nanos)) for it, nanos in connection.execute(query)]


def _total(what: Any) -> Any:
    # PostgreSQL's sum of whole numbers is a numeric
    return cast(func.sum(what), BigInteger)
