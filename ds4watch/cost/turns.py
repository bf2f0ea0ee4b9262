"""Which tokens of a prompt were computed again: a cache had them once, or could have.

Of each conversation the longest prompt that was served is remembered. A later request of it that
is at least as long begins, as chats do, with that prompt; what of that much the cache did not have
was computed before. A miss of less than a block is none: caches keep whole blocks only. What the
gateway has no conversation of, what was served before a start of the daemon, and what an engine
computes anew after a preemption are not told apart, and count as computed for the first time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from ds4watch.model.usage import RequestOutcome, RequestRecord

METHOD: Final = "conversations"
BLOCK_TOKENS: Final = 16
MOST_CONVERSATIONS: Final = 50_000
"""Some 10 MB; those that were silent for longest are forgotten."""

_Key = tuple[str, str, int]


class Turns:
    """What is remembered of conversations. `marked` changes nothing, `note` does.

    So that records which could not be booked can be looked at once more.
    """

    def __init__(self, most: int = MOST_CONVERSATIONS) -> None:
        self._most = most
        self._served: dict[_Key, int] = {}

    def marked(self, records: Iterable[RequestRecord]) -> Iterator[RequestRecord]:
        """Yield the records, in their order, with `again_tokens`."""
        newer: dict[_Key, int] = {}
        for record in records:
            key = _key_of(record)
            if key is None or record.usage is None:
                yield record
                continue
            before = newer.get(key, self._served.get(key, 0))
            again = min(before, record.usage.prompt) - record.usage.cached
            is_missed = record.usage.prompt >= before > 0 and again >= BLOCK_TOKENS
            yield replace(record, again_tokens=again) if is_missed else record
            newer[key] = _longest(before, record)

    def note(self, records: Iterable[RequestRecord]) -> None:
        """Remember what was booked."""
        for record in records:
            key = _key_of(record)
            if key is not None:
                self._served[key] = _longest(self._served.pop(key, 0), record)
        while len(self._served) > self._most:
            del self._served[next(iter(self._served))]


def _key_of(record: RequestRecord) -> _Key | None:
    """Return whose conversation, with which model; two models have nothing in common."""
    if record.conversation is None or record.usage is None:
        return None
    return record.key, record.model_served, record.conversation


def _longest(before: int, record: RequestRecord) -> int:
    is_served = record.outcome is RequestOutcome.OK and record.usage is not None
    return max(before, record.usage.prompt) if is_served and record.usage else before
