"""Says in one line why a page could not be fetched, and what to do. Names no secret."""

from __future__ import annotations

import errno
import socket
import ssl

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.scrape.address import Address

_READABLE = ("text/plain", "application/openmetrics-text")
_STATUS_MENDS = {
    401: "credentials are missing or wrong: check those of the target group",
    403: "the credentials may not read metrics: check those of the target group",
    404: "no metrics at this path: check the address",
    407: "a proxy wants credentials: let ds4watch reach the target directly",
    429: "scraped too often for it: lengthen the group's interval",
    500: "the target's own fault: see its log",
    503: "the target is starting, stopping or overloaded",
}


def bad_head(status: int, content_type: str) -> ScrapeError | None:
    """Return why an answer with this head is no metrics page, or None if it can be one."""
    if status != 200:
        mend = _STATUS_MENDS.get(status, "see the target's log" if status >= 500 else "")
        if 300 <= status < 400:
            mend = "a redirect, which is not followed: set the address it leads to"
        text = f"answered {status}: {mend}" if mend else f"answered {status}, not 200"
        return ScrapeError(text, reason=EdgeReason.STATUS, retryable=status >= 500)
    kind = content_type.partition(";")[0].strip().lower()
    if kind and kind not in _READABLE:
        message = f"answered with {kind[:80]!r}, not metrics: check the address"
        return ScrapeError(message, reason=EdgeReason.BODY)
    return None


def timed_out(seconds: float) -> ScrapeError:
    """Return the failure of a scrape that took too long."""
    message = f"no answer in time ({seconds:g} s): it is overloaded, or the time-out is too short"
    return ScrapeError(message, reason=EdgeReason.TIMEOUT, retryable=True)


def too_large(what: str, limit_bytes: int) -> ScrapeError:
    """Return the failure of an answer over a limit."""
    message = f"{what} is larger than {limit_bytes} bytes: raise max_body_bytes if that is right"
    return ScrapeError(message, reason=EdgeReason.TOO_LARGE)


def broken(what: str) -> ScrapeError:
    """Return the failure of an answer that is not as HTTP has it."""
    return ScrapeError(what, reason=EdgeReason.BODY, retryable=True)


def gone(what: str) -> ScrapeError:
    """Return the failure of a connection that ended without an answer."""
    return ScrapeError(what, reason=EdgeReason.GONE, retryable=True)


def cannot_connect(error: Exception, address: Address) -> ScrapeError:
    """Return why there is no connection to `address`."""
    place = address.host_header
    if isinstance(error, ssl.SSLError):
        return ScrapeError(f"TLS with {place}: {_why_no_tls(error)}", reason=EdgeReason.CONNECT)
    if isinstance(error, socket.gaierror):
        text = f"cannot resolve {address.host}: check the name, and DNS"
    elif isinstance(error, ConnectionRefusedError):
        text = (
            f"{place} refuses connections: nothing listens there, check that it runs, and its port"
        )
    elif isinstance(error, ConnectionError):
        text = f"{place} hung up while connecting: check that it runs, and http or https"
    elif isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        text = "too many open files: raise LimitNOFILE of the ds4watch service"
    else:
        text = f"cannot connect to {place}: {error}"
    return ScrapeError(text, reason=EdgeReason.CONNECT, retryable=True)


def _why_no_tls(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message or error.reason}"
    if error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return "it does not speak TLS: is it http://?"
    return f"{error.reason or error}: check the group's TLS settings"
