"""What makes requests one conversation, as a number that all gateway processes agree on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from zlib import crc32

MANY_TURNS = 20
_NAME_CHARACTERS = 256
_TEXT_CHARACTERS = 4096
_PARTS = 8
_MIN_CHARACTERS = 256
"""A shorter beginning is not worth more in a cache than an even load: `Hi` is everybody's."""


def session_key(header: str | None, body: Mapping[str, Any]) -> int | None:
    """Return the key: of the header, else of `session_id`, `user`, or the beginning; or None.

    The beginning is the system prompt and the first message of the user, and the next messages if
    those are short: it stays the same from turn to turn. What changes with each request (a request
    id) is never a key.
    """
    for told in (header, body.get("session_id"), body.get("user")):
        if told and isinstance(told, str):
            return crc32(told[:_NAME_CHARACTERS].encode(errors="replace"))
    messages = body.get("messages") or body.get("input")
    if isinstance(messages, list):
        return _key_of_beginning(messages)
    prompt = body.get("prompt")
    if isinstance(prompt, str) and len(prompt) >= _MIN_CHARACTERS:
        return crc32(prompt[:_MIN_CHARACTERS].encode(errors="replace"))
    return None


def conversation_key(header: str | None, body: Mapping[str, Any]) -> int | None:
    """Return the same without `user`, who may have many conversations: for the books."""
    if "user" not in body:
        return session_key(header, body)
    return session_key(header, {name: value for name, value in body.items() if name != "user"})


def has_many_turns(body: Mapping[str, Any]) -> bool:
    """Return whether a chat has more than 20 turns: messages of its user."""
    messages = body.get("messages")
    if not isinstance(messages, list) or len(messages) <= MANY_TURNS:
        return False
    users = [it for it in messages if isinstance(it, dict) and it.get("role") == "user"]
    return len(users) > MANY_TURNS


def _key_of_beginning(messages: list[Any]) -> int | None:
    key, size, has_user = 0, 0, False
    for message in messages:
        if not isinstance(message, dict):
            return None
        for text in _texts(message.get("content")):
            key = crc32(text.encode(errors="replace"), key)
            size += len(text)
        has_user = has_user or message.get("role") == "user"
        if has_user and size >= _MIN_CHARACTERS:
            return key
    return None


def _texts(content: Any) -> list[str]:
    if isinstance(content, str):
        return [content[:_TEXT_CHARACTERS]]
    if not isinstance(content, list):
        return []
    return [_text_of(part) for part in content[:_PARTS] if isinstance(part, dict)]


def _text_of(part: dict[str, Any]) -> str:
    """Return the text of a part; of a picture the end, for the beginnings are alike."""
    text = part.get("text")
    if isinstance(text, str):
        return text[:_TEXT_CHARACTERS]
    picture = part.get("image_url")
    address = picture.get("url") if isinstance(picture, dict) else None
    return address[-_MIN_CHARACTERS:] if isinstance(address, str) else ""
