"""Requests that begin alike: the first computes the shared prefix, the others wait for it a moment.

A group is a model and the beginning of its prompts. Its first request, the leader, goes at once.
Those that come before the leader's first token (then its prefix is in the worker's cache) wait,
for the window of their class at most, and then go to the leader's worker, in the order in which
they came. A leader that leaves hands its part to the one that waits longest.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

_ANSWER_TOKENS = 256
_MAX_GROUPS = 1024


class RequestClass(StrEnum):
    """What a request is for: its window depends on it."""

    ANSWERING = "answering"
    """A question with a short answer: at most 256 tokens are asked for."""
    GENERATION = "generation"


@dataclass(frozen=True, slots=True)
class Windows:
    """How long a request may wait for one that begins alike; 0: that class does not wait."""

    answering_seconds: float = 0.0
    generation_seconds: float = 0.0

    def seconds_of(self, kind: RequestClass) -> float:
        """Return the window of a class."""
        if kind is RequestClass.ANSWERING:
            return self.answering_seconds
        return self.generation_seconds


@dataclass(frozen=True, slots=True)
class Released:
    """A request that may go now. worker: where its prefix is, None if nobody knows."""

    request: str
    worker: str | None
    leads: bool


@dataclass(slots=True)
class _Group:
    leader: str
    worker: str | None = None
    waiting: OrderedDict[str, float] = field(default_factory=OrderedDict)


class PrefixGroups:
    """Who leads and who waits. Time is passed in; windows of one group are taken as they come.

    Invariants: a request waits only while its group has a leader under way; nobody waits past
    its deadline if `due` is called by then; within a group nobody overtakes.
    """

    def __init__(self, *, max_groups: int = _MAX_GROUPS) -> None:
        self._groups: dict[str, _Group] = {}
        self._group_of: dict[str, str] = {}
        self._computed_at: OrderedDict[str, str] = OrderedDict()
        self._max_groups = max_groups

    def __len__(self) -> int:
        """Return how many groups there are."""
        return len(self._groups)

    def arrive(self, request: str, group: str, *, deadline: float) -> float | None:
        """Take a request in; return None if it goes at once (it leads), else until when it waits.

        A deadline before that of somebody who waits in the group is put off to it, so that the
        order is kept; so all of a group should have the same window.
        """
        found = self._groups.get(group)
        if found is None:
            if len(self._groups) < self._max_groups:  # beyond, requests just go
                self._groups[group] = _Group(leader=request)
                self._group_of[request] = group
            return None
        last = next(reversed(found.waiting.values()), deadline)
        found.waiting[request] = max(deadline, last)
        self._group_of[request] = group
        return found.waiting[request]

    def worker_of(self, group: str) -> str | None:
        """Return the worker that was the last to compute a group's prefix, as far as is known."""
        return self._computed_at.get(group)

    def sent(self, request: str, worker: str) -> None:
        """Note at which worker a request is tried; the leader's is where its followers go."""
        group = self._groups.get(self._group_of.get(request, ""))
        if group is not None and group.leader == request:
            group.worker = worker

    def first_token(self, request: str) -> Sequence[Released]:
        """Note that a request is past its prefill: if it leads, its followers go."""
        name = self._group_of.get(request)
        if name is None or self._groups[name].leader != request:
            return ()
        group = self._groups.pop(name)
        for member in (request, *group.waiting):
            del self._group_of[member]
        if group.worker is not None:
            self._remember(name, group.worker)
        return [Released(follower, group.worker, leads=False) for follower in group.waiting]

    def _remember(self, group: str, worker: str) -> None:
        self._computed_at[group] = worker
        self._computed_at.move_to_end(group)
        if len(self._computed_at) > self._max_groups:
            self._computed_at.popitem(last=False)

    def gone(self, request: str) -> Sequence[Released]:
        """Take out a request that ended, failed or was cancelled; the next of its group leads."""
        name = self._group_of.pop(request, None)
        if name is None:
            return ()
        group = self._groups[name]
        if group.leader != request:
            del group.waiting[request]
            return ()
        if not group.waiting:
            del self._groups[name]
            return ()
        group.leader, _ = group.waiting.popitem(last=False)
        return [Released(group.leader, group.worker, leads=True)]

    def due(self, request: str, now: float) -> Sequence[Released]:
        """Return who of a request's group has waited long enough; they follow the leader."""
        name = self._group_of.get(request)
        if name is None:
            return ()
        group = self._groups[name]
        released = [it for it, deadline in group.waiting.items() if deadline <= now]
        for follower in released:
            del group.waiting[follower]
            del self._group_of[follower]
        return [Released(it, group.worker, leads=False) for it in released]


def class_of(body: Mapping[str, Any]) -> RequestClass:
    """Return the class of a request: by the tokens it may generate."""
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    if isinstance(asked, int) and asked <= _ANSWER_TOKENS:
        return RequestClass.ANSWERING
    return RequestClass.GENERATION


def group_of(body: Mapping[str, Any], kind: RequestClass, *, prefix_chars: int) -> str | None:
    """Return the group of a request, None if its prompt has no `prefix_chars` in text.

    Two requests are of a group if model, class and the first `prefix_chars` are the same. In a
    chat the roles count, and a message that is not plain text ends what is looked at.
    """
    prefix = _prefix(body, prefix_chars)
    if len(prefix) < prefix_chars:
        return None
    digest = hashlib.blake2b(prefix.encode(errors="replace"), digest_size=16)
    digest.update(f"\0{body.get('model')}\0{kind}".encode(errors="replace"))
    return digest.hexdigest()


def _prefix(body: Mapping[str, Any], chars: int) -> str:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return prompt[:chars]
    parts: list[str] = []
    size = 0
    for message in body.get("messages") or ():
        content = message.get("content")
        if not isinstance(content, str):
            break
        parts.append(f"{message.get('role')}\0{content[:chars]}\0")
        size += len(parts[-1])
        if size >= chars:
            break
    return "".join(parts)[:chars]
