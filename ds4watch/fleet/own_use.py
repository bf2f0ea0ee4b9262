"""Tokens of requests of our own: they pass no gateway, and are no client's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ds4watch.model.usage import Usage
from ds4watch.shaping.usage import usage_of


class OwnWork(StrEnum):
    """What a request of ours was for."""

    CANARY = "canary"
    WARM_UP = "warm_up"
    QUALITY = "quality"


@dataclass(slots=True)
class OwnSum:
    """Requests of one kind to one worker."""

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def add(self, requests: int, usage: Usage) -> None:
        """Add requests that used so much in all."""
        self.requests += requests
        self.prompt_tokens += usage.prompt
        self.cached_tokens += usage.cached
        self.completion_tokens += usage.completion


class OwnUse:
    """What was answered since it was last taken, by the worker's address."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, OwnWork], OwnSum] = {}

    def note(self, url: str, work: OwnWork, answer: Any) -> None:
        """Note a worker's answer; one that tells no usage counts as a request without tokens."""
        usage = usage_of(answer.get("usage")) if isinstance(answer, Mapping) else None
        self._sums.setdefault((url, work), OwnSum()).add(1, usage or Usage())

    def take(self) -> dict[tuple[str, OwnWork], OwnSum]:
        """Return the sums and begin anew."""
        taken, self._sums = self._sums, {}
        return taken

    def put_back(self, taken: Mapping[tuple[str, OwnWork], OwnSum]) -> None:
        """Take sums back that could not be stored."""
        for place, it in taken.items():
            usage = Usage(it.prompt_tokens, it.cached_tokens, it.completion_tokens)
            self._sums.setdefault(place, OwnSum()).add(it.requests, usage)
