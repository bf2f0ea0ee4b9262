"""Server-sent events of a streamed answer: split, metered, and rid of what nobody asked for."""

from __future__ import annotations

import json
import re
from typing import Any

from ds4watch.model.usage import Usage
from ds4watch.shaping.usage import sum_of_choices, usage_told

_BOUNDARY = re.compile(rb"\r?\n\r?\n")
_LONGEST_BOUNDARY = 4
_SHORT_BYTES = 1 << 14
_DATA_LINE = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)
_CHOICE_INDEX = re.compile(rb'"index":\s*(\d{1,9})')
_USAGE = b'"usage"'
_LAST_USAGE = re.compile(rb":\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\})\s*\}$")
"""`usage` as the last field of the event. Inside a JSON text its quotes would be escaped."""
_RUN_USAGE = re.compile(rb',"usage":(\{[^{}\n]*(?:\{[^{}\n]*\}[^{}\n]*)?\})\}\n\n')
"""The same at the end of an event in a run of them, written without spaces."""
_RUN_FIELD = b',"usage":{'
_LEFT_OUT_BYTES = len(b',"usage":}\n\n')
"""Of what `_RUN_USAGE` matches: all but its group."""
_FIRST_CHOICE = b'"choices":[{"index":0,'
_CHOICES = b'"choices"'
_LAST_EVENT = re.compile(rb"response\.(?:completed|incomplete|failed)")
_EMPTY = re.compile(rb":\s*\[\s*\]")


class OversizedEventError(ValueError):
    """An event is larger than we are willing to hold."""


class SseRelay:
    """Turns the worker's bytes into the client's, whole events at a time.

    However the bytes are cut into chunks, the output put together and what was noted are the
    same. Events without usage pass byte for byte.
    """

    __slots__ = (
        "_by_choice",
        "_final",
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
        known = len(self._rest)
        data = self._rest + chunk if known else chunk
        if not known and (one := self._one_delta(data)):
            return one
        # Not anew in each piece of an event that comes in many.
        run, start = self._run_of_deltas(data) if known < _SHORT_BYTES else (b"", 0)
        if start == len(data):
            self._rest = b""
            return run  # all of it was plain
        out = [run] if run else []
        search = start or max(0, known - _LONGEST_BOUNDARY)
        if b"\r" in data:
            while (boundary := _BOUNDARY.search(data, search)) is not None:
                out.append(self._event(data[start : boundary.start()], boundary.group()))
                start = search = boundary.end()
        else:  # what workers send; the same, only faster
            while (end := data.find(b"\n\n", search)) >= 0:
                out.append(self._event(data[start:end], b"\n\n"))
                start = search = end + 2
        self._rest = data[start:] if start else data
        if len(self._rest) > self._max_event_bytes:
            message = f"an event of over {self._max_event_bytes} bytes"
            raise OversizedEventError(message)
        return out[0] if len(out) == 1 else b"".join(out)

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

    def _one_delta(self, data: bytes) -> bytes:
        """Return what is left of `data` if it is one plain event, as in a run of them."""
        at = data.find(_USAGE)
        if at < 0 or data.find(b"\n") != len(data) - 2 or not data.startswith(b"data: {"):
            return b""
        found = _RUN_USAGE.fullmatch(data, at - 1)
        if (
            found is None
            or data.find(_USAGE, at + 7) >= 0
            or data.find(_FIRST_CHOICE, 0, at) < 0
            or b"\r" in data
        ):
            return b""
        self._by_choice[0] = found[1]
        return data if self._keep_each else data[: at - 1] + b"}\n\n"

    def _run_of_deltas(self, data: bytes) -> tuple[bytes, int]:
        """Return what is left of the plain events that `data` begins with, and where they end.

        Plain: written without spaces, of the first choice alone, and the usage its last field.
        Of those nothing is left to find out one by one; the result is the same.
        """
        pieces = _RUN_USAGE.split(data) if _RUN_FIELD in data else []
        texts = pieces[:-1:2]
        count = _count_of_plain(texts)
        last = 2 * count - 1
        end = sum(map(len, pieces[: last + 1])) + count * _LEFT_OUT_BYTES
        # Only where each has the one mention, hence not also inside some other field.
        if (
            not count
            or data.count(b"\n", 0, end) != 2 * count
            or data.count(_USAGE, 0, end) != count
            or b"\r" in data
        ):
            return b"", 0
        self._by_choice[0] = pieces[last]
        if self._keep_each:
            return data[:end], end
        return b"}\n\n".join([*texts[:count], b""]), end

    def _event(self, event: bytes, boundary: bytes) -> bytes:
        if _USAGE in event:
            return self._with_usage(event, boundary)
        if event == b"data: [DONE]" or (b"[DONE]" in event and _payload(event) == b"[DONE]"):
            self.done = True
            return event + boundary
        if b'"error"' in event:
            self._note_error(event)
        self.deltas += b'"choices"' in event
        return event + boundary

    def _with_usage(self, event: bytes, boundary: bytes) -> bytes:
        at = event.find(_USAGE)
        cut = _comma_before(event, at)
        match = _LAST_USAGE.match(event, at + len(_USAGE)) if event.startswith(b"data:") else None
        # Only where it is the one mention, hence not also inside some other field.
        if match is None or cut < 0 or event.find(_USAGE, at + 1) >= 0 or b"\n" in event:
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
        payload = _payload(event)
        answer = _loads(payload)
        if not isinstance(answer, dict) or answer.get("usage") is None:
            self._note_error(event)
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

    def _note_error(self, event: bytes) -> None:
        answer = _loads(_payload(event))
        error = answer.get("error") if isinstance(answer, dict) else None
        if error:
            self.error = error if isinstance(error, dict) else {"message": str(error)}


class ResponsesRelay(SseRelay):
    """The same for the events of the responses API, which pass byte for byte.

    It tells the usage in its last event, which says whether the answer is whole.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(keep_last=True, keep_each=True)

    def _one_delta(self, data: bytes) -> bytes:
        del data
        return b""

    def _run_of_deltas(self, data: bytes) -> tuple[bytes, int]:
        del data
        return b"", 0

    def _event(self, event: bytes, boundary: bytes) -> bytes:
        if _LAST_EVENT.search(event) is not None:
            self._note_last(_loads(_payload(event)))
        elif b'"error"' in event:
            self._note_error(event)
        self.deltas += b'.delta"' in event
        return event + boundary

    def _note_last(self, told: Any) -> None:
        if not isinstance(told, dict) or not isinstance(told.get("response"), dict):
            return
        kind, response = told.get("type"), told["response"]
        if kind in ("response.completed", "response.incomplete"):
            self.done = True
        elif kind == "response.failed":
            error = response.get("error")
            self.error = error if isinstance(error, dict) else {"message": "failed"}
        if isinstance(response.get("usage"), dict):
            self._final = json.dumps(response["usage"]).encode()


def _count_of_plain(texts: list[bytes]) -> int:
    """Return how many events, less their usage, begin as the first does, up to its choice."""
    begin = texts[0] if texts else b""
    at = begin.find(_FIRST_CHOICE)
    if at < 0 or not begin.startswith(b"data: {"):
        return 0
    begin = begin[: at + len(_FIRST_CHOICE)]
    count = 0
    for text in texts:
        if not text.startswith(begin):
            break
        count += 1
    return count


def _comma_before(event: bytes, at: int) -> int:
    """Return the place of the comma before a field, -1 if it is the first."""
    if event[at - 1 : at] == b",":
        return at - 1
    before = event[:at].rstrip()
    return len(before) - 1 if before.endswith(b",") else -1


def _payload(event: bytes) -> bytes:
    """Return the data of an event; several data lines are one text with newlines between."""
    return b"\n".join(_DATA_LINE.findall(event)).strip()


def _loads(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
