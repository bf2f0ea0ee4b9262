"""What was spent, on what and for whom, as `ds4watch cost` shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from ds4watch.cost.attribution import CostPart
from ds4watch.cost.book import CostBook
from ds4watch.cost.hours import hour_of
from ds4watch.cost.parts import method_of
from ds4watch.cost.recent import Where, WorkerHour, worker_hours
from ds4watch.cost.split import split
from ds4watch.cost.storage import storage_nanos
from ds4watch.history.ledger_values import CostRow, StorageRow, WorkRow
from ds4watch.history.state import StateStore
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.work import Work


async def cost_report(
    state: StateStore, currency: str, *, start_at: UnixSeconds, end_at: UnixSeconds
) -> dict[str, Any]:
    """Return the money of the hours that begin in [start_at, end_at), in nanos.

    `costs`: by worker, profile and part; what all else is a share of. `work`: by key and model,
    with their shares of each hour's money, which sum to it exactly; an hour without requests has
    none. `context`: busy money, tokens and time by profile and the length of prompts. `storage`:
    beside them.
    """
    costs = await state.ledger.cost_between(start_at, end_at)
    works = await state.ledger.works_between(start_at, end_at)
    hours = worker_hours(
        (((it.hour_at, it.worker, it.profile), CostPart(it.part), it.nanos) for it in costs),
        ((it.hour_at, it.place, it.work) for it in works),
    )
    return {
        "currency": currency,
        "start_at": start_at,
        "end_at": end_at,
        "costs": list(_by_part(hours)),
        "work": list(_by_key(costs, await state.ledger.work_between(start_at, end_at))),
        "context": list(_by_band(hours)),
        "storage": _stored(await state.ledger.storage_between(start_at, end_at)),
    }


def _by_part(hours: dict[Where, WorkerHour]) -> Iterator[dict[str, Any]]:
    for (hour_at, worker, profile), hour in hours.items():
        found = hour.parts()
        for part, nanos in found.nanos.items():
            yield {
                "hour_at": hour_at,
                "worker": worker,
                "profile": profile,
                "part": part.value,
                "method": method_of(part, found.method),
                "nanos": nanos,
            }


def _by_band(hours: dict[Where, WorkerHour]) -> Iterator[dict[str, Any]]:
    nanos: Counter[tuple[float, str, str]] = Counter()
    works: dict[tuple[float, str, str], Work] = {}
    for (hour_at, _, profile), hour in hours.items():
        shares = hour.by_band()
        for band, work in hour.bands.items():
            key = (hour_at, profile, band)
            nanos[key] += shares.get(band, 0)
            works[key] = works.get(key, Work()).plus(work)
    for key, work in works.items():
        named = dict(zip(("hour_at", "profile", "band"), key, strict=True))
        yield {**named, **asdict(work), "nanos": nanos[key]}


def _by_key(costs: Sequence[CostRow], work: Sequence[WorkRow]) -> Iterator[dict[str, Any]]:
    spent: Counter[float] = Counter()
    for cost in costs:
        spent[cost.hour_at] += cost.nanos
    weights: dict[float, dict[tuple[str, str], int]] = {}
    for row in work:
        weights.setdefault(row.hour_at, {})[row.key, row.model] = row.usage.work
    shares: dict[float, dict[tuple[str, str], Nanos]] = {
        hour_at: split(spent[hour_at], of) for hour_at, of in weights.items()
    }
    for it in work:
        yield {
            "hour_at": it.hour_at,
            "key": it.key,
            "model": it.model,
            "requests": it.requests,
            "prompt_tokens": it.usage.prompt,
            "cached_tokens": it.usage.cached,
            "completion_tokens": it.usage.completion,
            "nanos": shares[it.hour_at].get((it.key, it.model), 0),
        }


def _stored(rows: Iterable[StorageRow]) -> list[dict[str, Any]]:
    return [
        {
            "hour_at": it.hour_at,
            "what": it.what,
            "nanos_per_gb_hour": it.nanos_per_gb_hour,
            "byte_seconds": it.byte_seconds,
            "nanos": storage_nanos(it.byte_seconds, it.nanos_per_gb_hour),
        }
        for it in rows
    ]


def why_report(book: CostBook, currency: str, at: UnixSeconds) -> dict[str, Any]:
    """Return why an instant's hour is not like the usual one, in nanos; causes sum to the whole."""
    hour_at = hour_of(at)
    return {
        "currency": currency,
        "hour_at": hour_at,
        "measures": [
            {
                "measure": it.measure.value,
                "expected": it.expected,
                "actual": it.actual,
                "causes": {cause.value: nanos for cause, nanos in it.causes.items()},
            }
            for it in book.why(hour_at)
        ],
    }
