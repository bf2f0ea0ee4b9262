"""Reports of a day and a week: cost, throughput and latency, before and after; what was done."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4watch.alerting.grouping import Note
from ds4watch.engine.query_process import QueryProcess
from ds4watch.engine.query_wire import RangeQuery
from ds4watch.history.ledger_values import CostRow, WorkRow
from ds4watch.history.rows import ActionRecord
from ds4watch.history.state import StateStore
from ds4watch.model.action import ActionStatus
from ds4watch.model.errors import QueryError, StoreError
from ds4watch.model.money import NANOS_PER_UNIT
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.usage import Usage

log = logging.getLogger(__name__)

DAY_SECONDS = 86_400.0
SPANS: Mapping[str, float] = {"daily": DAY_SECONDS, "weekly": 7 * DAY_SECONDS}
_BUSY = ("busy", "prefill", "decode")
_IDLE = ("idle", "warm_spare", "asleep")
_QUANTILE = 0.99
_BUCKETS = "sum by (le) (increase(ds4_gateway_request_duration_seconds_bucket[1h]))"
_MOST_ACTIONS = 200


@dataclass(frozen=True, slots=True)
class Span:
    """What happened between two instants. p99_seconds: None if nothing was measured."""

    start_at: UnixSeconds
    end_at: UnixSeconds
    costs: Sequence[CostRow]
    work: Sequence[WorkRow]
    p99_seconds: float | None

    @property
    def money(self) -> float:
        """What was spent."""
        return sum(it.nanos for it in self.costs) / NANOS_PER_UNIT

    def parts(self, names: Sequence[str]) -> float:
        """Return what was spent on these."""
        return sum(it.nanos for it in self.costs if it.part in names) / NANOS_PER_UNIT

    @property
    def requests(self) -> int:
        """How many there were."""
        return sum(it.requests for it in self.work)

    @property
    def generated(self) -> int:
        """Tokens."""
        return sum(it.usage.completion for it in self.work)

    def series(self, step_seconds: float) -> list[float]:
        """Return the money of each step."""
        found: Counter[int] = Counter()
        for it in self.costs:
            found[int((it.hour_at - self.start_at) // step_seconds)] += it.nanos
        count = round((self.end_at - self.start_at) / step_seconds)
        return [found[index] / NANOS_PER_UNIT for index in range(count)]


async def report_of(
    state: StateStore,
    queries: QueryProcess,
    currency: str,
    *,
    period: str,
    end_at: UnixSeconds,
) -> dict[str, Any]:
    """Return the report of the span that ends then, beside the one before. Raises StoreError."""
    seconds = SPANS[period]
    start_at = end_at - seconds
    buckets = await _buckets(queries, start_at - seconds, end_at)
    after = await _span(state, buckets, start_at, end_at)
    before = await _span(state, buckets, start_at - seconds, start_at)
    actions = [
        it for it in await state.actions(_MOST_ACTIONS) if start_at <= it.plan.planned_at < end_at
    ]
    step = 3600.0 if period == "daily" else DAY_SECONDS
    return {
        "id": f"{period} {end_at:.0f}",
        "period": period,
        "start_at": start_at,
        "end_at": end_at,
        "currency": currency,
        "rows": rows_of(before, after, currency),
        "lines": lines_of(after, currency),
        "actions": [_told(it) for it in actions],
        "cost_before": before.series(step),
        "cost_after": after.series(step),
    }


def note_of_report(report: Mapping[str, Any], at: UnixSeconds) -> Note:
    """Return what channels are told."""
    return Note(f"report {report['id']}", "report", at, report)


def rows_of(before: Span, after: Span, currency: str) -> list[dict[str, Any]]:
    """Return figures before and after."""

    def row(name: str, was: float | None, became: float | None) -> dict[str, Any]:
        return {"name": name, "before": was, "after": became}

    def rate(span: Span) -> float:
        return span.generated / (span.end_at - span.start_at)

    def per_million(span: Span) -> float | None:
        return span.money / span.generated * 1e6 if span.generated else None

    return [
        row(f"cost, {currency}", before.money, after.money),
        row(f"of it idle, {currency}", before.parts(_IDLE), after.parts(_IDLE)),
        row("requests", before.requests, after.requests),
        row("tokens generated", before.generated, after.generated),
        row("tokens a second", rate(before), rate(after)),
        row(f"{currency} a million tokens", per_million(before), per_million(after)),
        row("P99 of a request, s", before.p99_seconds, after.p99_seconds),
    ]


def lines_of(span: Span, currency: str) -> list[str]:
    """Return what is worth a sentence: an estimate of what the prefix cache saved."""
    weight = sum(it.usage.work for it in span.work)
    cached = sum(it.usage.cached for it in span.work)
    if not weight or not cached:
        return []
    reused = Usage(prompt=cached, cached=0, completion=0).work
    saved = span.parts(_BUSY) * reused / weight
    return [
        f"prefix cache: {cached:,} prompt tokens reused, about {saved:.2f} {currency} (estimate)"
    ]


def _told(record: ActionRecord) -> str:
    plan = record.plan
    if record.status is ActionStatus.WOULD_DO:
        return f"would have done {plan.kind} on {plan.target}: {plan.reason}"
    return f"{plan.kind} on {plan.target}: {plan.reason} ({record.status})"


async def _span(
    state: StateStore,
    buckets: Mapping[float, Mapping[float, float]],
    start_at: UnixSeconds,
    end_at: UnixSeconds,
) -> Span:
    summed: Counter[float] = Counter()
    for at, counts in buckets.items():
        if start_at < at <= end_at:
            summed.update(counts)
    costs = await state.ledger.cost_between(start_at, end_at)
    work = await state.ledger.work_between(start_at, end_at)
    return Span(start_at, end_at, costs, work, quantile(_QUANTILE, summed))


async def _buckets(
    queries: QueryProcess, start_at: UnixSeconds, end_at: UnixSeconds
) -> dict[float, dict[float, float]]:
    """Return by hour's end how many requests took at most so long; empty if it cannot be had."""
    try:
        matrix = await queries.ask_range(RangeQuery(_BUCKETS, start_at + 3600, end_at, 3600.0))
    except (QueryError, StoreError) as error:
        log.warning("a report has no latencies: %s", error)
        return {}
    edges = [float(dict(labels)["le"]) for labels in matrix.labels.sets]
    return {
        float(at): {
            edge: float(matrix.values[row, column])
            for row, edge in enumerate(edges)
            if matrix.there[row, column]
        }
        for column, at in enumerate(matrix.steps)
    }


def quantile(q: float, counts: Mapping[float, float]) -> float | None:
    """Return a quantile of cumulative buckets as Prometheus does; None without any request."""
    edges = sorted(counts)
    total = counts[edges[-1]] if edges and math.isinf(edges[-1]) else 0.0
    if total <= 0 or len(edges) < 2:
        return None
    rank, low, below = q * total, 0.0, 0.0
    for edge in edges[:-1]:
        upto = max(below, counts[edge])
        if upto >= rank:
            share = (rank - below) / (upto - below) if upto > below else 0.0
            return low + (edge - low) * share
        low, below = edge, upto
    return low
