"""Server-sent events of the responses API."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ds4watch.shaping.sse import SseRelay, json_or_none, payload_of

_LAST_EVENT = re.compile(rb"response\.(?:completed|incomplete|failed)")


class ResponsesRelay(SseRelay):
    """The same for the events of the responses API, which pass byte for byte.

    It tells the usage in its last event, which says whether the answer is whole.
    """

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(keep_last=True, keep_each=True)

    def _take(self, chunks: Sequence[bytes]) -> bytes:
        out: list[bytes] = []
        at = 0
        while at < len(chunks):
            at += self._take_any(chunks, at, out)
        return b"".join(out)

    def _event(self, event: bytes, boundary: bytes) -> bytes:
        if _LAST_EVENT.search(event) is not None:
            self._note_last(json_or_none(payload_of(event)))
        elif b'"error"' in event:
            self.note_error(event)
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
