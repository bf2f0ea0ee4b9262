"""How far the new version of a profile is from the old, or both from their reference."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ds4watch.engine.rolling_view import Trio
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.rolling_watch import Quality
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.model.worker import WorkerView
from ds4watch.quality.divergence import Divergence, divergence

log = logging.getLogger(__name__)


async def compared(
    trio: Trio, *, client_of: Callable[[str], WorkerClient], prompts: Sequence[str]
) -> Quality | None:
    """Return the deviations by prompt; None, with a log line, if they cannot be measured.

    One prompt at a time, so that users are not made to wait for it.
    """
    yardstick = trio.reference or trio.old
    if yardstick is None:
        return None
    news: list[float] = []
    olds: list[float] = []
    try:
        for prompt in prompts:
            said = await _logprobs(client_of, yardstick, prompt)
            news.append(_off(said, await _logprobs(client_of, trio.new, prompt)))
            if trio.reference is not None and trio.old is not None:
                olds.append(_off(said, await _logprobs(client_of, trio.old, prompt)))
    except WorkerError as error:
        log.warning("the quality of %s is not compared: %s", trio.new.id, error)
        return None
    return Quality(tuple(news), tuple(olds))


async def _logprobs(
    client_of: Callable[[str], WorkerClient], worker: WorkerView, prompt: str
) -> list[float]:
    return await client_of(worker.url).prompt_logprobs(worker.models[0], prompt)


def _off(reference: list[float], mine: list[float]) -> float:
    found = divergence([reference], [mine])
    if not isinstance(found, Divergence):
        message = f"log-probabilities cannot be compared: {found.value}"
        raise WorkerError(message, reason=EdgeReason.OTHER)
    return found.mean_abs_delta_logp
