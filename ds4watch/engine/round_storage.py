"""What rules read in one round: asked for once, however many rules want it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import NAME_LABEL, FloatArray, Labels
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.storage import Ends, Latest, Matcher, MatchOp, Storage, Windows

T = TypeVar("T", Latest, Ends, Windows)
_Key = tuple[tuple[Matcher, ...], UnixSeconds, UnixSeconds]
_NAMELESS = ""


class Written(NamedTuple):
    """What a rule wrote in a round: series with `__name__`, and a value of each."""

    producer: str
    labels: LabelColumn
    values: FloatArray


class RuleStorage(Storage, Protocol):
    """Where rules read, and write what they make."""

    def write(
        self,
        producer: str,
        labels: LabelColumn,
        values: FloatArray,
        at: UnixSeconds,
        *,
        incomplete: bool = False,
    ) -> None:
        """Take in samples made here, `labels` with `__name__`.

        Series of the producer's last write that are missing have ended; if the write is
        `incomplete`, for want of a scrape: then what is made of them is incomplete, too.
        """
        ...


class RoundStorage:
    """A storage that nobody else writes to for the time being, with its answers remembered.

    Implements RuleStorage. For one round: what is remembered lives no longer.
    """

    def __init__(self, storage: RuleStorage) -> None:
        self.written: list[Written] = []
        self._storage = storage
        self._latest: dict[str, dict[_Key, Latest]] = {}
        self._ends: dict[str, dict[_Key, Ends]] = {}
        self._windows: dict[str, dict[_Key, Windows]] = {}

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
        self,
        producer: str,
        labels: LabelColumn,
        values: FloatArray,
        at: UnixSeconds,
        *,
        incomplete: bool = False,
    ) -> None:
        """Take in samples; what was read of their names before is no longer true."""
        self._storage.write(producer, labels, values, at, incomplete=incomplete)
        self.written.append(Written(producer, labels, values))
        names = labels.derived("names", _names)
        for known in (self._latest, self._ends, self._windows):
            if not names:  # series have ended, and it is not told of which name
                known.clear()
            for name in names:
                known.pop(name, None)


def _once(
    known: dict[str, dict[_Key, T]],
    ask: Callable[[Sequence[Matcher], UnixSeconds, UnixSeconds], T],
    key: _Key,
) -> T:
    of_name = known.setdefault(_name_of(key[0]), {})
    found = of_name.get(key)
    if found is None:
        found = of_name[key] = ask(*key)
    return found


def _names(sets: tuple[Labels, ...]) -> frozenset[str]:
    """Return the names of some series, and that of those who ask for no name; none of nothing."""
    names = {value for labels in sets for label, value in labels if label == NAME_LABEL}
    return frozenset({*names, _NAMELESS} if names else ())


def _name_of(matchers: tuple[Matcher, ...]) -> str:
    exact = (it.value for it in matchers if it.name == NAME_LABEL and it.op is MatchOp.EQUAL)
    return next(exact, _NAMELESS)
