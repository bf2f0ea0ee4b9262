"""What was spent, on what and for whom, as `ds4watch cost` shows it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ds4watch.cost.book import CostBook
from ds4watch.cost.budgets import weight_of
from ds4watch.cost.hours import hour_of
from ds4watch.cost.split import split
from ds4watch.history.state import StateStore
from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds


async def cost_report(
    state: StateStore, currency: str, *, start_at: UnixSeconds, end_at: UnixSeconds
) -> dict[str, Any]:
    """Return the money of the hours that begin in [start_at, end_at), in nanos.

    `costs`: by worker, profile and part. `work`: by key and model, with their shares of each hour's
    money, which sum to it exactly; an hour without requests has none.
    """
    costs = await state.cost_between(start_at, end_at)
    work = await state.work_between(start_at, end_at)
    spent: Counter[float] = Counter()
    for cost in costs:
        spent[cost.hour_at] += cost.nanos
    weights: dict[float, dict[tuple[str, str], int]] = {}
    for row in work:
        weights.setdefault(row.hour_at, {})[row.key, row.model] = weight_of(row.usage)
    shares: dict[float, dict[tuple[str, str], Nanos]] = {
        hour_at: split(spent[hour_at], of) for hour_at, of in weights.items()
    }
    return {
        "currency": currency,
        "start_at": start_at,
        "end_at": end_at,
        "costs": [
            {
                "hour_at": it.hour_at,
                "worker": it.worker,
                "profile": it.profile,
                "part": it.part,
                "nanos": it.nanos,
            }
            for it in costs
        ],
        "work": [
            {
                "hour_at": it.hour_at,
                "key": it.key,
                "model": it.model,
                "requests": it.requests,
                "prompt_tokens": it.usage.prompt,
                "cached_tokens": it.usage.cached,
                "completion_tokens": it.usage.completion,
                "nanos": shares[it.hour_at].get((it.key, it.model), 0),
            }
            for it in work
        ],
    }


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
