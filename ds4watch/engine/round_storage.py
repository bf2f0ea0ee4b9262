"""What rules read in one round: asked for once, however many rules want it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.storage import Ends, Latest, Matcher, Storage, Windows

T = TypeVar("T", Latest, Ends, Windows)
_Key = tuple[tuple[Matcher, ...], UnixSeconds, UnixSeconds]


class RuleStorage(Storage, Protocol):
    """Where rules read, and write what they make."""

    def write(
        self, producer: str, labels: LabelColumn, values: FloatArray, at: UnixSeconds
    ) -> None:
        """Take in samples made here, `labels` with `__name__`.

        Series of the producer's last write that are missing have ended.
        """
        ...


class RoundStorage:
    """A storage that nobody else writes to for the time being, with its answers remembered.

    Implements RuleStorage. For one round: what is remembered lives no longer.
    """

    def __init__(self, storage: RuleStorage) -> None:
        self._storage = storage
        self._latest: dict[_Key, Latest] = {}
        self._ends: dict[_Key, Ends] = {}
        self._windows: dict[_Key, Windows] = {}

    def latest(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Latest:
        """Return the newest sample of each matching series."""
        return _once(self._latest, self._storage.latest, (tuple(matchers), start, end))

    def ends(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Ends:
        """Return the ends of each matching series."""
        return _once(self._ends, self._storage.ends, (tuple(matchers), start, end))

    def windows(self, matchers: Sequence[Matcher], start: UnixSeconds, end: UnixSeconds) -> Windows:
        """Return all samples of each matching series."""
        return _once(self._windows, self._storage.windows, (tuple(matchers), start, end))

    def write(
        self, producer: str, labels: LabelColumn, values: FloatArray, at: UnixSeconds
    ) -> None:
        """Take in samples; what was read before is no longer true."""
        self._storage.write(producer, labels, values, at)
        for known in (self._latest, self._ends, self._windows):
            known.clear()


def _once(
    known: dict[_Key, T],
    ask: Callable[[Sequence[Matcher], UnixSeconds, UnixSeconds], T],
    key: _Key,
) -> T:
    found = known.get(key)
    if found is None:
        found = known[key] = ask(*key)
    return found
