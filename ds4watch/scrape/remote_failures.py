"""What went wrong between us and a remote server, in one line. Names no secret."""

from __future__ import annotations

import ssl
from typing import Any

import requests
import urllib3

from ds4watch.model.errors import EdgeReason, ScrapeError, SourceError


def failure_of(error: Exception, seconds: float) -> SourceError:
    """Return what an error of the library means, in one line without secrets."""
    if isinstance(error, SourceError):
        return error
    if isinstance(error, ScrapeError):  # a secret that cannot be read
        return SourceError(str(error), reason=error.reason)
    if isinstance(error, requests.exceptions.SSLError):
        why = next((it for it in _causes(error) if isinstance(it, ssl.SSLError)), None)
        said = getattr(why, "verify_message", "") or getattr(why, "reason", "") or "it failed"
        return SourceError(f"TLS with the server: {said}", reason=EdgeReason.CONNECT)
    if isinstance(error, requests.exceptions.Timeout) or any(
        isinstance(it, urllib3.exceptions.ReadTimeoutError) for it in _causes(error)
    ):
        return SourceError(
            f"no answer in time ({seconds:.3g} s)", reason=EdgeReason.TIMEOUT, retryable=True
        )
    if isinstance(error, requests.exceptions.ConnectionError):
        broken = next((it for it in _causes(error) if isinstance(it, OSError)), None)
        said = (getattr(broken, "strerror", None) or "it hung up").lower()
        message = f"cannot reach the server: {said}"
        return SourceError(message, reason=EdgeReason.CONNECT, retryable=True)
    if isinstance(
        error,
        requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError,
    ):
        return SourceError("the answer broke off", reason=EdgeReason.BODY, retryable=True)
    kind = type(error).__name__
    return SourceError(f"the question could not be asked ({kind})", reason=EdgeReason.OTHER)


def _causes(error: BaseException) -> list[BaseException]:
    """Return what stands behind an error, the innermost first."""
    found: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting and len(found) < 20:
        it = waiting.pop(0)
        if not isinstance(it, BaseException) or it in found:
            continue
        if not isinstance(it, requests.RequestException):
            found.insert(0, it)
        waiting += [it.__cause__, it.__context__, getattr(it, "reason", None), *it.args]
    return found
