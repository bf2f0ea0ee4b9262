"""Conversations of the Mooncake trace played to workers with simulated prefix caches.

Trace: https://github.com/kvcache-ai/Mooncake (FAST25-release, conversation_trace.jsonl).
Each id stands for 512 tokens and all before them, as blocks of a prefix cache do.
"""

from __future__ import annotations

import heapq
import json
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from ds4watch.config.routing import RoutingSettings
from ds4watch.routing.choice import Ask, RouteDecision, choose
from tests.unit.routing.routes import routes, view_of, worker

BLOCK_TOKENS = 512
_PREFILL_TOKENS_PER_SECOND = 8000.0
_SECONDS_PER_TOKEN = 0.02


@dataclass(frozen=True)
class Turn:
    """One request of the trace."""

    at: float
    tokens: int
    answer_tokens: int
    blocks: tuple[int, ...]

    @property
    def session(self) -> int:
        """As the gateway does: of the system prompt and the beginning of the first message."""
        return crc32(repr(self.blocks[:2]).encode())


def read_trace(path: Path) -> Iterator[Turn]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row: dict[str, Any] = json.loads(line)
            yield Turn(
                row["timestamp"] / 1000,
                row["input_length"],
                row["output_length"],
                tuple(row["hash_ids"]),
            )


class PrefixCache:
    """The blocks last used, as many as there is room for."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def take(self, blocks: Sequence[int]) -> int:
        """Return how many blocks from the beginning were there, and keep them all."""
        hits = next(
            (at for at, block in enumerate(blocks) if block not in self._blocks), len(blocks)
        )
        for block in reversed(blocks):  # the end of a prefix goes before its beginning
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while self._most is not None and len(self._blocks) > self._most:
            self._blocks.popitem(last=False)
        return hits


@dataclass(frozen=True)
class Played:
    """What came of it: share of blocks found, and the busiest worker beside the mean."""

    hit_ratio: float
    busiest_ratio: float


Pick = Callable[[Turn, dict[str, int]], str]


def played(trace: Sequence[Turn], names: Sequence[str], blocks: int | None, pick: Pick) -> Played:
    """Play the trace to workers; `pick` sees how many requests each has open."""
    caches = {name: PrefixCache(blocks) for name in names}
    inflight = dict.fromkeys(names, 0)
    taken = dict.fromkeys(names, 0)
    ends: list[tuple[float, str]] = []
    asked = found = 0
    for turn in trace:
        while ends and ends[0][0] <= turn.at:
            inflight[heapq.heappop(ends)[1]] -= 1
        name = pick(turn, inflight)
        hits = caches[name].take(turn.blocks)
        asked += len(turn.blocks)
        found += hits
        taken[name] += 1
        inflight[name] += 1
        left = max(0, turn.tokens - hits * BLOCK_TOKENS)
        took = left / _PREFILL_TOKENS_PER_SECOND + turn.answer_tokens * _SECONDS_PER_TOKEN
        heapq.heappush(ends, (turn.at + took, name))
    return Played(found / asked, max(taken.values()) * len(names) / len(trace))


def ours(names: Sequence[str], settings: RoutingSettings, *, seed: int = 1) -> Pick:
    """The gateway's choice."""
    among = routes(*(worker(name) for name in names), settings=settings)
    draw = random.Random(seed).random
    limit = settings.long_tokens

    def pick(turn: Turn, inflight: dict[str, int]) -> str:
        is_long = limit is not None and turn.tokens > limit
        view = view_of(inflight, load_ratio=settings.session_load_ratio)
        found = choose(among, Ask("m", turn.session, is_long), view, draw)
        assert isinstance(found, RouteDecision)
        return found.worker.id

    return pick


def round_robin(names: Sequence[str]) -> Pick:
    turn = iter(range(1 << 60))
    return lambda _turn, _inflight: names[next(turn) % len(names)]


def least_load(names: Sequence[str], *, seed: int = 1) -> Pick:
    draw = random.Random(seed)
    return lambda _turn, inflight: min(names, key=lambda name: (inflight[name], draw.random()))
