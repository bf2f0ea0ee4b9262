"""The levers of a degradation level: one table, which the policy file's keys are made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Lever:
    """What is true of one lever: its bounds in the file, its meaning, which way it tightens.

    strictness: how much a value takes away; the higher, the more. None (not set) takes least.
    """

    meaning: str
    low: float | None = None
    high: float | None = None
    strictness: Callable[[Any], float] | None = None


@dataclass(frozen=True, slots=True)
class Substitution:
    """Another model answers: for a share of the conversations, in some classes of work or all."""

    asked: str
    serves: str
    share: float = 1.0
    classes: tuple[str, ...] = ()
    """Classes of work (`x-ds4-class`) that it holds for; empty: all."""
    shares: tuple[tuple[str, float], ...] = ()
    """Shares of single classes, in place of `share`: best suited first, mathematics last."""

    def share_of(self, work_class: str) -> float:
        """Return the share of the conversations of a class."""
        if self.classes and work_class not in self.classes:
            return 0.0
        return dict(self.shares).get(work_class, self.share)


def _smaller(value: Any) -> float:
    return -float(value)


def _greater(value: Any) -> float:
    return float(value)


def _lever(
    meaning: str,
    default: Any = None,
    *,
    low: float | None = None,
    high: float | None = None,
    strictness: Callable[[Any], float] | None = None,
) -> Any:
    return field(default=default, metadata={"lever": Lever(meaning, low, high, strictness)})


@dataclass(frozen=True, slots=True)
class Limits:
    """What one degradation level asks of the gateway; None, False and empty mean "no change"."""

    max_tokens_cap: int | None = _lever(
        "An answer gets at most so many tokens.", low=1, strictness=_smaller
    )
    max_inflight: int | None = _lever(
        "So many requests are under way at most, over all gateway processes; more wait, then get "
        "a 503.",
        low=1,
        strictness=_smaller,
    )
    long_max_inflight: int | None = _lever(
        "So many long requests (estimated at over `gateway.admission.long_over_tokens`) are under "
        "way at most, over all gateway processes; more get a 503.",
        low=0,
        strictness=_smaller,
    )
    n_cap: int | None = _lever("So many answers to one request (`n`).", low=1, strictness=_smaller)
    best_of_cap: int | None = _lever(
        "So many tries for one answer (`best_of`).", low=1, strictness=_smaller
    )
    max_turns: int | None = _lever(
        "Only so many of the last turns of a conversation reach the worker.",
        low=1,
        strictness=_smaller,
    )
    compress_ratio: float | None = _lever(
        "Long prompts are compressed to this share of their tokens.",
        low=0.3,
        high=0.7,
        strictness=_smaller,
    )
    compress_over_tokens: int | None = _lever(
        "Prompts of more (estimated) tokens than this are long enough to be compressed; 4096 if "
        "not given.",
        low=1,
    )
    thinking_off: bool = _lever(
        "Models that can think or not answer without thinking.",
        default=False,
        strictness=_greater,
    )
    warm_up_off: bool = _lever(
        "Workers that serve are not warmed up again (`fleet.rewarm_after_seconds`).",
        default=False,
        strictness=_greater,
    )
    group_prefixes: bool = _lever(
        "Requests that begin alike wait a moment for the first of them (`gateway.batching`).",
        default=False,
    )
    substitutions: tuple[Substitution, ...] = _lever(
        "`asked: serves`, or `asked: {model: serves, share: 0.5, classes: [chat]}`: another model "
        "answers, if a ready worker serves it and it is able to. `shares: {math: 0}` gives a class "
        "a share of its own.",
        default=(),
    )
    shed_below_priority: int | None = _lever(
        "Requests with an `x-ds4-priority` under this get a 503 (0 to 9; 5 is the default).",
        low=0,
        high=10,
        strictness=_greater,
    )

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        return asdict(self) | {"substitutions": [_row(it) for it in self.substitutions]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Limits:
        """Read what `as_json` wrote; unknown keys (a newer daemon's) are ignored."""
        known = {item.name for item in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        values["substitutions"] = tuple(map(_substitution, values.get("substitutions", ())))
        return cls(**values)


def _row(it: Substitution) -> list[Any]:
    """Return a substitution as a row, no longer than it has to be: older gateways read it too."""
    row: list[Any] = [it.asked, it.serves]
    if it.share < 1 or it.classes or it.shares:
        row += [it.share, list(it.classes)]
    return [*row, [list(pair) for pair in it.shares]] if it.shares else row


def _substitution(row: Any) -> Substitution:
    asked, serves, *more = row
    share, classes, shares = [*more, *_UNSAID[len(more) :]][: len(_UNSAID)]
    return Substitution(
        str(asked),
        str(serves),
        float(share),
        tuple(map(str, classes)),
        tuple((str(name), float(part)) for name, part in shares),
    )


_UNSAID: tuple[Any, ...] = (1.0, (), ())
"""What a row leaves out: share, classes, shares."""


LEVERS: Mapping[str, Lever] = {item.name: item.metadata["lever"] for item in fields(Limits)}
"""Every lever by the name of its field of `Limits`."""


def is_sound(limits: Limits) -> bool:
    """Return whether every value has its type and is within its lever's bounds."""
    return all(_is_sound(LEVERS[name], getattr(limits, name)) for name in LEVERS)


def _is_sound(lever: Lever, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return value is None or lever.low is None
    if isinstance(value, tuple):
        return all(
            0 <= share <= 1
            for it in value
            for share in (it.share, *(part for _, part in it.shares))
        )
    if not isinstance(value, int | float) or lever.low is None:
        return False
    if isinstance(lever.low, int) and not isinstance(value, int):
        return False
    return lever.low <= value and (lever.high is None or value <= lever.high)


def laxer_levers(lower: Limits, upper: Limits) -> tuple[str, ...]:
    """Return the levers in which `upper`, a level further up, takes away less than `lower`."""
    names = [name for name, lever in LEVERS.items() if _is_laxer(lever, name, lower, upper)]
    if _substitutes_less(lower.substitutions, upper.substitutions):
        names.append("substitutions")
    return tuple(names)


def _is_laxer(lever: Lever, name: str, lower: Limits, upper: Limits) -> bool:
    below, above = getattr(lower, name), getattr(upper, name)
    if lever.strictness is None or below is None:
        return False
    return above is None or lever.strictness(above) < lever.strictness(below)


def _substitutes_less(lower: tuple[Substitution, ...], upper: tuple[Substitution, ...]) -> bool:
    above = {it.asked: it for it in upper}
    return any(_covers_less(it, above.get(it.asked)) for it in lower)


_ANY_OTHER = ""
"""A class of work that nobody names."""


def _covers_less(below: Substitution, above: Substitution | None) -> bool:
    if above is None:
        return True
    named = {*below.classes, *above.classes, *dict(below.shares), *dict(above.shares), _ANY_OTHER}
    return any(above.share_of(it) < below.share_of(it) for it in named)


def gentle(limits: Limits) -> Limits:
    """Return what of a level changes answers of one key; nobody is turned away or waits."""
    return replace(
        limits,
        max_inflight=None,
        long_max_inflight=None,
        warm_up_off=False,
        group_prefixes=False,
        shed_below_priority=None,
    )


def tighter(one: Limits, other: Limits) -> Limits:
    """Return both: of each lever what takes away more, and `one`'s substitutions before others."""
    values = {
        name: _tighter(LEVERS[name], getattr(one, name), getattr(other, name)) for name in LEVERS
    }
    asked = {it.asked for it in one.substitutions}
    more = tuple(it for it in other.substitutions if it.asked not in asked)
    over = (it for it in (one.compress_over_tokens, other.compress_over_tokens) if it is not None)
    values["substitutions"] = (*one.substitutions, *more)
    values["compress_over_tokens"] = min(over, default=None)
    return Limits(**values)


def _tighter(lever: Lever, one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if lever.strictness is None:
        return one or other
    return max(one, other, key=lever.strictness)
