"""Which rules could not be evaluated last time, and why."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from ds4watch.model.series import Sample, labels_of

log = logging.getLogger(__name__)

FAILED = "ds4_rule_evaluation_failed"


class _Failure(NamedTuple):
    rule: str
    error: str
    told: bool


class RuleFailures:
    """Failures by group and place in it; logs the first of a rule, and its recovery."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], _Failure] = {}

    def note(self, place: tuple[str, int], rule: str, error: str | None, *, told: bool) -> None:
        """Note how an evaluation went. told: the log has the error for all rules at once."""
        before = self._known.get(place)
        is_new = before is None or before.told
        if error is None:
            self._known.pop(place, None)
            if not is_new:
                log.warning("rule %s can be evaluated again", rule)
            return
        if is_new and not told:
            log.error("rule %s cannot be evaluated, its alerts stay as they are: %s", rule, error)
        self._known[place] = _Failure(rule, error, told=is_new and told)

    def of(self, place: tuple[str, int]) -> str | None:
        """Return why the rule at a place could not be evaluated, if so."""
        known = self._known.get(place)
        return None if known is None else known.error

    def errors(self) -> Mapping[str, str]:
        """Return why rules could not be evaluated, by name."""
        return {it.rule: it.error for it in self._known.values()}

    def samples(self) -> tuple[Sample, ...]:
        """Return a sample for each rule that failed."""
        failed = {(group, it.rule) for (group, _), it in self._known.items()}
        return tuple(
            Sample(FAILED, labels_of({"group": group, "rule": rule}), 1.0)
            for group, rule in sorted(failed)
        )
