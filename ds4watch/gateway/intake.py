"""A request's body taken in: bounded in size and time, parsed once, checked."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from ds4watch.access.limits import check_request
from ds4watch.gateway.replies import RefusedError, Reply

_BODY_SECONDS = 60.0


def _refuse_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise ValueError(message)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


async def read_body(request: web.Request, *, max_bytes: int) -> bytes:
    """Return the body. Raises RefusedError if it is too large, too slow or broken."""
    too_large = RefusedError(
        Reply(413, f"The body is larger than {max_bytes} bytes", "request_too_large")
    )
    if (request.content_length or 0) > max_bytes:
        raise too_large
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large from error
    except TimeoutError as error:
        message = f"The body did not arrive within {_BODY_SECONDS:.0f} s"
        raise RefusedError(Reply(408, message, "request_timeout")) from error
    except (web.RequestPayloadError, HttpProcessingError) as error:
        raise RefusedError(Reply(400, "The body is broken", "invalid_body")) from error


def parse(raw: bytes) -> dict[str, Any]:
    """Return the JSON object of the body. Raises RefusedError."""
    try:
        body = _DECODER.decode(raw.decode())
    except (ValueError, RecursionError) as error:
        message = f"The body is not valid JSON: {_first_line(error)}"
        raise RefusedError(Reply(400, message, "invalid_json")) from error
    if not isinstance(body, dict):
        raise RefusedError(Reply(400, "The body must be a JSON object", "invalid_json"))
    return body


def check(body: dict[str, Any], *, chat: bool) -> None:
    """Raise RefusedError for the first field that cannot be right."""
    fault = check_request(body, chat=chat)
    if fault is not None:
        message = f"{fault.field} {fault.reason}"
        raise RefusedError(Reply(400, message, "invalid_value", param=fault.field))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:200]
