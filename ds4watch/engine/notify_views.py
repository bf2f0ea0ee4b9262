"""What messages show beside an alert's value: its threshold, and the last hour of it."""

from __future__ import annotations

from collections.abc import Sequence

from ds4watch.alerting.grouping import News
from ds4watch.alerting.lint.conditions import Comparison, comparison_of, placed
from ds4watch.engine.query_process import QueryProcess
from ds4watch.engine.query_wire import RangeQuery
from ds4watch.engine.rulebook import RuleBook
from ds4watch.model.alert import AlertRule
from ds4watch.model.errors import QueryError, StoreError
from ds4watch.model.ports import UnixSeconds
from ds4watch.promql.render import render

_PAST_SECONDS = 3600.0
_STEP_SECONDS = 60.0


class RuleViews:
    """Looks into the rules and the history (notify.slack.Views)."""

    def __init__(self, rules: RuleBook, queries: QueryProcess) -> None:
        self._rules = rules
        self._queries = queries

    def threshold(self, news: News) -> str:
        """Return the condition that an alert passed, as `> 50`; empty if it is not a number."""
        found = self._comparison(news)
        return "" if found is None else f"{found.op} {found.threshold:g}"

    async def past(self, news: News, at: UnixSeconds) -> Sequence[tuple[UnixSeconds, float]]:
        """Return the last hour of what the rule compares; empty if it cannot be had."""
        found = self._comparison(news)
        if found is None:
            return ()
        query = RangeQuery(render(found.expr), at - _PAST_SECONDS, at, _STEP_SECONDS)
        try:
            matrix = await self._queries.ask_range(query)
        except (QueryError, StoreError):
            return ()  # The picture is left out; the query's own metrics tell of it.
        own = set(news.labels)
        for row, labels in enumerate(matrix.labels.sets):
            if set(labels) <= own:
                there = matrix.there[row]
                return list(
                    zip(
                        matrix.steps[there].tolist(),
                        matrix.values[row][there].tolist(),
                        strict=True,
                    )
                )
        return ()

    def _comparison(self, news: News) -> Comparison | None:
        for compiled in self._rules.named(news.name):
            if isinstance(compiled.rule, AlertRule) and compiled.rule.tier is news.tier:
                parts = (comparison_of(it.expr) for it in placed(compiled.expr))
                return next((it for it in parts if it is not None), None)
        return None
