"""Prompts near the limit are counted by a worker's own tokenizer."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Protocol

from ds4watch.gateway.asking import Asking
from ds4watch.model.errors import Ds4watchError
from ds4watch.model.worker import WorkerView
from ds4watch.routing.lengths import Length, Lengths, tokenize_body

log = logging.getLogger(__name__)

_KEPT = 4096
_MAX_ANSWER_BYTES = 1 << 20


class Tokenizer(Protocol):
    """Whoever counts tokens."""

    async def count(self, worker: WorkerView, asked: Mapping[str, Any]) -> int | None:
        """Return the tokens of a prompt; None if they were not told."""
        ...


class LengthTeller:
    """Says of each prompt whether it is long; one that cannot be counted is."""

    def __init__(
        self,
        lengths: Lengths,
        tokenizer: Tokenizer,
        worker_for: Callable[[str], WorkerView | None],
    ) -> None:
        """`worker_for` gives a worker that may be asked about a model."""
        self._lengths = lengths
        self._tokenizer = tokenizer
        self._worker_for = worker_for
        self._counts: OrderedDict[bytes, int] = OrderedDict()
        self._failing = False

    def tell(self, model: str, size: int, body: Mapping[str, Any]) -> Length:
        """Return what is known of a body's prompt without asking anybody."""
        return self._lengths.tell(model, size, body)

    def learn(self, model: str, size: int, prompt_tokens: int) -> None:
        """Take in what an answer says of its prompt."""
        self._lengths.learn(model, size, prompt_tokens)

    async def is_long(self, model: str, payload: bytes, body: Mapping[str, Any]) -> bool:
        """Return whether a doubtful prompt is long, by its count."""
        key = blake2b(payload, digest_size=16).digest()
        count = self._counts.get(key)
        if count is None:
            count = await self._asked(model, body)
            if count is None:
                return True
            self._counts[key] = count
            if len(self._counts) > _KEPT:
                self._counts.popitem(last=False)
        else:
            self._counts.move_to_end(key)
        return self._lengths.is_long(count)

    async def _asked(self, model: str, body: Mapping[str, Any]) -> int | None:
        asked, worker = tokenize_body(body), self._worker_for(model)
        if asked is None or worker is None:
            return None
        count = await self._tokenizer.count(worker, asked)
        if (count is None) is not self._failing:
            self._failing = not self._failing
            if self._failing:
                log.warning("%s counts no tokens: prompts near the limit are long", worker.id)
            else:
                log.info("%s counts tokens again", worker.id)
        return count


class TokenizeEndpoint:
    """vLLM's POST /tokenize."""

    def __init__(self, asking: Asking, seconds: float) -> None:
        """Wait so many seconds at most."""
        self._asking = asking
        self._seconds = seconds

    async def count(self, worker: WorkerView, asked: Mapping[str, Any]) -> int | None:
        """Return the tokens of a prompt; None if the worker does not tell."""
        try:
            async with asyncio.timeout(self._seconds):
                body = json.dumps(asked).encode()
                answer = await self._asking.posted(
                    worker, b"/tokenize", body, max_bytes=_MAX_ANSWER_BYTES
                )
                told = json.loads(answer or "null")
        except (Ds4watchError, TimeoutError, OSError, ValueError):
            return None
        count = told.get("count") if isinstance(told, dict) else None
        return count if isinstance(count, int) and not isinstance(count, bool) else None
