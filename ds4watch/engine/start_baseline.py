"""What profiles gave at their starts, as it is kept: by model and by place, so many at most."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from ds4watch.config.profile import Profile
from ds4watch.model.ports import UnixSeconds
from ds4watch.quality.fingerprint import (
    Fingerprint,
    Noise,
    as_document,
    distance,
    from_document,
)

PREFIX = "start_check:"
MOST_OF_A_PROFILE = 16
"""Models and places of one profile that are kept: those of the latest starts."""
MOST = 512
_MODEL = {"engine", "model", "prepare", "prepare_args", "precision", "engine_args"}
"""Of a profile: with another one of these it is to give something else."""
_PLACE = {
    *("cpu_args", "environment", "cpu_environment", "max_num_seqs", "max_model_len"),
    *("gpus", "gpu_share", "gpu_kind", "vllm_python"),
}
"""Of a profile: with another one of these kernels and batches may be others."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a profile gave: a model of it (a digest), at a place (one too, of all that it runs on).

    Numbers are compared at the same place only: another version of the engine, other GPUs and
    other batches round otherwise, which says nothing of the model. noise: what its good starts
    differed by. used_at: the last of them.
    """

    profile: str
    model: str
    place: str
    given: Fingerprint
    noise: Noise = field(default_factory=Noise)
    used_at: UnixSeconds = 0.0

    @property
    def name(self) -> str:
        """Under which it is kept; of a length that every database takes."""
        return PREFIX + _digest([self.profile, self.model, self.place])[:32]

    def with_start(self, given: Fingerprint, again: Fingerprint, at: UnixSeconds) -> Baseline:
        """Return it after a good start."""
        noise = self.noise.learnt(distance(self.given, given), distance(given, again))
        return replace(self, noise=noise, used_at=at)

    def as_json(self) -> dict[str, Any]:
        """Return it JSON-ready."""
        named = {"profile": self.profile, "model": self.model, "place": self.place}
        noise = {"starts": self.noise.starts, "nats": self.noise.nats}
        return {
            **named,
            "given": as_document(self.given),
            "noise": noise,
            "used_at": self.used_at,
        }


def begun(
    profile: Profile,
    given: Fingerprint,
    again: Fingerprint,
    *,
    version: str,
    device: str,
    at: UnixSeconds,
) -> Baseline:
    """Return what a start makes of its profile; it is no start to learn from, being the first."""
    place = _digest([profile.model_dump(mode="json", include=_PLACE), version, device])
    noise = Noise(0, distance(given, again) or 0.0)
    return Baseline(profile.name, model_of(profile), place, given, noise, at)


def model_of(profile: Profile) -> str:
    """Return a digest of what it is to give."""
    return _digest(profile.model_dump(mode="json", include=_MODEL))


def baseline_of(document: Any) -> Baseline | None:
    """Read what `as_json` wrote, now or before noise was kept; None for anything else."""
    if not isinstance(document, Mapping):
        return None
    given = from_document(document.get("given"))
    if given is None:
        return None
    profile, model, place = (str(document.get(it, "")) for it in ("profile", "model", "place"))
    noise, used_at = document.get("noise"), document.get("used_at")
    return Baseline(
        profile,
        model,
        place,
        given,
        _noise_of(noise if isinstance(noise, Mapping) else {}),
        float(used_at) if isinstance(used_at, int | float) else 0.0,
    )


def too_many(known: Iterable[Baseline]) -> list[Baseline]:
    """Return those that are not worth keeping: the ones used longest ago."""
    of_profile: dict[str, int] = {}
    kept, found = 0, []
    for it in sorted(known, key=lambda it: (-it.used_at, it.name)):
        of_profile[it.profile] = of_profile.get(it.profile, 0) + 1
        if of_profile[it.profile] > MOST_OF_A_PROFILE or kept >= MOST:
            found.append(it)
        else:
            kept += 1
    return found


def _noise_of(document: Mapping[str, Any]) -> Noise:
    starts, nats = document.get("starts"), document.get("nats")
    if isinstance(starts, int) and isinstance(nats, int | float):
        return Noise(starts, float(nats))
    return Noise()


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
