"""How the tables behind the ds4_* signals are written: names on pages, and how they combine.

Of the sources of a signal the first that a page can serve is used, alone: a page that shows an old
and a new name for one quantity must not count twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ds4watch.model.series import Labels

RATIO = 1.0
"""The upper bound of a share."""


class Combine(StrEnum):
    """How several series, of data-parallel engines above all, become one number."""

    SUM = "sum"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Pick:
    """Series by name without prefix; `x_total` is also looked for as a bare `x`.

    values: only series whose label `label` has one of these values.
    """

    name: str
    label: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """One way to get a signal: `scale` times (sum of `add` less sum of `subtract`) + `offset`.

    All of `add` and `subtract` is required.
    given: a series that has to be on the page for this way to hold; its value is not read.
    since, until: first and last version of the engine that has these names, where known.
    """

    add: tuple[Pick, ...]
    subtract: tuple[Pick, ...] = ()
    given: Pick | None = None
    scale: float = 1.0
    offset: float = 0.0
    since: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """A signal and the ways to get it; `why` is told if a page serves none ("": not told).

    split: (labels on the page, the first that a series has; label of the signal).
    labels: further labels of the signal.
    upper: more than that is no reading: a share over 1, a marker for "not available".
    no_zero: values of the split label whose zero says nothing; "" stands for no split.
    """

    signal: str
    sources: tuple[Source, ...]
    combine: Combine = Combine.SUM
    split: tuple[tuple[str, ...], str] | None = None
    labels: Labels = ()
    upper: float = math.inf
    no_zero: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """A generation of an engine's names: those that have to be there, those that must not."""

    name: str
    needs: tuple[str, ...]
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Engine:
    """What one engine calls things. A page is read under the first prefix that it uses.

    by_engine: signal → signal that keeps it apart by engine, where a page shows several.
    strange: a series that has one of these labels is not read.
    repeated: of series that differ in these labels only, the one with the lowest is read.
    skipped: beginnings of whole names that are not the engine's, though its prefix fits.
    generations: newest first.
    information: names whose labels tell something.
    """

    name: str
    prefixes: tuple[str, ...]
    meanings: tuple[Meaning, ...]
    engine_label: str
    by_engine: Mapping[str, str]
    generations: tuple[Generation, ...]
    strange: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    information: tuple[str, ...] = ()


def plain(*names: str, since: str = "", until: str = "") -> tuple[Source, ...]:
    """Return sources that are one name each."""
    return tuple(Source((Pick(name),), since=since, until=until) for name in names)
