"""Which targets did not answer at an instant of the past, and what of them is missed since.

As the live buffer has it: a series is missing if its target's last scrape failed, and either the
last good scrape had it or it left within the window that is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ds4watch.engine.replay_history import ReplayHistory
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels, is_stale
from ds4watch.promql.ast import Expr, Selector
from ds4watch.promql.columns import NO_LABELS, BoolArray, IndexArray, LabelColumn
from ds4watch.promql.doubt import Doubt, shared_by
from ds4watch.promql.evaluate import LOOKBACK_SECONDS
from ds4watch.promql.range_sight import Sight
from ds4watch.promql.storage import Block, SeriesMatrix
from ds4watch.promql.vectors import without_name

_OF_SCRAPES = frozenset({"up", "scrape_duration_seconds", "scrape_samples_scraped"})
_NEVER: UnixSeconds = -np.inf


@dataclass(frozen=True, slots=True)
class Answers:
    """How the scrapes of n targets went, at k steps.

    watched: (k,) some target was scraped lately. failed: (n, k) the last scrape failed, since
    `since`. good_at: (n, k) the last good scrape.
    """

    targets: tuple[Labels, ...]
    steps: FloatArray
    watched: BoolArray
    failed: BoolArray
    since: FloatArray
    good_at: FloatArray

    def part(self, chosen: slice | IndexArray) -> Answers:
        """Return the same for some of the steps."""
        return Answers(
            self.targets,
            self.steps[chosen],
            self.watched[chosen],
            self.failed[:, chosen],
            self.since[:, chosen],
            self.good_at[:, chosen],
        )


@dataclass(slots=True)
class AnswersReader:
    """Reads `up`; remembers of each target its last good scrape, and since when it fails."""

    _good: dict[Labels, UnixSeconds] = field(default_factory=dict)
    _since: dict[Labels, UnixSeconds] = field(default_factory=dict)

    def read(self, up: SeriesMatrix, steps: FloatArray) -> Answers:
        """Return how scrapes went at steps that follow those read before."""
        shape = len(up.labels), len(steps)
        failed = np.zeros(shape, dtype=np.bool_)
        since, good = np.full(shape, np.inf), np.full(shape, _NEVER)
        watched = np.zeros(len(steps), dtype=np.bool_)
        for block in up.blocks:
            for row, values in zip(block.rows.tolist(), block.values, strict=True):
                target = without_name(up.labels.sets[row])
                seen = self._one(target, block.times, values, steps)
                watched |= seen[0]
                failed[row], since[row], good[row] = seen[1:]
        if not len(up.labels):  # a history without `up` does not say who answered
            watched[:] = True
        targets = tuple(without_name(one) for one in up.labels)
        return Answers(targets, steps, watched, failed, since, good)

    def _one(
        self, target: Labels, times: FloatArray, values: FloatArray, steps: FloatArray
    ) -> tuple[BoolArray, BoolArray, FloatArray, FloatArray]:
        real = ~is_stale(values)
        times, values = times[real], values[real]
        place = np.searchsorted(times, steps, side="right")
        known = place > 0
        newest = np.maximum(place - 1, 0)
        ok = values != 0
        good_at = np.maximum.accumulate(
            np.append(self._good.get(target, _NEVER), np.where(ok, times, _NEVER))
        )
        # The first failed scrape of each run of them.
        begins = ~ok & np.concatenate([[True], ok[:-1]])[: len(ok)]
        since = np.maximum.accumulate(np.append(_NEVER, np.where(begins, times, _NEVER)))
        if not len(times):
            nothing = np.zeros(len(steps), dtype=np.bool_)
            return nothing, nothing, np.full(len(steps), np.inf), good_at[place]
        lately = known & (times[newest] > steps - LOOKBACK_SECONDS)
        failed = lately & ~ok[newest]
        began = np.where(failed, since[place], np.inf)
        if not ok[0]:  # it may have failed before what is read here
            before = self._since.get(target, times[0])
            began = np.where(failed & (since[place] == times[0]), min(before, times[0]), began)
        self._good[target] = float(good_at[place[-1]])
        if failed[-1]:
            self._since[target] = float(began[-1])
        else:
            self._since.pop(target, None)
        return lately, failed, began, good_at[place]


class Missing:
    """What is missing at the steps of `answers`; worked out for a selector when it is asked for."""

    def __init__(self, history: ReplayHistory, answers: Answers) -> None:
        self._history = history
        self._answers = answers
        self._number = {target: number for number, target in enumerate(answers.targets)}
        self._shapes = sorted(
            {tuple(name for name, _ in one) for one in answers.targets}, key=len, reverse=True
        )
        self._any_failed: BoolArray = np.any(answers.failed, axis=0)
        self._known: dict[tuple[Selector, bytes], LabelColumn] = {}

    def unsure(self, places: IndexArray) -> BoolArray:
        """Return at which of the steps anything may be missing."""
        doubted = self._history.doubted(self._answers.steps[places])
        found: BoolArray = self._any_failed[places] | doubted
        return found

    def doubts(
        self, expr: Expr, seen: Sequence[Sight], column: int, step: int
    ) -> tuple[bool, tuple[Doubt, ...]]:
        """Return whether anything is missing at a step, and what it bears upon.

        column: the step's place in `seen`. step: its place in the answers.
        """
        if not self.unsure(np.array([step]))[0]:
            return False, ()
        found: dict[Selector, LabelColumn] = {}
        for sight in seen:
            if sight.asked[column]:
                missing = self._missing(sight, column, step)
                if len(missing):
                    found[sight.selector] = missing
        shared = shared_by(expr) if found else {}
        doubts = [Doubt(missing, each) for it, missing in found.items() for each in shared[it]]
        return bool(found), tuple(doubts)

    def _missing(self, sight: Sight, column: int, step: int) -> LabelColumn:
        start = float(sight.start[column])
        at = float(self._answers.steps[step])
        found = self._history.columns(sight.selector.matchers, start, at)
        missing = np.zeros(len(found.labels), dtype=np.bool_)
        for block in found.blocks:
            self._mark(missing, found.labels, block, (start, at), step)
        before = self._before(sight.selector, step)
        made = self._history.missing(sight.selector.matchers, start, at)
        return _with(found.labels.where(missing), (*before, *made))

    def _mark(
        self,
        missing: BoolArray,
        labels: LabelColumn,
        block: Block,
        window: tuple[UnixSeconds, UnixSeconds],
        step: int,
    ) -> None:
        owners = self._owners(labels)[block.rows]
        failed = (owners >= 0) & self._answers.failed[owners, step]
        if not failed.any() or not len(block.times):
            return
        rows = np.flatnonzero(failed)
        low, high = np.searchsorted(block.times, window, side="right")
        real = ~is_stale(block.values[rows, max(0, low - 1) : high])
        left = (real[:, :-1] & ~real[:, 1:]).any(axis=1)
        good_at = self._answers.good_at[owners[rows], step]
        places = np.searchsorted(block.times, good_at, side="right") - 1
        had = (places >= 0) & ~is_stale(block.values[rows, np.maximum(places, 0)])
        there = real[:, -1] if real.shape[1] else np.zeros(len(rows), dtype=np.bool_)
        missing[block.rows[rows]] = (had | left) & ~there

    def _before(self, selector: Selector, step: int) -> LabelColumn:
        """Return what targets had whose last good scrape is before all that was read."""
        answers = self._answers
        good_at = answers.good_at[:, step]
        oldest = answers.steps[0] - LOOKBACK_SECONDS
        old = answers.failed[:, step] & (good_at < oldest) & (good_at > _NEVER)
        if not old.any():
            return NO_LABELS
        wanted = np.where(old, good_at, _NEVER)
        key = (selector, wanted.tobytes())
        if key not in self._known:
            self._known[key] = self._had(selector, wanted)
        return self._known[key]

    def _had(self, selector: Selector, good_at: FloatArray) -> LabelColumn:
        """Return the series that each target had at an instant of its own."""
        sets: list[Labels] = []
        for at in np.unique(good_at[good_at > _NEVER]).tolist():
            found = self._history.past(selector.matchers, at - 1.0, at)
            owners = self._owners(found.labels)
            for block in found.blocks:
                place = int(np.searchsorted(block.times, at, side="right")) - 1
                if place >= 0:
                    mine = owners[block.rows]
                    had = (mine >= 0) & (good_at[mine] == at)
                    had &= ~is_stale(block.values[:, place])
                    sets += [found.labels.sets[row] for row in block.rows[had].tolist()]
        return _column_of(sets)

    def _owners(self, labels: LabelColumn) -> IndexArray:
        """Return for each series the target that it is of, -1 for none."""
        return labels.derived(
            ("owners", self._answers.targets),
            lambda sets: np.array([self._owner(one) for one in sets], dtype=np.intp),
        )

    def _owner(self, labels: Labels) -> int:
        its: Mapping[str, str] = dict(labels)
        if its.get(NAME_LABEL) in _OF_SCRAPES or self._history.is_made(labels):
            return -1
        for names in self._shapes:
            target = tuple((name, its[name]) for name in names if name in its)
            if len(target) == len(names) and target in self._number:
                return self._number[target]
        return -1


def blind(answers: Answers, step: int, since: UnixSeconds, seconds: float) -> bool:
    """Return whether a worker that answered at `since` has not for so many seconds."""
    at = answers.steps[step]
    began = answers.since[:, step]
    lost = answers.failed[:, step] & (began > since) & (began <= at - seconds)
    return any(
        any(name == "worker" for name, _ in answers.targets[row])
        for row in np.flatnonzero(lost).tolist()
    )


def _with(column: LabelColumn, more: Iterable[Labels]) -> LabelColumn:
    known = set(column.sets)
    fresh = tuple(one for one in dict.fromkeys(more) if one not in known)
    return LabelColumn((*column.sets, *fresh)) if fresh else column


def _column_of(sets: Iterable[Labels]) -> LabelColumn:
    found = tuple(dict.fromkeys(sets))
    return LabelColumn(found) if found else NO_LABELS
