"""What ds4watch says of money, as samples; floats only here, for display."""

from __future__ import annotations

from ds4watch.cost.book import CostBook
from ds4watch.cost.budgets import BudgetBook
from ds4watch.engine.api_keys import ApiKeys
from ds4watch.model.money import NANOS_PER_UNIT, Nanos
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Sample, labels_of

_MOST_KEYS = 100


def cost_samples(per_hour: Nanos, spent: Nanos, currency: str) -> list[Sample]:
    """Return the running cost and what was spent so far; floats only here, for display."""
    labels = (("currency", currency),)
    return [
        Sample("ds4_cost_per_hour", labels, per_hour / NANOS_PER_UNIT),
        Sample("ds4_cost_spent_total", labels, spent / NANOS_PER_UNIT),
    ]


def hour_samples(book: CostBook, now: UnixSeconds, currency: str) -> list[Sample]:
    """Return the running hour beside what is expected of it, and busy money by stage."""
    labels = {"currency": currency}
    found = [
        Sample(
            "ds4_cost_used_total",
            labels_of({**labels, "profile": profile, "stage": stage.value}),
            nanos / NANOS_PER_UNIT,
        )
        for profile, stage, nanos in book.by_stage()
    ]
    for measure, nanos in book.so_far(now):
        of = labels_of({**labels, "measure": measure.value})
        found.append(Sample("ds4_cost_hour_so_far", of, nanos / NANOS_PER_UNIT))
    for it in book.compared(now):
        of = labels_of({**labels, "measure": it.measure.value, "basis": it.basis.value})
        found.append(Sample("ds4_cost_hour_expected", of, it.expected / NANOS_PER_UNIT))
        found.append(Sample("ds4_cost_hour_difference", of, it.difference / NANOS_PER_UNIT))
    return found


def anomaly_samples(book: CostBook, now: UnixSeconds, currency: str) -> list[Sample]:
    """Return what moves the running hour's cost against what the season and the day expect."""
    found = []
    for it in book.anomalies(now):
        labels = labels_of({"driver": it.driver.value, "currency": currency})
        values = {
            "ds4_cost_anomaly_deviation_ratio": it.value / it.expected - 1,
            "ds4_cost_anomaly_score": it.score,
            "ds4_cost_anomaly_impact": it.impact / NANOS_PER_UNIT,
        }
        found += [Sample(name, labels, value) for name, value in values.items()]
    return found


def budget_samples(book: BudgetBook, now: UnixSeconds, currency: str) -> list[Sample]:
    """Return how each budget stands."""
    found = []
    for it in book.standings(now):
        budget = it.budget
        labels = labels_of(
            {
                "scope": budget.scope.value,
                "who": budget.who or "all",
                "period": budget.period.value,
                "currency": currency,
            }
        )
        found += [
            Sample("ds4_cost_budget_limit", labels, budget.limit / NANOS_PER_UNIT),
            Sample("ds4_cost_budget_spent", labels, it.spent / NANOS_PER_UNIT),
        ]
        if it.projected is not None:
            projected = it.projected / NANOS_PER_UNIT
            found.append(Sample("ds4_cost_budget_projected", labels, projected))
        if it.lasts_seconds is not None:
            found.append(Sample("ds4_cost_budget_lasts_seconds", labels, it.lasts_seconds))
    return found


def key_budget_samples(keys: ApiKeys, currency: str) -> list[Sample]:
    """Return how keys stand that have budgets of their own: those that have spent most of them."""
    found = []
    known = sorted(keys.standings(), key=lambda it: -max(each.used_ratio for each in it[2]))
    for name, ease, standings in known[:_MOST_KEYS]:
        found.append(Sample("ds4_key_budget_easing", (("key", name),), float(ease)))
        for it in standings:
            labels = labels_of(
                {"scope": "api_key", "who": name, "period": it.span.value, "currency": currency}
            )
            found += [
                Sample("ds4_cost_budget_limit", labels, it.limit / NANOS_PER_UNIT),
                Sample("ds4_cost_budget_spent", labels, it.spent / NANOS_PER_UNIT),
            ]
            if it.projected is not None:
                projected = it.projected / NANOS_PER_UNIT
                found.append(Sample("ds4_cost_budget_projected", labels, projected))
            if it.lasts_seconds is not None:
                found.append(Sample("ds4_cost_budget_lasts_seconds", labels, it.lasts_seconds))
    return found
