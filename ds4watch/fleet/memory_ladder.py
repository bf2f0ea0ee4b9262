"""The ladder down which a worker goes that ran out of memory. Pure.

A step lowers one of three settings and never raises another: sequences in a batch, the context,
the share of the GPU. Which ones are of use depends on what was short: a cache that does not fit is
not helped by a smaller share. There are few and large steps, for each costs a start.

    sequences   halved, down to an eighth
    context     what the message says would fit, else halved; never under `min_model_len`, and not
                touched without it
    utilization what the message says is free, else 0.9 of it; down to 0.7 of the profile's
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.oom import Oom, OomKind
from ds4watch.model.ports import UnixSeconds

VLLM_SEQUENCES = 256
VLLM_UTILIZATION = 0.92
"""vLLM's own defaults (config/scheduler.py, config/cache.py)."""
_SEQUENCES_FLOOR = 8
_UTILIZATION_FLOOR = 0.7
_UTILIZATION_FACTOR = 0.9
_LENGTH_GRAIN = 16
_MOST_RELAPSES = 5

_SEQS_FLAG, _LEN_FLAG = "--max-num-seqs", "--max-model-len"
_UTILIZATION_FLAG = "--gpu-memory-utilization"
_FIXED_CACHE_FLAG = "--kv-cache-memory-bytes"


class Lever(StrEnum):
    """A setting that can be lowered."""

    SEQUENCES = "max_num_seqs"
    CONTEXT = "max_model_len"
    UTILIZATION = "gpu_memory_utilization"


_LEVERS: dict[OomKind, tuple[Lever, ...]] = {
    OomKind.KV_START: (Lever.CONTEXT, Lever.SEQUENCES),
    OomKind.GPU_TAKEN: (Lever.UTILIZATION,),
    OomKind.GPU_START: (Lever.SEQUENCES, Lever.UTILIZATION, Lever.CONTEXT),
    OomKind.GPU_RUN: (Lever.SEQUENCES, Lever.UTILIZATION, Lever.CONTEXT),
    OomKind.HOST: (Lever.SEQUENCES, Lever.CONTEXT),
}


@dataclass(frozen=True, slots=True)
class Step:
    """A setting, and what it is lowered to."""

    lever: Lever
    value: float

    def __str__(self) -> str:
        return f"{self.lever} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Ladder:
    """The steps a worker has gone down, the last when `at`.

    relapses: how often a step had to be taken again soon after it was taken back.
    """

    steps: tuple[Step, ...] = ()
    at: UnixSeconds = 0.0
    eased_at: UnixSeconds = 0.0
    relapses: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return {
            "steps": [[step.lever.value, step.value] for step in self.steps],
            "at": self.at,
            "eased_at": self.eased_at,
            "relapses": self.relapses,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ladder:
        """Read what `as_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        steps = tuple(Step(Lever(lever), float(value)) for lever, value in data["steps"])
        return cls(steps, float(data["at"]), float(data["eased_at"]), int(data["relapses"]))


def next_step(profile: Profile, oom: Oom, steps: Sequence[Step]) -> Step | None:
    """Return the next step down for a worker of `profile`; None at the ladder's end.

    Of the settings that may help, the one that was lowered least often.
    """
    lowered = all_stepped(profile, steps)
    taken = Counter(step.lever for step in steps)
    lower = {
        Lever.SEQUENCES: _fewer_sequences,
        Lever.CONTEXT: _shorter_context,
        Lever.UTILIZATION: _smaller_share,
    }
    found = (lower[lever](profile, lowered, oom) for lever in _LEVERS[oom.kind])
    possible = [step for step in found if step is not None]
    return min(possible, key=lambda step: taken[step.lever], default=None)


def stepped(profile: Profile, step: Step) -> Profile:
    """Return the profile with one setting lowered to the step's value; never raised."""
    match step.lever:
        case Lever.SEQUENCES:
            most = min(int(step.value), sequences(profile))
            return _without(profile, _SEQS_FLAG).model_copy(update={"max_num_seqs": most})
        case Lever.CONTEXT:
            longest = context(profile)
            length = int(step.value) if longest is None else min(int(step.value), longest)
            return _without(profile, _LEN_FLAG).model_copy(update={"max_model_len": length})
        case Lever.UTILIZATION:
            share = min(step.value, utilization(profile))
            bare = _without(profile, _UTILIZATION_FLAG)
            args = (*bare.engine_args, _UTILIZATION_FLAG, f"{share:g}")
            return bare.model_copy(update={"engine_args": args})


def all_stepped(profile: Profile, steps: Sequence[Step]) -> Profile:
    """Return the profile after all steps."""
    for step in steps:
        profile = stepped(profile, step)
    return profile


def gone_down(ladder: Ladder, step: Step, now: UnixSeconds, good_seconds: float) -> Ladder:
    """Return the ladder with one more step; a relapse if one was taken back not long ago."""
    is_relapse = ladder.eased_at > 0 and now - ladder.eased_at < good_seconds
    relapses = min(_MOST_RELAPSES, ladder.relapses + is_relapse)
    return Ladder((*ladder.steps, step), now, ladder.eased_at, relapses)


def is_step_back_due(ladder: Ladder, now: UnixSeconds, good_seconds: float) -> bool:
    """Return whether a step has held for long enough to try without: longer after relapses."""
    return bool(ladder.steps) and now - ladder.at >= good_seconds * 2**ladder.relapses


def eased(ladder: Ladder, now: UnixSeconds) -> Ladder:
    """Return the ladder with the last step taken back."""
    return replace(ladder, steps=ladder.steps[:-1], at=now, eased_at=now)


def sequences(profile: Profile) -> int:
    """Return how many sequences a batch may have."""
    given = profile.max_num_seqs or _number(profile, _SEQS_FLAG)
    return int(given) if given else VLLM_SEQUENCES


def context(profile: Profile) -> int | None:
    """Return the longest context; None if it is left to the model."""
    given = profile.max_model_len or _number(profile, _LEN_FLAG)
    return int(given) if given else None


def utilization(profile: Profile) -> float:
    """Return the share of a GPU that it takes."""
    return _number(profile, _UTILIZATION_FLAG) or VLLM_UTILIZATION


def _fewer_sequences(profile: Profile, lowered: Profile, _oom: Oom) -> Step | None:
    floor = max(1, sequences(profile) // _SEQUENCES_FLOOR)
    return _if_lower(Lever.SEQUENCES, max(floor, sequences(lowered) // 2), sequences(lowered))


def _shorter_context(profile: Profile, lowered: Profile, oom: Oom) -> Step | None:
    shortest, now = profile.min_model_len, context(lowered)
    if shortest is None or now is None:
        return None
    fits = oom.fits_model_len
    wanted = now // 2 if fits is None or fits >= now else fits // _LENGTH_GRAIN * _LENGTH_GRAIN
    return _if_lower(Lever.CONTEXT, max(shortest, wanted), now)


def _smaller_share(profile: Profile, lowered: Profile, oom: Oom) -> Step | None:
    if profile.engine is Engine.SIM or _number(profile, _FIXED_CACHE_FLAG) is not None:
        return None
    now, fits = utilization(lowered), oom.fits_utilization
    floor = _hundredths(utilization(profile) * _UTILIZATION_FLOOR)
    wanted = _hundredths(now * _UTILIZATION_FACTOR if fits is None or fits >= now else fits)
    return _if_lower(Lever.UTILIZATION, max(floor, wanted), now)


def _if_lower(lever: Lever, value: float, now: float) -> Step | None:
    return Step(lever, value) if value < now else None


def _hundredths(share: float) -> float:
    return max(0.01, int(100 * share + 1e-9) / 100)


def _number(profile: Profile, flag: str) -> float | None:
    """Return the value of a flag as vLLM reads it: the last one counts."""
    args = (*profile.engine_args, *profile.cpu_args)
    found = None
    for index, arg in enumerate(args):
        name, equals, value = arg.partition("=")
        if _dashed(name) == flag:
            found = value if equals else args[index + 1 : index + 2][0] if args[index + 1 :] else ""
    try:
        return float(found) if found else None
    except ValueError:
        return None


def _without(profile: Profile, flag: str) -> Profile:
    kept = {
        "engine_args": _dropped(profile.engine_args, flag),
        "cpu_args": _dropped(profile.cpu_args, flag),
    }
    return profile.model_copy(update=kept)


def _dropped(args: Sequence[str], flag: str) -> tuple[str, ...]:
    kept: list[str] = []
    is_value = False
    for arg in args:
        name, equals, _ = arg.partition("=")
        is_flag = _dashed(name) == flag
        if not is_flag and not is_value:
            kept.append(arg)
        is_value = is_flag and not equals
    return tuple(kept)


def _dashed(name: str) -> str:
    """Return a flag as it is written with dashes; vLLM takes underscores too."""
    return "--" + name[2:].replace("_", "-") if name.startswith("--") else name
