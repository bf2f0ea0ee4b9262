"""A request's body taken in: bounded in size and time, parsed once, checked."""

from __future__ import annotations

import zlib
from typing import Any

from ds4watch.access.request_check import RequestCheck, RequestLimits
from ds4watch.access.strict_json import loads
from ds4watch.config.gateway_security import IntakeSettings
from ds4watch.gateway.http.errors import BodyTooLargeError, BrokenBodyError
from ds4watch.gateway.http.message import Request
from ds4watch.gateway.replies import RefusedError, Reply
from ds4watch.shaping.request import RequestKind

_WINDOW_BITS = {
    "gzip": 16 + zlib.MAX_WBITS,
    "x-gzip": 16 + zlib.MAX_WBITS,
    "deflate": zlib.MAX_WBITS,
}


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """Return the body, unpacked. Raises RefusedError if it is too large, too slow or broken."""
    try:
        raw = await request.read()
        packing = request.headers.get("content-encoding")
        return raw if packing is None else _unpacked(raw, packing.strip().lower(), max_bytes)
    except BodyTooLargeError as error:
        message = f"The body is larger than {max_bytes} bytes"
        raise RefusedError(Reply(413, message, "request_too_large")) from error
    except TimeoutError as error:
        message = "The body did not arrive in time"
        raise RefusedError(Reply(408, message, "request_timeout")) from error
    except (BrokenBodyError, zlib.error) as error:
        raise RefusedError(Reply(400, f"The body is broken: {error}", "invalid_body")) from error


def _unpacked(raw: bytes, packing: str, max_bytes: int) -> bytes:
    """Return what a packed body holds, never more than may be kept."""
    if packing == "identity":
        return raw
    if packing not in _WINDOW_BITS:
        message = f"A body packed by {packing[:50]!r} is not understood here"
        raise RefusedError(Reply(415, message, "unsupported_encoding"))
    inner = zlib.decompressobj(_WINDOW_BITS[packing])
    body = inner.decompress(raw, max_bytes + 1)
    if len(body) > max_bytes:
        raise BodyTooLargeError
    if not inner.eof or inner.unused_data:
        raise BrokenBodyError("it does not end where its packing says")
    return body


def parse(raw: bytes) -> dict[str, Any]:
    """Return the JSON object of the body. Raises RefusedError."""
    if not raw:
        raise RefusedError(Reply(400, "The body is empty: it must be JSON", "invalid_json"))
    try:
        return loads(raw)
    except ValueError as error:
        message = f"The body is not valid JSON: {_first_line(error)}"
        raise RefusedError(Reply(400, message, "invalid_json")) from error


def check(table: RequestCheck, body: dict[str, Any], kind: RequestKind) -> None:
    """Raise RefusedError for the first field that cannot be right."""
    if kind is RequestKind.CHAT:
        fault = table.chat(body)
    elif kind is RequestKind.TEXT:
        fault = table.text(body)
    else:
        fault = table.other(body)
    if fault is not None:
        message = f"{fault.field} {fault.reason}"
        raise RefusedError(Reply(400, message, "invalid_value", param=fault.field))


def limits_of(settings: IntakeSettings) -> RequestLimits:
    """Return the bounds that the settings give."""
    values = settings.model_dump()
    values["allow_fields"] = frozenset(settings.allow_fields)
    return RequestLimits(**values)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
