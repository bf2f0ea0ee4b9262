"""Measures how far a quantized worker's log-probabilities lie from its reference's."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence

from ds4watch.config.profile import Profile
from ds4watch.config.shipped import shipped
from ds4watch.engine.signals import QualityReading
from ds4watch.fleet.client import WorkerClient
from ds4watch.model.errors import WorkerError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.quality.divergence import Divergence, divergence

log = logging.getLogger(__name__)

METRIC = "mean_abs_delta_logp"


def fixed_prompts() -> tuple[str, ...]:
    """Return the eight prompts that the quantization error is measured on."""
    text = shipped("serving/golden/divergence-8.jsonl").read_text(encoding="utf-8")
    return tuple(json.loads(line)["prompt"] for line in text.splitlines() if line.strip())


def pairs(
    fleet: FleetSnapshot, profiles: Mapping[str, Profile]
) -> tuple[tuple[WorkerView, WorkerView], ...]:
    """Return (quantized worker, reference worker) for each profile where both are ready."""
    first: dict[str, WorkerView] = {}
    for worker in fleet.workers:
        if worker.phase is WorkerPhase.READY:
            first.setdefault(worker.profile, worker)
    found = []
    for name, profile in sorted(profiles.items()):
        reference = profile.reference
        if reference is not None and name in first and reference in first:
            found.append((first[name], first[reference]))
    return tuple(found)


async def measure(
    quantized: WorkerView,
    reference: WorkerView,
    *,
    client_of: Callable[[str], WorkerClient],
    prompts: Sequence[str],
    now: Callable[[], UnixSeconds],
) -> QualityReading | None:
    """Measure one pair; None, with a log line, if it could not be measured.

    One prompt at a time, so that users are not made to wait for it.
    """
    mine: list[list[float]] = []
    theirs: list[list[float]] = []
    try:
        for prompt in prompts:
            for worker, rows in ((quantized, mine), (reference, theirs)):
                rows.append(await client_of(worker.url).prompt_logprobs(worker.models[0], prompt))
            await asyncio.sleep(0)
    except WorkerError as error:
        log.warning("the quantization error of %s is not known: %s", quantized.profile, error)
        return None
    result = divergence(theirs, mine)
    if not isinstance(result, Divergence):
        log.warning("the quantization error of %s is not known: %s", quantized.profile, result)
        return None
    return QualityReading(
        profile=quantized.profile,
        reference=reference.profile,
        metric=METRIC,
        value=result.mean_abs_delta_logp,
        at=now(),
    )
