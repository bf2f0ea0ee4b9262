"""An hour of a worker in its disjoint parts, which sum to exactly what it cost.

The ledger has money by what the worker did at each tick: its stages by the time that requests spent
in them, idle, asleep, … Requests are known only when they end. So stages are cut up further where
an hour is read, by what requests took of the worker in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from ds4watch.cost.attribution import CostPart
from ds4watch.cost.split import split
from ds4watch.cost.turns import METHOD as AGAIN_METHOD
from ds4watch.model.money import Nanos
from ds4watch.model.usage import ANSWER_WEIGHT, PROMPT_WEIGHT
from ds4watch.model.work import Work


class Part(StrEnum):
    """What a worker's hour is spent on."""

    PREFILL = "prefill"
    """Prompts that are computed for the first time."""
    PREFILL_AGAIN = "prefill_again"
    """Prompts that were computed before, and missed in the cache."""
    DECODE = "decode"
    RETRIES = "retries"
    """Attempts that were given up, and requests that ended without a whole answer."""
    IDLE = "idle"
    SPARE = "spare"
    """Ready, and has served nothing since: kept warm, or called ahead of load."""
    ASLEEP = "asleep"
    STARTING = "starting"
    BUSY = "busy"
    """With requests running of which neither times nor tokens are known."""


class Method(StrEnum):
    """How prefill and decode were told apart."""

    STAGE_TIME = "stage_time"
    """By the engine's sums of the time that requests spend in each."""
    TOKENS = "tokens"
    """By tokens: one of an answer for two and a half of a prompt."""
    BOTH = "both"
    """One for a part of the hour, one for the rest."""
    NONE = "none"


_UNBUSY: Mapping[CostPart, Part] = {
    CostPart.IDLE: Part.IDLE,
    CostPart.SPARE: Part.SPARE,
    CostPart.ASLEEP: Part.ASLEEP,
    CostPart.STARTING: Part.STARTING,
}
BUSY_PARTS = (CostPart.PREFILL, CostPart.DECODE, CostPart.BUSY)
"""Parts of the ledger with requests running."""
_STAGES = (Part.PREFILL, Part.DECODE, Part.BUSY)


@dataclass(frozen=True, slots=True)
class Parts:
    """Of an hour of a worker; `nanos` sum to its cost."""

    nanos: Mapping[Part, Nanos]
    method: Method


def parts_of(spent: Mapping[CostPart, Nanos], work: Work) -> Parts:
    """Return the parts of what was spent. `work`: what requests took of the worker meanwhile."""
    found: Counter[Part] = Counter()
    for done, nanos in spent.items():
        if done in _UNBUSY:
            found[_UNBUSY[done]] += nanos
    stages, method = _stages(spent, work)
    for stage, nanos in stages.items():
        for part, share in _of_stage(stage, nanos, work):
            found[part] += share
    return Parts({part: found[part] for part in Part if found[part]}, method)


def _stages(spent: Mapping[CostPart, Nanos], work: Work) -> tuple[Mapping[CostPart, Nanos], Method]:
    """Return busy money by stage; what no stage was timed of, by tokens if there are any."""
    timed = {it: spent.get(it, 0) for it in (CostPart.PREFILL, CostPart.DECODE)}
    rest = spent.get(CostPart.BUSY, 0)
    method = Method.STAGE_TIME if any(timed.values()) else Method.NONE
    if not rest:
        return timed, method
    by_tokens = split(
        rest,
        {
            CostPart.PREFILL: PROMPT_WEIGHT * work.usage.computed,
            CostPart.DECODE: ANSWER_WEIGHT * work.completion_tokens,
        },
    )
    if not by_tokens:
        return {**timed, CostPart.BUSY: rest}, method
    both = {it: nanos + by_tokens[it] for it, nanos in timed.items()}
    return both, Method.TOKENS if method is Method.NONE else Method.BOTH


def _of_stage(stage: CostPart, nanos: Nanos, work: Work) -> Iterator[tuple[Part, Nanos]]:
    wasted = split(nanos, {True: work.wasted_ms, False: max(0, work.held_ms - work.wasted_ms)})
    yield Part.RETRIES, wasted.get(True, 0)
    good = nanos - wasted.get(True, 0)
    if stage is not CostPart.PREFILL:
        yield Part.DECODE if stage is CostPart.DECODE else Part.BUSY, good
        return
    again = min(work.again_tokens, work.usage.computed)
    shares = split(good, {True: again, False: work.usage.computed - again})
    yield Part.PREFILL_AGAIN, shares.get(True, 0)
    yield Part.PREFILL, good - shares.get(True, 0)


def busy_of(spent: Mapping[CostPart, Nanos]) -> Nanos:
    """Return the money of the time with requests running."""
    return sum(spent.get(it, 0) for it in BUSY_PARTS)


def summed(works: Iterable[Work]) -> Work:
    """Return all of them together."""
    total = Work()
    for work in works:
        total = total.plus(work)
    return total


def method_of(part: Part, stage: Method) -> str:
    """Return how a part is known; `stage`: how prefill and decode were told apart."""
    if part is Part.PREFILL_AGAIN:
        return AGAIN_METHOD
    if part is Part.RETRIES:
        return "request_time"
    return stage.value if part in _STAGES else "phase"
