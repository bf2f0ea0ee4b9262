"""Answers filtered: the texts in their JSON, streamed or whole; all else byte for byte."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ds4watch.config.filter_file import FilterPlace
from ds4watch.shaping.filter_rules import RuleSet
from ds4watch.shaping.output_filter import Found, TextFilter

_BOUNDARY = re.compile(rb"\r?\n\r?\n")
_DATA_LINE = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)
_CHAT_FIELDS: Final = (
    ("reasoning_content", FilterPlace.REASONING),
    ("reasoning", FilterPlace.REASONING),
    ("content", FilterPlace.CHAT),
    ("refusal", FilterPlace.CHAT),
)
_TEXT_FIELDS: Final = (("text", FilterPlace.TEXT),)
_TELLS_TOKENS: Final = ("logprobs", "token_ids", "token_offsets")
_FILTERED: Final = "content_filter"
_MAX_CHOICES: Final = 1024
_CONTENT: Final = b'"content":"'
_PROBE: Final = "probe"
_NOT_PLAIN = re.compile(rb'[\x00-\x1f"\\\x80-\xff]')
"""What is not itself in a JSON text, or not ASCII."""


class _Frame(NamedTuple):
    """What stands around the text of an event that tells a piece of content and nothing else.

    An event with the same frame and plain text in it differs from it in that text alone.
    """

    before: bytes
    behind: bytes
    filter: TextFilter

    def text_of(self, event: bytes) -> str:
        """Return the text of an event in this frame; empty if it is not, or not plain."""
        before, behind, _ = self
        if not (event.startswith(before) and event.endswith(behind)):
            return ""
        raw = event[len(before) : len(event) - len(behind)]
        return "" if _NOT_PLAIN.search(raw) else raw.decode("ascii")


class AnswerFilter:
    """Filters one answer. `found` counts what was found by (rule, action)."""

    def __init__(self, sets: Mapping[FilterPlace, RuleSet]) -> None:
        self._sets = sets
        self._texts: dict[tuple[int, str], TextFilter] = {}
        self._ended: set[int] = set()
        self._shell: dict[str, Any] = {}
        self._frame: _Frame | None = None
        """That of the last event; None if it told anything else."""
        self.found: Found = Counter()

    def mark(self) -> str:
        """Return what was done, for a header or the stream's end; empty if nothing was."""
        if not self.found:
            return ""
        actions: Counter[str] = Counter()
        for (_, action), count in self.found.items():
            actions[action] += count
        told = [f"{action}={count}" for action, count in sorted(actions.items())]
        rules = ",".join(sorted({rule for rule, _ in self.found}))
        return ";".join([*told, f"rules={rules}"])

    def whole(self, body: bytes) -> bytes:
        """Return the body of an answer that is not streamed."""
        answer = _object(body)
        if answer is None:
            return body
        changed = False
        for choice in _choices(answer):
            index = len(self._ended)
            self._ended.add(index)
            changed |= self._filter_choice(choice, "message", index, final=True)
        return json.dumps(answer, separators=(",", ":")).encode() if changed else body

    def feed(self, data: bytes) -> bytes:
        """Return the events for the client; `data` holds whole events."""
        if data.find(b"\n\n") == len(data) - 2 >= 0 and b"\r" not in data:
            return self._event(data, data[:-2])  # they mostly come alone
        out: list[bytes] = []
        start = 0
        for boundary in _BOUNDARY.finditer(data):
            out.append(self._event(data[start : boundary.end()], data[start : boundary.start()]))
            start = boundary.end()
        out.append(data[start:])
        return b"".join(out)

    def _event(self, whole: bytes, event: bytes) -> bytes:
        if self._frame is not None and self._passes(self._frame, event):
            return whole
        if b'"choices"' not in event:
            return self._last_words() + whole if _payload(event) == b"[DONE]" else whole
        answer = _object(_payload(event))
        if answer is None:
            return whole
        changed = False
        left = []
        before = list(_choices(answer))
        for choice in before:
            index = _index(choice)
            if index in self._ended:
                continue  # a rule ended it; what still comes is nobody's
            left.append(choice)
            changed |= self._filter_choice(
                choice, "delta", index, final=choice.get("finish_reason") is not None
            )
        if before and not left:
            return b""
        if before:
            self._shell = answer
        if not changed and len(left) == len(before):
            self._frame = self._frame or self._frame_of(event, before)
            return whole
        return _dumped(answer | {"choices": left})

    def _passes(self, frame: _Frame, event: bytes) -> bool:
        """Return whether an event goes out as it is, without being read; then it is taken in."""
        text = frame.text_of(event)
        if not text:
            self._frame = None
        return bool(text) and frame.filter.passes(text)

    def _frame_of(self, event: bytes, choices: list[dict[str, Any]]) -> _Frame | None:
        """Return the frame of an event that has passed, if it is a piece of content alone."""
        one = self._texts.get((0, "content"))
        parts = event.split(_CONTENT)
        if one is None or len(choices) != 1 or len(parts) != 2 or not event.startswith(b"data: {"):
            return None
        text, quote, behind = parts[1].partition(b'"')
        if not text or _NOT_PLAIN.search(text) or b'"usage":{' in behind:
            return None  # the next one is likely to be no plainer
        frame = _Frame(parts[0] + _CONTENT, quote + behind, one)
        probed = _object(frame.before[6:] + _PROBE.encode() + frame.behind)
        found = list(_choices(probed)) if probed is not None else []
        expected = choices[0] | {"delta": {"content": _PROBE}}
        is_alone = found == [expected] and _index(expected) == 0
        return frame if is_alone and expected.get("finish_reason") is None else None

    def _filter_choice(
        self, choice: dict[str, Any], holder: str, index: int, *, final: bool
    ) -> bool:
        """Filter the texts of a choice in place; return whether it was changed."""
        inner = choice.get(holder)
        fields = _CHAT_FIELDS if isinstance(inner, dict) else _TEXT_FIELDS
        texts = inner if isinstance(inner, dict) else choice
        changed = False
        for name, place in fields:
            changed |= self._filter_field(texts, name, self._text(index, name, place), final=final)
        if isinstance(inner, dict) and FilterPlace.TOOLS in self._sets:
            changed |= self._filter_tools(inner, index, final=final)
        if changed:
            for name in _TELLS_TOKENS:
                if choice.get(name) is not None:
                    choice[name] = None
        if any(self._is_stopped(index)):
            choice["finish_reason"] = _FILTERED
            self._ended.add(index)
            return True
        return changed

    def _filter_field(
        self, texts: dict[str, Any], name: str, one: TextFilter | None, *, final: bool
    ) -> bool:
        given = texts.get(name)
        text = given if isinstance(given, str) else ""
        if one is None or not (text or (final and one.is_holding)):
            # Another text of the same answer has begun: this one is over.
            is_over = one is not None and one.is_holding and _has_other(texts, name)
            if one is None or not is_over:
                return False
            final = True
        out = one.feed(text) + (one.finish() if final else "")
        if out == text:
            return False
        texts[name] = out
        return True

    def _filter_tools(self, inner: dict[str, Any], index: int, *, final: bool) -> bool:
        changed = False
        calls = inner.get("tool_calls")
        for at, call in enumerate(calls if isinstance(calls, list) else ()):
            function = call.get("function") if isinstance(call, dict) else None
            if isinstance(function, dict):
                number = call.get("index", at)
                one = self._text(index, f"tool {number}", FilterPlace.TOOLS)
                changed |= self._filter_field(function, "arguments", one, final=final)
        return changed

    def _text(self, index: int, name: str, place: FilterPlace) -> TextFilter | None:
        rules = self._sets.get(place)
        if rules is None:
            return None
        one = self._texts.get((index, name))
        if one is None and len(self._texts) < _MAX_CHOICES:
            one = self._texts[index, name] = TextFilter(rules, self.found)
        return one

    def _is_stopped(self, index: int) -> Iterator[bool]:
        return (one.is_stopped for (at, _), one in self._texts.items() if at == index)

    def _last_words(self) -> bytes:
        """Return what is still held back, and what was done, for before the stream's end."""
        out = [self._rest(index, name, one) for (index, name), one in self._texts.items()]
        mark = self.mark()
        return b"".join(out) + (f": x-ds4-filter {mark}\n\n".encode() if mark else b"")

    def _rest(self, index: int, name: str, one: TextFilter) -> bytes:
        text = "" if index in self._ended else one.finish()
        if not text:
            return b""
        choice: dict[str, Any] = {"index": index, "finish_reason": None}
        if name == "text":
            choice["text"] = text
        elif name.startswith("tool "):
            call = {"index": int(name[5:]), "function": {"arguments": text}}
            choice["delta"] = {"tool_calls": [call]}
        else:
            choice["delta"] = {name: text}
        kept = {key: value for key, value in self._shell.items() if key != "usage"}
        return _dumped(kept | {"choices": [choice]})


def _has_other(texts: Mapping[str, Any], name: str) -> bool:
    return any(value for key, value in texts.items() if key not in (name, "role"))


def _choices(answer: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    choices = answer.get("choices")
    return (it for it in choices if isinstance(it, dict)) if isinstance(choices, list) else iter(())


def _index(choice: Mapping[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _payload(event: bytes) -> bytes:
    return b"\n".join(_DATA_LINE.findall(event)).strip()


def _object(text: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _dumped(answer: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(answer, separators=(",", ":")).encode() + b"\n\n"
