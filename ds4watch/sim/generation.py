"""One sequence on its way through the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ds4watch.sim.kv_cache import chain


class Finish(StrEnum):
    """Why a request ended."""

    STOP = "stop"
    LENGTH = "length"
    ABORT = "abort"


@dataclass(slots=True, eq=False)
class Generation:
    """One sequence. `answer` is known beforehand; the engine only decides when its tokens come.

    `computed` counts tokens whose KV is in `blocks`; `cached` is the reused part of the prompt.
    """

    prompt: bytes
    answer: bytes
    finish: Finish
    arrived_at: float
    max_tokens: int
    params_n: int = 1
    is_first_of_request: bool = True
    reads_cache: bool = True
    generated: int = 0
    computed: int = 0
    cached: int = 0
    preemptions: int = 0
    scheduled_at: float | None = None
    first_token_at: float | None = None
    last_token_at: float = 0.0
    blocks: list[int] = field(default_factory=list)
    hashes: list[bytes] = field(default_factory=list)

    @property
    def known(self) -> int:
        """Tokens so far, prompt and answer."""
        return len(self.prompt) + self.generated

    def block_hashes(self, block_size: int, full_blocks: int) -> Sequence[bytes]:
        """Return the hash chain of the first `full_blocks` blocks."""
        while len(self.hashes) < full_blocks:
            start = len(self.hashes) * block_size
            parent = self.hashes[-1] if self.hashes else b""
            self.hashes.append(chain(parent, self._tokens(start, start + block_size)))
        return self.hashes[:full_blocks]

    def _tokens(self, start: int, end: int) -> bytes:
        size = len(self.prompt)
        answer = self.answer[max(0, start - size) : max(0, end - size)]
        return self.prompt[start:end] + answer
