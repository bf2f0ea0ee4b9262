"""Server-sent events of a streamed answer: split, metered, and rid of what nobody asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ds4watch.model.usage import Usage
from ds4watch.shaping.usage import sum_of_choices, usage_told

_BOUNDARY = re.compile(rb"\r?\n\r?\n")
_LONGEST_BOUNDARY = 4
_DATA_LINE = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)
_CHOICE_INDEX = re.compile(rb'"index":\s*(\d{1,9})')
_USAGE = b'"usage"'
_LAST_USAGE = re.compile(rb":\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\})\s*\}$")
"""`usage` as the last field of the event. Inside a JSON text its quotes would be escaped."""
_PLAIN_FORM = re.compile(rb"[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)?\}\}\n\n")
_MAX_TAIL_BYTES = 512
_FIELD = b',"usage":{'
_LAST_FIELD = b'"choices":[],"usage":{'
_DATA = b"data: {"
_DONE = b"data: [DONE]\n\n"
_DIGITS = b"0123456789"
_FIRST_CHOICE = b'"choices":[{"index":0,'
_CHOICES = b'"choices"'
_EMPTY = re.compile(rb":\s*\[\s*\]")
_NEVER = b"\n"
"""Begins no event that has its usage at its end."""


class OversizedEventError(ValueError):
    """An event is larger than we are willing to hold."""


class SseRelay:
    """Turns the worker's bytes into the client's, whole events at a time.

    However the bytes are cut into chunks, the output put together and what was noted are the
    same. Events without usage pass byte for byte.
    """

    __slots__ = (
        "_begin",
        "_by_choice",
        "_final",
        "_form",
        "_keep_each",
        "_keep_last",
        "_max_event_bytes",
        "_rest",
        "deltas",
        "done",
        "error",
    )

    def __init__(
        self, *, keep_last: bool, keep_each: bool, max_event_bytes: int = 16 << 20
    ) -> None:
        """Keep the usage-only chunk (`keep_last`) and usage in each chunk (`keep_each`)."""
        self._keep_last = keep_last
        self._keep_each = keep_each
        self._max_event_bytes = max_event_bytes
        self._rest = b""
        self._begin = _NEVER
        """What plain events of this answer begin with, up to their choice."""
        self._form = b""
        """What is behind `_FIELD` in them, less its digits."""
        self._by_choice: dict[int, bytes] = {}
        self._final: bytes | None = None
        self.deltas = 0
        """Pieces of the answer that came without usage: about a token each."""
        self.done = False
        """`[DONE]` was seen: the answer is whole."""
        self.error: dict[str, Any] | None = None
        """The error that the worker reported after its 200, if any."""

    def feed(self, chunk: bytes) -> bytes:
        """Return what goes to the client now. Raises OversizedEventError."""
        return self.feed_all((chunk,))

    def feed_all(self, chunks: Sequence[bytes]) -> bytes:
        """Do what `feed` does, with chunks that came at once; fastest if each is one event."""
        known = len(self._rest)
        if known:
            return self._cut(b"".join((self._rest, *chunks)), known)
        return self._take(chunks)

    def _take(self, chunks: Sequence[bytes]) -> bytes:
        """Return what is left of chunks of which most are one event each."""
        out: list[bytes] = []
        at, count, is_plain = 0, len(chunks), True
        while at < count:
            chunk = chunks[at]
            if is_plain and chunk.startswith(self._begin):
                taken = self._take_plain(chunks, at, out)
                at += taken
                is_plain = taken > 0
            elif chunk == _DONE:
                self.done = True
                out.append(chunk)
                at += 1
            elif self._is_last(chunk):
                if self._keep_last:
                    out.append(chunk)
                at += 1
            elif not (is_plain and self._learn(chunk)):
                at += self._take_any(chunks, at, out)
        return out[0] if len(out) == 1 else b"".join(out)

    def _take_any(self, chunks: Sequence[bytes], at: int, out: list[bytes]) -> int:
        """Put into `out` what is left of one event, or of all if it is not one; return how many."""
        chunk = chunks[at]
        if chunk.find(b"\n\n") == len(chunk) - 2 >= 0 and b"\r" not in chunk:
            out.append(self._event(chunk[:-2], b"\n\n"))
            return 1
        out.append(self._cut(b"".join(chunks[at:]), 0))
        return len(chunks) - at

    def _cut(self, data: bytes, known: int) -> bytes:
        """Return what is left of the events in `data`; it begins with `known` bytes of one."""
        # Not anew in each piece of an event that comes in many.
        search = max(0, known - _LONGEST_BOUNDARY)
        if b"\r" in data:
            out, start = [], 0
            while (boundary := _BOUNDARY.search(data, search)) is not None:
                out.append(self._event(data[start : boundary.start()], boundary.group()))
                start = search = boundary.end()
            left, rest = b"".join(out), data[start:]
        else:  # what workers send; the same, only faster
            first = data.find(b"\n\n", search) + 2
            events, rest = [], data
            if first >= 2:
                *more, rest = data[first:].split(b"\n\n")
                events = [data[:first], *[event + b"\n\n" for event in more]]
            left = self._take(events) if events else b""
        self._rest = rest
        if len(rest) > self._max_event_bytes:
            message = f"an event of over {self._max_event_bytes} bytes"
            raise OversizedEventError(message)
        return left

    def finish(self) -> bytes:
        """Return what is left once the worker has ended well; some leave out the last newline."""
        rest, self._rest = self._rest.rstrip(b"\r\n"), b""
        return self._event(rest, b"\n\n") if rest else b""

    @property
    def usage(self) -> Usage | None:
        """The usage told last: the whole answer's, or what had been generated so far."""
        if self._final is not None:
            return usage_told(self._final)
        parts = [usage_told(raw) for raw in self._by_choice.values()]
        return sum_of_choices([part for part in parts if part is not None])

    @property
    def has_final_usage(self) -> bool:
        """Whether the worker told the usage of the whole answer."""
        return self._final is not None

    def _take_plain(self, chunks: Sequence[bytes], at: int, out: list[bytes]) -> int:
        """Put into `out` what is left of the plain events from `at` on; return how many.

        Plain: begun as the last one, up to the first choice, and ended by a usage that only
        differs in its digits. Of those nothing is left to find out one by one; the result is the
        same. None are if one of them only looked so.
        """
        begin = self._begin
        texts: list[bytes] = []
        tails: list[bytes] = []
        for chunk in chunks[at:] if at else chunks:
            text, _, tail = chunk.rpartition(_FIELD)
            if not text.startswith(begin):
                break
            texts.append(text)
            tails.append(tail)
        count = len(tails)
        is_plain = b"".join(tails).translate(None, _DIGITS) == self._form * count
        if not count or not is_plain or b"\n" in b"".join(texts):
            self._begin = _NEVER
            return 0
        self._by_choice[0] = b"{" + tails[-1][:-3]
        if self._keep_each:
            out.extend(chunks[at : at + count])
        else:
            texts.append(b"")
            out.append(b"}\n\n".join(texts))
        return count

    def _learn(self, event: bytes) -> bool:
        """Note what plain events are like, if this may be one."""
        text, _, tail = event.rpartition(_FIELD)
        choice = text.find(_FIRST_CHOICE)
        if choice < 0 or not text.startswith(_DATA) or not _is_plain(tail):
            return False
        self._begin, self._form = text[: choice + len(_FIRST_CHOICE)], tail.translate(None, _DIGITS)
        return True

    def _is_last(self, event: bytes) -> bool:
        """Return whether this is the usage of the whole answer, as it mostly looks; note it."""
        text, _, tail = event.rpartition(_LAST_FIELD)
        if not text.startswith(_DATA) or not _is_plain(tail) or _CHOICES in text or b"\n" in text:
            return False
        self._final = b"{" + tail[:-3]
        return True

    def _event(self, event: bytes, boundary: bytes) -> bytes:
        if _USAGE in event:
            return self._with_usage(event, boundary)
        if event == b"data: [DONE]" or (b"[DONE]" in event and payload_of(event) == b"[DONE]"):
            self.done = True
            return event + boundary
        if b'"error"' in event:
            self.note_error(event)
        self.deltas += b'"choices"' in event
        return event + boundary

    def _with_usage(self, event: bytes, boundary: bytes) -> bytes:
        at = event.rfind(_USAGE)
        cut = _comma_before(event, at)
        match = _LAST_USAGE.match(event, at + len(_USAGE)) if event.startswith(b"data:") else None
        # Behind that of an inner field more braces would be left.
        if match is None or cut < 0 or b"\n" in event:
            return self._with_usage_anywhere(event, boundary)
        last = False
        if b'"choices":[{' not in event:
            choices = event.find(_CHOICES)
            last = choices >= 0 and _EMPTY.match(event, choices + len(_CHOICES)) is not None
        self._note(event, match.group(1), last=last)
        if last:
            return event + boundary if self._keep_last else b""
        return event + boundary if self._keep_each else event[:cut] + b"}" + boundary

    def _with_usage_anywhere(self, event: bytes, boundary: bytes) -> bytes:
        payload = payload_of(event)
        answer = json_or_none(payload)
        if not isinstance(answer, dict) or answer.get("usage") is None:
            self.note_error(event)
            return event + boundary
        usage = answer.pop("usage")
        last = answer.get("choices") == []
        self._note(payload, json.dumps(usage).encode(), last=last)
        if last:
            return event + boundary if self._keep_last else b""
        if self._keep_each:
            return event + boundary
        return b"data: " + json.dumps(answer, separators=(",", ":")).encode() + boundary

    def _note(self, event: bytes, usage: bytes, *, last: bool) -> None:
        if last:
            self._final = usage
            return
        choice = 0
        if b'[{"index":0,' not in event:
            index = _CHOICE_INDEX.search(event)
            choice = int(index.group(1)) if index else 0
        if choice in self._by_choice or len(self._by_choice) < 1024:
            self._by_choice[choice] = usage

    def note_error(self, event: bytes) -> None:
        """Take in what an event may say of a failure."""
        answer = json_or_none(payload_of(event))
        error = answer.get("error") if isinstance(answer, dict) else None
        if error:
            self.error = error if isinstance(error, dict) else {"message": str(error)}


def _is_plain(tail: bytes) -> bool:
    """Return whether this, behind `_FIELD`, is a usage that ends an event without spaces."""
    return len(tail) <= _MAX_TAIL_BYTES and _is_plain_form(tail.translate(None, _DIGITS))


@lru_cache(maxsize=256)
def _is_plain_form(form: bytes) -> bool:
    return _PLAIN_FORM.fullmatch(form) is not None and _USAGE not in form


def _comma_before(event: bytes, at: int) -> int:
    """Return the place of the comma before a field, -1 if it is the first."""
    if event[at - 1 : at] == b",":
        return at - 1
    before = event[:at].rstrip()
    return len(before) - 1 if before.endswith(b",") else -1


def payload_of(event: bytes) -> bytes:
    """Return the data of an event; several data lines are one text with newlines between."""
    return b"\n".join(_DATA_LINE.findall(event)).strip()


def json_or_none(text: bytes) -> Any:
    """Return what a JSON text says, None if it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
