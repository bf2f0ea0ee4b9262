"""Requests out of the ordinary, each judged by itself, so that the others need not suffer. Pure.

Memory is bounded: counts are of the running minute, and of at most so many names.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_MINUTE_SECONDS = 60.0
_MOST_NAMES = 8192
_LOWEST_PRIORITY = 0
_LONGEST_WAIT_SECONDS = 30.0
_TOKENS_IF_NOT_TOLD = 1024
_MULTIPLIERS = frozenset({"n", "best_of", "prompt", "logprobs", "top_logprobs"})


class Oddity(StrEnum):
    """What is odd about a request."""

    OVERLONG = "overlong"
    REPEATING = "repeating"
    RETRYING = "retrying"
    COSTLY = "costly"


@dataclass(frozen=True, slots=True)
class Bounds:
    """From where on a request is out of the ordinary; None is never."""

    overlong_tokens: int | None = None
    """Estimated tokens of a prompt."""
    repeats_per_minute: int | None = None
    """The same body from the same client."""
    early_retries_per_minute: int | None = None
    """Requests of a client that was told to wait and did not."""
    costly_tokens: int | None = None
    """Answers times their tokens times (1 + log-probabilities of each)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one request gets: a lower priority, a cap of its own, or a wait."""

    oddities: tuple[Oddity, ...] = ()
    priority: int | None = None
    max_tokens: int | None = None
    wait_seconds: float = 0.0
    """Over 0: it is refused, and told to wait so long."""


NORMAL = Verdict()


class MinuteCounts:
    """Counts by name in the running minute; of too many names the oldest is forgotten."""

    __slots__ = ("_counts", "_minute", "_most")

    def __init__(self, most: int = _MOST_NAMES) -> None:
        """Remember at most `most` names."""
        self._most = most
        self._minute = -1
        # A plain dict that is emptied from its front is gone through from its front each time.
        self._counts: OrderedDict[Hashable, int] = OrderedDict()

    def add(self, name: Hashable, now: float) -> int:
        """Count one; return how many there were in this minute."""
        minute = int(now // _MINUTE_SECONDS)
        if minute != self._minute:
            self._minute = minute
            self._counts = OrderedDict()
        count = self._counts.get(name, 0) + 1
        if count == 1 and len(self._counts) >= self._most:
            self._counts.popitem(last=False)
        self._counts[name] = count
        return count


class Watch:
    """Looks at each request of this process."""

    __slots__ = ("_early", "_most", "_repeats", "_told_to_wait", "bounds")

    def __init__(self, bounds: Bounds, *, most_names: int = _MOST_NAMES) -> None:
        """Judge by `bounds`; remember at most `most_names` clients and bodies."""
        self.bounds = bounds
        self._most = most_names
        self._repeats = MinuteCounts(most_names)
        self._early = MinuteCounts(most_names)
        self._told_to_wait: dict[str, float] = {}

    def judge(
        self, client: str, raw: bytes, body: Mapping[str, Any], *, prompt_tokens: int, now: float
    ) -> Verdict:
        """Return what the request gets; `NORMAL` itself if nothing is odd about it."""
        bounds = self.bounds
        found: list[Oddity] = []
        if self._told_to_wait:
            wait = self._wait_of(client, now)
            if wait > 0:
                return Verdict((Oddity.RETRYING,), wait_seconds=wait)
        if bounds.overlong_tokens is not None and prompt_tokens > bounds.overlong_tokens:
            found.append(Oddity.OVERLONG)
        most = bounds.repeats_per_minute
        if most is not None and self._repeats.add((client, hash(raw)), now) > most:
            found.append(Oddity.REPEATING)
        cap = None if bounds.costly_tokens is None else own_cap(body, bounds.costly_tokens)
        if cap is not None:
            found.append(Oddity.COSTLY)
        if not found:
            return NORMAL
        is_lowered = found != [Oddity.COSTLY]
        return Verdict(tuple(found), _LOWEST_PRIORITY if is_lowered else None, cap)

    def told_to_wait(self, client: str, until: float) -> None:
        """Note that a client was refused and told when to come back."""
        if self.bounds.early_retries_per_minute is None:
            return
        if len(self._told_to_wait) >= self._most and client not in self._told_to_wait:
            del self._told_to_wait[next(iter(self._told_to_wait))]
        self._told_to_wait[client] = until

    def _wait_of(self, client: str, now: float) -> float:
        """Return how long a client that came back too early, too often, has to wait."""
        until = self._told_to_wait.get(client)
        most = self.bounds.early_retries_per_minute
        if until is None or most is None:
            return 0.0
        if now >= until:
            del self._told_to_wait[client]
            return 0.0
        early = self._early.add(client, now)
        if early <= most:
            return 0.0
        # The more it hammers, the longer; so that a storm dies down.
        until = max(until, now + min(_LONGEST_WAIT_SECONDS, early / most))
        self._told_to_wait[client] = until
        return until - now


def own_cap(body: Mapping[str, Any], costly_tokens: int) -> int | None:
    """Return the tokens that each answer may have if the request is not to be too costly.

    None if it is not as it stands.
    """
    if _MULTIPLIERS.isdisjoint(body):  # nearly all: one answer, and no log-probabilities
        asked = body.get("max_completion_tokens") or body.get("max_tokens")
        return costly_tokens if asked is not None and count_of(asked, 0) > costly_tokens else None
    answers = count_of(body.get("n"), 1) * _prompts(body)
    answers = max(answers, count_of(body.get("best_of"), 1) * _prompts(body))
    each = answers * (1 + _logprobs(body))
    asked = max(count_of(body.get("max_tokens"), 0), count_of(body.get("max_completion_tokens"), 0))
    if not asked and each == 1:
        return None  # the worker's context bounds it
    asked = asked or _TOKENS_IF_NOT_TOLD
    return max(1, costly_tokens // each) if each * asked > costly_tokens else None


def _prompts(body: Mapping[str, Any]) -> int:
    prompt = body.get("prompt")
    is_batch = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
    return len(prompt) if is_batch and isinstance(prompt, list) else 1


def _logprobs(body: Mapping[str, Any]) -> int:
    if "logprobs" not in body and "top_logprobs" not in body:
        return 0
    given = body.get("logprobs")
    return max(count_of(body.get("top_logprobs"), 0), count_of(given, 0), 1 if given is True else 0)


def count_of(value: Any, default: int) -> int:
    """Return a count that a body gives, read without trust; the default for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return default
    return int(min(value, 1e9))
