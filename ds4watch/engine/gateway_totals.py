"""What gateways count, added up over all of them and over their restarts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ds4watch.fleet.board import GatewayView
from ds4watch.model.series import Sample, labels_of
from ds4watch.model.worker import WorkerView

_FOUND = "ds4_output_filter_matches_total"
_SCORED = "ds4_answers_scored_total"
_SCORES = "ds4_answer_score_sum_total"
_MAX_SERIES = 4096


class GatewayTotals:
    """Counters of all gateways since the daemon's start."""

    def __init__(self) -> None:
        self._before: Mapping[str, Mapping[tuple[str, str, str], float]] = {}
        self._sums: dict[tuple[str, str, str], float] = {}

    def note(self, gateways: Iterable[GatewayView]) -> None:
        """Take in the counters as they stand. A process that is new begins at zero."""
        now = {f"{view.name} {view.pid}": _counts(view) for view in gateways}
        for name, counts in now.items():
            before = self._before.get(name, {})
            for series, value in counts.items():
                if series in self._sums or len(self._sums) < _MAX_SERIES:
                    more = max(0.0, value - before.get(series, 0.0))
                    self._sums[series] = self._sums.get(series, 0.0) + more
        self._before = now

    def samples(self, workers: Iterable[WorkerView]) -> list[Sample]:
        """Return the counters, those of workers with their profile; of others they are left out."""
        profiles = {worker.id: worker.profile for worker in workers}
        found = []
        for (name, one, other), value in sorted(self._sums.items()):
            if name == _FOUND:
                labels = labels_of({"rule": one, "action": other})
            elif one in profiles:
                labels = labels_of({"worker": one, "profile": profiles[one]})
            else:
                continue
            found.append(Sample(name, labels, float(value)))
        return found


def _counts(view: GatewayView) -> dict[tuple[str, str, str], float]:
    found = {(_FOUND, rule, action): float(n) for (rule, action), n in view.filtered.items()}
    for worker, (count, total) in view.scores.items():
        found[_SCORED, worker, ""] = float(count)
        found[_SCORES, worker, ""] = total
    return found
