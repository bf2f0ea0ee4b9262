"""Messages and their parts: counted, and kept from sending the worker to fetch addresses.

A worker fetches what an image, audio or video part names, from inside the network that it
stands in. So parts with an address of another kind than `data:` are refused, unless its host is
allowed. Redirects and name servers are the worker's to mind (vLLM: --allowed-media-domains,
VLLM_MEDIA_URL_ALLOW_REDIRECTS=0).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from ds4watch.access.fields import Invalid

_SCHEME = re.compile(r"[\s\x00-\x20]*([A-Za-z][A-Za-z0-9+.\-]*):")
_ODD = re.compile(r"[\s\x00-\x20\\@]")
_TEXT_TYPES: Final = frozenset({"text", "input_text", "output_text", "refusal", "thinking"})
_PROSE: Final = frozenset({"text", "refusal", "thinking", "summary_text"})
_MAX_NODES: Final = 20_000


@dataclass(frozen=True, slots=True)
class MediaRules:
    """What parts may hold. `hosts`: where workers may fetch from, lower-case."""

    hosts: frozenset[str] = frozenset()
    parts: int = 1024
    allows_embeds: bool = False


def check_messages(field: str, value: Any, *, count: int, rules: MediaRules) -> Invalid | None:
    """Return the first fault of a list of messages."""
    if not isinstance(value, list) or not value:
        return Invalid(field, "must be a list with at least one message")
    if len(value) > count:
        return Invalid(field, f"must have at most {count} messages")
    for at, message in enumerate(value):
        if type(message) is not dict:
            return Invalid(field, "must hold objects only")
        content = message.get("content")
        if content is not None and type(content) is not str:
            fault = check_input(f"{field}[{at}].content", content, rules=rules)
            if fault is not None:
                return fault
    return None


def check_input(field: str, value: Any, *, rules: MediaRules) -> Invalid | None:
    """Return the first fault of a content: a text, or a list of parts (or of items with such)."""
    if isinstance(value, str):
        return None
    if isinstance(value, dict):
        return _check_part(field, value, rules)
    if not isinstance(value, list):
        return Invalid(field, "must be a text or a list of parts")
    if value and isinstance(value[0], int | str):
        is_plain = all(isinstance(one, int | str) for one in value)
        return None if is_plain else Invalid(field, "must hold parts of one kind")
    if len(value) > rules.parts:
        return Invalid(field, f"must have at most {rules.parts} parts")
    for at, part in enumerate(value):
        fault = _check_part(f"{field}[{at}]", part, rules)
        if fault is not None:
            return fault
    return None


def _check_part(field: str, part: Any, rules: MediaRules) -> Invalid | None:
    if not isinstance(part, dict):
        return None if isinstance(part, str | list) else Invalid(field, "must be an object")
    if len(part) == 2 and part.get("type") in _TEXT_TYPES and isinstance(part.get("text"), str):
        return None
    for path, key, leaf in _nodes(field, part):
        if leaf is None:
            return Invalid(field, "holds too many values")
        if not rules.allows_embeds and _is_tensor(key, leaf):
            return Invalid(path, "is not allowed here: it is a tensor that the worker would load")
        if isinstance(leaf, str) and key not in _PROSE:
            fault = _address_fault(leaf, rules)
            if fault is not None:
                return Invalid(path, fault)
    return None


def _is_tensor(key: str, value: Any) -> bool:
    named = value if key == "type" and isinstance(value, str) else key
    return named.endswith("_embeds") or named == "image_pil"


def _nodes(field: str, part: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Yield path, key and value of all that is in a part; a None value ends it: too many."""
    waiting: list[tuple[str, str, Any]] = [(field, "", part)]
    seen = 0
    while waiting:
        path, key, value = waiting.pop()
        seen += 1
        if seen > _MAX_NODES:
            yield path, key, None
            return
        if value is not None:
            yield path, key, value
        if isinstance(value, dict):
            waiting += [(f"{path}.{name[:64]}", name, one) for name, one in value.items()]
        elif isinstance(value, list):
            waiting += [(path, key, one) for one in value]


def _address_fault(text: str, rules: MediaRules) -> str | None:
    if text.startswith("data:"):
        return None
    scheme = _SCHEME.match(text[:256])
    if scheme is None:
        is_relative = text.lstrip()[:2] in ("//", "\\\\")
        return "names no scheme" if is_relative else None
    if scheme[1].lower() not in ("http", "https") or scheme.start(1) != 0:
        return "must be a data: URL"
    return None if _is_allowed(text, rules.hosts) else _NOT_ALLOWED


_NOT_ALLOWED: Final = (
    "must be a data: URL: workers fetch from no host that gateway.intake.media_hosts does not name"
)


def _is_allowed(url: str, hosts: frozenset[str]) -> bool:
    if not hosts or _ODD.search(url.partition("?")[0]):
        return False
    if "*" in hosts:
        return True
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return False
    if not host:
        return False
    if f"{host}:{port}" in hosts:
        return True
    if port not in (None, 80 if parts.scheme == "http" else 443):
        return False
    labels = host.split(".")
    suffixes = (f"*.{'.'.join(labels[at:])}" for at in range(1, len(labels)))
    return host in hosts or any(suffix in hosts for suffix in suffixes)
