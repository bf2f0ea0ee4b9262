"""Long prompts made shorter: segments that the rest foretells are removed, the order kept.

`ratio` is the share of tokens that is kept, of the whole prompt. The system prompt, the last
turns, code, JSON and quotations stay whole, and of what may be cut at least `MIN_RATIO` stays: so
a prompt that is mostly code comes out longer than asked. All is linear in the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ds4watch.shaping.segments import Segment, join, segments_of
from ds4watch.shaping.surprise import least_surprising

MIN_RATIO = 0.3
MAX_RATIO = 0.7
KEPT_TURNS = 2
_KEPT_ROLES = frozenset({"system", "developer"})
_END_CHARS = 200
"""Of a text without turns, at least so much stays at each end: there stands what is to be done."""

Count = Callable[[str], int]
Body = Mapping[str, Any]


class Scorer(Protocol):
    """Judges segments by a language model outside of this process."""

    async def surprise(self, texts: Sequence[str], model: str, /) -> Sequence[float] | None:
        """Return the mean bits a token of each text after those before it; None if it cannot."""


def estimated_tokens(text: str) -> int:
    """Return the tokens of a text as four bytes each."""
    return -(-len(text.encode(errors="replace")) // 4)


@dataclass(frozen=True, slots=True)
class Compressed:
    """A request's body with a shorter prompt; `body` is the one given if nothing was removed."""

    body: Body
    tokens_before: int
    tokens_after: int
    removed: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """Share of the tokens that was kept."""
        return self.tokens_after / self.tokens_before if self.tokens_before else 1.0


@dataclass(frozen=True, slots=True)
class _Place:
    """A text in the body: `messages[message].content`, its part, or `prompt` (message None)."""

    text: str
    message: int | None
    part: int | None
    is_cut: bool
    has_ends: bool = False


@dataclass(frozen=True, slots=True)
class Cuttable:
    """A body read: its texts, their segments in order, and which of them may go."""

    body: Body
    places: tuple[_Place, ...]
    segments: tuple[tuple[Segment, ...], ...]
    texts: tuple[str, ...]
    removable: tuple[int, ...]


def compress(
    body: Body,
    *,
    ratio: float,
    count: Count = estimated_tokens,
    kept_turns: int = KEPT_TURNS,
    cut_last_turns: bool = False,
) -> Compressed:
    """Return the body with `ratio` of its prompt's tokens; the same for the same input.

    ratio: share to keep, taken into 0.3 to 0.7; 1 or more changes nothing.
    kept_turns: messages at the end that stay whole. cut_last_turns: they too may be cut in their
    middle, for prompts of one turn that hold a document and the question about it.
    """
    read = read_body(body, kept_turns=kept_turns, cut_last_turns=cut_last_turns)
    return cut(read, ratio=ratio, count=count)


def read_body(
    body: Body, *, kept_turns: int = KEPT_TURNS, cut_last_turns: bool = False
) -> Cuttable:
    """Return the segments of a body's prompt or messages."""
    places = tuple(_places(body, kept_turns=kept_turns, cut_last_turns=cut_last_turns))
    segments = tuple(tuple(_segments_in(place)) for place in places)
    flat = [
        (place.text[segment.start : segment.end], place.is_cut and not segment.kept)
        for place, found in zip(places, segments, strict=True)
        for segment in found
    ]
    return Cuttable(
        body=body,
        places=places,
        segments=segments,
        texts=tuple(text for text, _ in flat),
        removable=tuple(index for index, (_, may_go) in enumerate(flat) if may_go),
    )


def cut(
    read: Cuttable,
    *,
    ratio: float,
    count: Count = estimated_tokens,
    surprise: Sequence[float] | None = None,
) -> Compressed:
    """Return the body without its least surprising segments.

    surprise: what a `Scorer` said of each text; without it, the document's own n-grams judge.
    """
    before = sum(count(place.text) for place in read.places)
    if ratio >= 1.0 or not read.removable:
        return Compressed(read.body, before, before, ())
    sizes = [len(text.encode(errors="replace")) + 1 for text in read.texts]
    excess = _excess(read, sizes, min(max(ratio, MIN_RATIO), MAX_RATIO))
    if surprise is None:
        removed = least_surprising(read.texts, read.removable, sizes=sizes, excess=excess)
    else:
        removed = _lowest(surprise, read.removable, sizes=sizes, excess=excess)
    texts = _joined(read, removed)
    return Compressed(
        body=_with_texts(read, texts),
        tokens_before=before,
        tokens_after=sum(count(text) for text in texts),
        removed=tuple(read.texts[index] for index in sorted(removed)),
    )


def _excess(read: Cuttable, sizes: Sequence[int], ratio: float) -> float:
    may_go = sum(sizes[index] for index in read.removable)
    return min(sum(sizes) * (1.0 - ratio), may_go * (1.0 - MIN_RATIO))


def _lowest(
    surprise: Sequence[float], removable: Sequence[int], *, sizes: Sequence[int], excess: float
) -> set[int]:
    removed: set[int] = set()
    for index in sorted(removable, key=lambda index: (surprise[index], -index)):
        if excess <= 0:
            break
        removed.add(index)
        excess -= sizes[index]
    return removed


def _places(body: Body, *, kept_turns: int, cut_last_turns: bool) -> list[_Place]:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return [_Place(prompt, None, None, is_cut=True, has_ends=True)]
    messages = body.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return []
    found: list[_Place] = []
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping):
            continue
        is_last = number >= len(messages) - kept_turns
        may_cut = message.get("role") not in _KEPT_ROLES and (cut_last_turns or not is_last)
        content = message.get("content")
        if isinstance(content, str):
            found.append(_Place(content, number, None, is_cut=may_cut, has_ends=is_last))
        elif isinstance(content, Sequence):
            found += [
                _Place(part["text"], number, at, is_cut=may_cut, has_ends=is_last)
                for at, part in enumerate(content)
                if isinstance(part, Mapping) and isinstance(part.get("text"), str)
            ]
    return found


def _segments_in(place: _Place) -> Sequence[Segment]:
    segments = segments_of(place.text)
    if not place.has_ends:
        return segments
    least, most = _END_CHARS, len(place.text.rstrip()) - _END_CHARS
    return [
        Segment(it.start, it.end, it.kept or it.start < least or it.end > most) for it in segments
    ]


def _joined(read: Cuttable, removed: set[int]) -> list[str]:
    texts: list[str] = []
    offset = 0
    for place, segments in zip(read.places, read.segments, strict=True):
        here = {index - offset for index in removed if 0 <= index - offset < len(segments)}
        texts.append(join(place.text, segments, here))
        offset += len(segments)
    return texts


def _with_texts(read: Cuttable, texts: Sequence[str]) -> Body:
    body = dict(read.body)
    messages = [*body["messages"]] if "messages" in body else []
    for place, text in zip(read.places, texts, strict=True):
        if text == place.text:
            continue
        if place.message is None:
            body["prompt"] = text
            continue
        message = messages[place.message]
        if place.part is None:
            messages[place.message] = {**message, "content": text}
        else:
            parts = [*message["content"]]
            parts[place.part] = {**parts[place.part], "text": text}
            messages[place.message] = {**message, "content": parts}
    if messages:
        body["messages"] = messages
    return body


def changed_fields(body: Body, done: Compressed) -> dict[str, Any] | None:
    """Return the fields of the body that compression changed, None if it changed nothing."""
    if not done.removed:
        return None
    return {name: value for name, value in done.body.items() if value is not body.get(name)}
