"""What rules look at: the recent past of chosen series, in memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ds4watch.history.frames import FailedScrape, StoredFrame
from ds4watch.history.live_labels import name_of, without_name
from ds4watch.history.live_past import Past, with_failures
from ds4watch.history.live_plan import Place, Plan, Source, layout_of, make_plan, spaced
from ds4watch.history.live_pool import FEWEST_SLOTS, Pool
from ds4watch.history.live_reload import ScrapeHistory, take_in
from ds4watch.history.live_select import ends_of, latest_of, windows_of
from ds4watch.history.live_shelf import SCRAPE_SERIES, Keeping, Selection, Shelf, Shelves
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.scrape import ScrapeResult, Target
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels, Schema, SeriesKey
from ds4watch.promql.columns import NO_LABELS, LabelColumn
from ds4watch.promql.storage import Ends, Latest, Matcher, MatchOp, Windows

_log = logging.getLogger(__name__)

DEFAULT_BUDGET_BYTES = 256 << 20
_OWN_KEYS = tuple(SeriesKey(name) for name in SCRAPE_SERIES)
_HERE = "ds4watch"
"""The group of series made here."""
_KEPT_PLANS = 256
_KEPT_REMOVED = 1000
_FULL_SLACK_SECONDS = 60.0
"""A window that begins so much before what is kept in full is read from the coarse pools."""

SchemaOf = Callable[[int], Schema]


@dataclass(slots=True, eq=False)
class _Watched:
    """A target: the source of its page, and that of what we say about the scrape itself."""

    target: Target
    page: Source
    own: Source


_Scrape = tuple[_Watched, ScrapeResult]


class LiveBuffer:
    """The recent past of the series that rules read, of `ds4_*` and of `up`.

    Implements promql.storage.Storage. For one thread. windows: seconds that rules look back, by
    metric name; of other `ds4_*` only the newest samples are kept. interval_of: seconds between
    scrapes, by target group. Over `budget_bytes` the largest pool is cut in half; what is lost is
    counted in `dropped_columns`. Samples that are not newer than their target's newest are
    dropped and counted in `out_of_order`.
    """

    def __init__(
        self,
        *,
        window_seconds: float,
        windows: Mapping[str, float] | None = None,
        interval_of: Mapping[str, float] | None = None,
        budget_bytes: int = DEFAULT_BUDGET_BYTES,
    ) -> None:
        self.dropped_columns = 0
        self.out_of_order = 0
        self.removed: dict[str, Labels] = {}
        """Labels of targets that were removed on purpose, by name."""
        self._full_seconds = window_seconds
        self._keeping = Keeping(windows or {}, window_seconds)
        self._budget_bytes = budget_bytes
        self._interval_of = interval_of or {}
        self._shelves = Shelves(self._interval_of)
        self._watched: dict[str, _Watched] = {}
        self._producers: dict[str, tuple[Source, LabelColumn]] = {}
        self._plans: dict[Hashable, Plan] = {}
        self._layouts: dict[Hashable, tuple[Place, ...]] = {}
        self._newest_at: UnixSeconds = -math.inf
        self._retired: list[Source] = []
        self._moves_seen = 0

    @property
    def size_bytes(self) -> int:
        """Memory of the samples held."""
        return self._shelves.size_bytes

    def append(self, results: Sequence[ScrapeResult], schema_of: SchemaOf) -> None:
        """Take in scrapes, failed ones included."""
        waves: dict[tuple[str, int], list[_Scrape]] = {}
        own: dict[tuple[str, int], list[_Scrape]] = {}
        times: dict[str, int] = {}
        for result in results:
            watched = self._watch(result.target, result.at)
            if result.at <= watched.page.newest_at:
                self.out_of_order += 1
                continue
            watched.page.newest_at = watched.own.newest_at = result.at
            self._newest_at = max(self._newest_at, result.at)
            # All at once for the same targets each time, and of one target only the next.
            name = result.target.name
            before = times.get(name, 0)
            own.setdefault((watched.own.group, before), []).append((watched, result))
            times[name] = before + 1
            if result.blind or result.failure is not None:
                self._fail(watched, np.array([result.at], dtype=np.float64))
            else:
                key = (watched.page.group, result.schema_id)
                waves.setdefault(key, []).append((watched, result))
        for (group, schema_id), wave in waves.items():
            self._append_good(group, schema_id, wave, schema_of)
        for (group, _), wave in own.items():
            self._append_own(group, wave)
        self._keep_budget()

    def remove_target(self, name: str, at: UnixSeconds) -> None:
        """End every series of a target that was removed on purpose."""
        watched = self._watched.pop(name, None)
        self.removed[name] = (("worker", name),) if watched is None else watched.target.labels
        if len(self.removed) > _KEPT_REMOVED:
            del self.removed[next(iter(self.removed))]
        if watched is not None:
            self._end(watched, at)

    def write(
        self,
        producer: str,
        labels: LabelColumn,
        values: FloatArray,
        at: UnixSeconds,
        *,
        incomplete: bool = False,
    ) -> None:
        """Take in series made here. Those of `producer`'s last write that are missing go stale.

        labels: with `__name__`; writing the same column again costs no work on labels.
        incomplete: what goes stale does so for want of a scrape, as if its own had failed.
        """
        if not len(labels) and producer not in self._producers:
            return
        source, column = self._producers.get(producer) or (Source(_HERE), None)
        if at <= source.newest_at:
            self.out_of_order += 1
            return
        source.newest_at = at
        self._newest_at = max(self._newest_at, at)
        key = ("producer", producer)
        if column is not labels or key not in self._layouts:
            self._layouts[key] = self._layout_of_labels(labels)
            source.placed.pop(key, None)
            self._plans.pop(key, None)
            self._producers[producer] = (source, labels)
        doubted = self._doubted(source)
        self._put(key, [source], np.array([at], dtype=np.float64), values[None, :])
        if incomplete:
            for shelf, number in source.numbers.items():
                self._shelves.pool(shelf).doubt(number, at, again=shelf in doubted)
        self._keep_budget()

    def _doubted(self, source: Source) -> list[Shelf]:
        numbers = source.numbers.items()
        return [shelf for shelf, number in numbers if self._shelves.pool(shelf).failed[number]]

    def latest(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Latest:
        """Return the newest sample of each matching series in (start, end]."""
        return latest_of(self._select(matchers, start), start, end)

    def ends(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Ends:
        """Return the ends of each matching series in (start, end]."""
        return ends_of(self._select(matchers, start), start, end)

    def windows(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Windows:
        """Return all samples of each matching series in (start, end]."""
        return windows_of(self._select(matchers, start), start, end)

    def newest(self, name: str) -> list[tuple[Labels, float]]:
        """Return the live values of a metric, with labels that leave its name out."""
        found = self.latest([Matcher(NAME_LABEL, MatchOp.EQUAL, name)], -math.inf, math.inf)
        pairs = zip(found.labels, found.values.tolist(), strict=True)
        return [(without_name(labels), value) for labels, value in pairs]

    async def reload(self, store: ScrapeHistory, now: UnixSeconds) -> None:
        """Fill an empty buffer from the store."""
        await take_in(
            store,
            self._keeping.keeps,
            self.fill,
            start_at=now - self._keeping.reach_seconds(),
            silent_start_at=now - self._full_seconds,
        )

    def fill(self, frames: Iterable[StoredFrame]) -> None:
        """Take in what the store has of targets that nothing was taken in of, oldest first."""
        for frame in frames:
            self._fill(frame)
        self._keep_budget()

    def _fill(self, frame: StoredFrame) -> None:
        if not frame.target.is_scraped:
            self._fill_written(frame)
            return
        failed = [one for one in frame.failures if one.at > frame.times.max(initial=-math.inf)]
        watched = self._watch(self._with_group(frame.target), frame.first_at)
        if len(frame.times):
            page, own = with_failures(frame)
            group = watched.page.group
            series = [frame.schema.series[column] for column in frame.columns.tolist()]
            key = ("fill", frame.schema.id)
            self._layouts[key] = self._layout_of_page(series, group)
            self._fill_source(watched.page, key, page)
            del self._layouts[key], self._plans[key], watched.page.placed[key]
            self._own_layout(group)
            self._fill_source(watched.own, ("own", group), own)
            watched.page.newest_at = float(page.times[-1])
        if failed:
            self._fill_failed(watched, failed)
        watched.own.newest_at = watched.page.newest_at
        self._newest_at = max(self._newest_at, watched.page.newest_at)

    def _fill_failed(self, watched: _Watched, failed: Sequence[FailedScrape]) -> None:
        """Take in failed scrapes after which there is no good one; an outage has very many."""
        newest = np.maximum.accumulate([one.at for one in failed])
        risen = np.flatnonzero(np.diff(newest, prepend=-math.inf) > 0)
        times = newest[risen]
        self._fail(watched, times)
        own = np.array([(0.0, failed[place].took_seconds, 0.0) for place in risen.tolist()])
        group = watched.own.group
        self._own_layout(group)
        self._fill_source(watched.own, ("own", group), Past(times, own))
        watched.page.newest_at = float(times[-1])

    def _fill_written(self, frame: StoredFrame) -> None:
        """Take in what a rule wrote; it goes on from there."""
        if not len(frame.times):
            return
        source, _ = self._producers.setdefault(frame.target.name, (Source(_HERE), NO_LABELS))
        page, _ = with_failures(frame)
        key = ("fill", frame.schema.id)
        keys = [frame.schema.series[column] for column in frame.columns.tolist()]
        shelves = [(it, self._keeping.shelves_of(it.name, _HERE)) for it in keys]
        self._layouts[key] = layout_of(shelves)
        self._fill_source(source, key, page)
        del self._layouts[key], self._plans[key], source.placed[key]
        source.newest_at = float(page.times[-1])
        self._newest_at = max(self._newest_at, source.newest_at)

    def _with_group(self, target: Target) -> Target:
        """Return a stored target with the group it is most likely in: that of its job."""
        job = dict(target.labels).get("job", "")
        return replace(target, group=job) if job in self._interval_of else target

    def _fill_source(self, source: Source, key: Hashable, past: Past) -> None:
        for part in self._plan(key, [source]).parts:
            rows = part.rows[: len(part.picked)]
            times, cells = past.times, past.values.T[part.picked]
            if part.step_seconds:
                kept = spaced(times, part.step_seconds)
                times, cells = times[kept], cells[:, kept]
            part.pool.fill(int(part.sources[0]), times, rows, cells)

    def _watch(self, target: Target, at: UnixSeconds) -> _Watched:
        watched = self._watched.get(target.name)
        if watched is not None:
            if watched.target is target:
                return watched
            if watched.target.labels == target.labels:
                watched.target = target
                return watched
            self._end(watched, at)
        self.removed.pop(target.name, None)
        page, own = Source(target.group, target.labels), Source(target.group, target.labels)
        watched = self._watched[target.name] = _Watched(target, page, own)
        return watched

    def _append_good(
        self,
        group: str,
        schema_id: int,
        wave: Sequence[_Scrape],
        schema_of: SchemaOf,
    ) -> None:
        results = [result for _, result in wave]
        at = np.array([result.at for result in results], dtype=np.float64)
        key = (group, schema_id)
        if key not in self._layouts:
            self._layouts[key] = self._layout_of_page(schema_of(schema_id).series, group)
        values = np.stack([result.values for result in results])
        self._put(key, [watched.page for watched, _ in wave], at, values)

    def _append_own(self, group: str, wave: Sequence[_Scrape]) -> None:
        results = [result for _, result in wave]
        at = np.array([result.at for result in results], dtype=np.float64)
        values = np.array([_of_scrape(result) for result in results])
        self._put_own(group, [watched.own for watched, _ in wave], at, values)

    def _fail(self, watched: _Watched, times: FloatArray) -> None:
        """Note that pages were not got, or say nothing of the engine."""
        for shelf, number in watched.page.numbers.items():
            pool = self._shelves.pool(shelf)
            if not shelf.step_seconds:
                pool.fail(number, times)
            elif not pool.failed[number]:
                # With a column for each, a long outage would take the place of what was before it.
                pool.fail(number, times[:1])

    def _end(self, watched: _Watched, at: UnixSeconds) -> None:
        at = max(at, math.nextafter(watched.page.newest_at, math.inf))
        for source in (watched.page, watched.own):
            for shelf, number in source.numbers.items():
                self._shelves.pool(shelf).end(number, at)
            self._retired.append(source)

    def _put_own(
        self, group: str, sources: list[Source], at: FloatArray, values: FloatArray
    ) -> None:
        self._own_layout(group)
        self._put(("own", group), sources, at, values)

    def _own_layout(self, group: str) -> None:
        key = ("own", group)
        if key not in self._layouts:
            shelves = [(it, self._keeping.shelves_of(it.name, group)) for it in _OWN_KEYS]
            self._layouts[key] = layout_of(shelves)

    def _put(
        self, key: Hashable, sources: list[Source], at: FloatArray, values: FloatArray
    ) -> None:
        for part in self._plan(key, sources).parts:
            batch = part.batch(at, values)
            if len(batch.sources):
                self._make_room(part.pool, part.pool.overwrites(batch))
                part.pool.put(batch)

    def _plan(self, key: Hashable, sources: list[Source]) -> Plan:
        plan = self._plans.get(key)
        if plan is None or not plan.holds(sources, self._shelves.moves):
            if len(self._plans) >= _KEPT_PLANS:
                self._plans.clear()
            plan = make_plan(self._shelves, sources, self._layouts[key], key, self._newest_at)
            self._plans[key] = plan
        return plan

    def _layout_of_page(self, series: Sequence[SeriesKey], group: str) -> tuple[Place, ...]:
        return layout_of([(key, self._keeping.shelves(key, group)) for key in series])

    def _layout_of_labels(self, labels: Iterable[Labels]) -> tuple[Place, ...]:
        keys = [SeriesKey(name_of(one), without_name(one)) for one in labels]
        return layout_of([(key, self._keeping.shelves_of(key.name, _HERE)) for key in keys])

    def _select(self, matchers: Sequence[Matcher], start: UnixSeconds) -> Selection:
        coarse = start < self._newest_at - self._full_seconds - _FULL_SLACK_SECONDS
        return self._shelves.select(tuple(matchers), coarse=coarse)

    def _make_room(self, pool: Pool, overwritten: int) -> None:
        """Lengthen a pool that is too short for its targets' pace; where memory is out, say so."""
        if not overwritten:
            return
        if self.size_bytes + pool.size_bytes <= self._budget_bytes:
            pool.resize(2 * pool.slots)
        else:
            self._note_dropped(overwritten)

    def _keep_budget(self) -> None:
        if self._moves_seen != self._shelves.moves:
            self._moves_seen = self._shelves.moves
            self._retired = [one for one in self._retired if not self._shelves.let_go(one.numbers)]
        while self.size_bytes > self._budget_bytes:
            pool = max(self._shelves.pools(), key=lambda one: one.size_bytes)
            if pool.slots <= FEWEST_SLOTS:
                return
            before = pool.slots
            pool.resize(before // 2)
            self._note_dropped(before - pool.slots)

    def _note_dropped(self, columns: int) -> None:
        if not self.dropped_columns:
            _log.warning(
                "samples in memory would take over %s bytes: rules see less than %s s from here on",
                self._budget_bytes,
                self._full_seconds,
            )
        self.dropped_columns += columns


def _of_scrape(result: ScrapeResult) -> tuple[float, float, float]:
    """Return what we say about a scrape: SCRAPE_SERIES."""
    if result.failure is not None:
        return 0.0, result.took_seconds, 0.0
    page = len(result.values) if result.page_samples is None else result.page_samples
    return 1.0, result.took_seconds, float(page)
