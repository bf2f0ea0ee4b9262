"""What a request took of the workers that had it, by how long its prompt is."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ds4watch.model.usage import RequestOutcome, RequestRecord, RetryReason, Usage

_K: Final = 1024
_EDGES: Final = tuple(_K << power for power in range(8))
BANDS: Final = (*(f"{edge // _K}k" for edge in _EDGES), "over", "unknown")
"""Of prompts, cached tokens included: each up to so many thousands (of 1,024), `128k` the last."""
UNKNOWN_BAND: Final = BANDS[-1]
_UNTOUCHED: Final = (RetryReason.CONNECT, RetryReason.BUSY, RetryReason.UNAUTHORIZED)
"""Whoever gave a request up for such a reason had not begun with it."""
_WHOLE: Final = (RequestOutcome.OK, RequestOutcome.CLIENT_ERROR)


@dataclass(frozen=True, slots=True)
class Work:
    """Sums of requests at a worker; whole numbers, so that money is shared out exactly.

    again_tokens: of the prompts' computed tokens, those that had been computed before.
    held_ms: time that requests were at the worker; prefill_ms and decode_ms are those parts of it
    that streams tell apart. wasted_ms: of held_ms, that of attempts which were given up, and of
    requests that ended without a whole answer. kv_token_ms: tokens in the KV cache times that.
    """

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    again_tokens: int = 0
    completion_tokens: int = 0
    held_ms: int = 0
    prefill_ms: int = 0
    decode_ms: int = 0
    wasted_ms: int = 0
    kv_token_ms: int = 0

    @property
    def usage(self) -> Usage:
        """Return its tokens."""
        return Usage(self.prompt_tokens, self.cached_tokens, self.completion_tokens)

    def plus(self, more: Work) -> Work:
        """Return both together."""
        return Work(
            self.requests + more.requests,
            self.prompt_tokens + more.prompt_tokens,
            self.cached_tokens + more.cached_tokens,
            self.again_tokens + more.again_tokens,
            self.completion_tokens + more.completion_tokens,
            self.held_ms + more.held_ms,
            self.prefill_ms + more.prefill_ms,
            self.decode_ms + more.decode_ms,
            self.wasted_ms + more.wasted_ms,
            self.kv_token_ms + more.kv_token_ms,
        )


class Place(NamedTuple):
    """Where work was done."""

    worker: str
    profile: str
    band: str


def band_of(usage: Usage | None) -> str:
    """Return the band of a prompt."""
    if usage is None or usage.prompt <= 0:
        return UNKNOWN_BAND
    return BANDS[bisect_left(_EDGES, usage.prompt)]


def works_of(record: RequestRecord) -> Iterator[tuple[Place, Work]]:
    """Yield what a request took of the worker that answered, and of those that gave it up.

    Of the latter the profile is not known. Of several, each had it for as long as the others.
    """
    stages, band = record.stages(), band_of(record.usage)
    if record.worker and record.tried_seconds is not None:
        yield Place(record.worker, record.profile, band), _answered(record)
    if record.retries:
        lost_ms = round(1000 * stages.lost_seconds / len(record.retries))
        for worker, reason in record.retries:
            if reason not in _UNTOUCHED and lost_ms > 0:
                yield Place(worker, "", band), Work(held_ms=lost_ms, wasted_ms=lost_ms)


def _answered(record: RequestRecord) -> Work:
    stages, usage = record.stages(), record.usage or Usage()
    prefill_ms = round(1000 * stages.prefill_seconds)
    decode_ms = round(1000 * stages.decode_seconds)
    tried = record.tried_seconds or 0.0
    held_ms = max(prefill_ms + decode_ms, round(1000 * max(0.0, record.duration_seconds - tried)))
    return Work(
        requests=1,
        prompt_tokens=usage.prompt,
        cached_tokens=min(usage.cached, usage.prompt),
        again_tokens=min(record.again_tokens, usage.computed),
        completion_tokens=usage.completion,
        held_ms=held_ms,
        prefill_ms=prefill_ms,
        decode_ms=decode_ms,
        wasted_ms=0 if record.outcome in _WHOLE else held_ms,
        # An answer grows from nothing to its length: half of it on the whole.
        kv_token_ms=held_ms * (usage.prompt + usage.completion // 2),
    )
