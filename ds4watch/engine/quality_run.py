"""Measures how far a quantized worker's log-probabilities lie from its reference's."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence

from ds4watch.config.profile import Profile
from ds4watch.config.shipped import shipped
from ds4watch.fleet.client import WorkerClient
from ds4watch.model.errors import WorkerError
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.quality.distributions import Distance, Metric, Position, distance

log = logging.getLogger(__name__)

METRIC = Metric.MEAN_ABS_DELTA_LOGP.value
LIKELIEST = 20
"""Tokens asked for in each place: what vLLM gives at most by default."""
_SEED = 0
"""The same numbers give the same interval."""


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
) -> Distance | None:
    """Measure one pair; None, with a log line, if it could not be measured.

    One prompt at a time, so that users are not made to wait for it.
    """
    mine: list[list[Position]] = []
    theirs: list[list[Position]] = []
    try:
        for prompt in prompts:
            for worker, rows in ((quantized, mine), (reference, theirs)):
                client, model = client_of(worker.url), worker.models[0]
                rows.append(await client.prompt_positions(model, prompt, LIKELIEST))
            await asyncio.sleep(0)
    except WorkerError as error:
        log.warning("the quantization error of %s is not known: %s", quantized.profile, error)
        return None
    result = distance(theirs, mine, seed=_SEED)
    if not isinstance(result, Distance):
        log.warning("the quantization error of %s is not known: %s", quantized.profile, result)
        return None
    return result
