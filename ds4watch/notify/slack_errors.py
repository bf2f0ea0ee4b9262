"""What failures of Slack mean: the one place where its library's exceptions are known."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

from ds4watch.notify.group_channel import ChannelError, Fault

_ACCESS = frozenset({
    "invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired",
    "no_permission", "missing_scope", "not_in_channel", "channel_not_found", "is_archived",
    "ekm_access_denied", "org_login_required", "access_denied", "invalid_token", "no_service",
    "no_team", "team_disabled", "action_prohibited", "restricted_action",
})  # fmt: skip
"""What a person has to mend; messages wait for that."""
_BUSY = frozenset({"ratelimited", "rate_limited", "message_limit_exceeded"})
_OUTAGE = frozenset({
    "internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org",
    "team_access_not_granted", "accesslimited",
})  # fmt: skip
_DEFAULT_PAUSE_SECONDS = 30.0


@asynccontextmanager
async def mapped() -> AsyncIterator[None]:
    """Raise what a call of Slack's API raises as ChannelError."""
    try:
        yield
    except SlackApiError as error:
        raise api_error(error) from error
    except (TimeoutError, asyncio.IncompleteReadError) as error:
        message = "Slack did not answer in time"
        raise ChannelError(message, fault=Fault.OUTAGE, unsure=True) from error
    except aiohttp.ClientConnectorError as error:
        # The connection was never made, so nothing was sent.
        message = f"Slack cannot be reached ({type(error).__name__})"
        raise ChannelError(message, fault=Fault.OUTAGE) from error
    except (aiohttp.ClientError, SlackClientError, OSError, ValueError) as error:
        # Its text may hold the token.
        message = f"the connection to Slack broke ({type(error).__name__})"
        raise ChannelError(message, fault=Fault.OUTAGE, unsure=True) from error


@asynccontextmanager
async def looking() -> AsyncIterator[None]:
    """Raise that we may not look for a message as BLIND.

    If the token is at fault, or the channel gone, sending says so as well.
    """
    try:
        yield
    except ChannelError as error:
        if error.fault not in (Fault.ACCESS, Fault.MESSAGE):
            raise
        message = f"it cannot be looked for a message that may have been sent: {error}"
        raise ChannelError(message, fault=Fault.BLIND, unsure=True) from error


def api_error(error: SlackApiError) -> ChannelError:
    """Return what an answer of Slack means."""
    answer = error.response
    status = int(getattr(answer, "status_code", 0) or 0)
    code = str(answer.get("error", "")) if isinstance(getattr(answer, "data", None), dict) else ""
    headers = {str(k).lower(): v for k, v in (getattr(answer, "headers", None) or {}).items()}
    return error_of(status, code, str(headers.get("retry-after", "")))


def error_of(status: int, code: str, retry_after: str = "") -> ChannelError:
    """Return what a status, an error code and a Retry-After header mean."""
    wait_seconds = _seconds(retry_after)
    if status == 429 or code in _BUSY:
        message = "Slack asks for a pause"
        return ChannelError(
            message, fault=Fault.BUSY, wait_seconds=wait_seconds or _DEFAULT_PAUSE_SECONDS
        )
    if code in _ACCESS or status in (401, 403, 404, 410):
        return ChannelError(f"Slack refuses us: {code or status}", fault=Fault.ACCESS)
    if status >= 500 or code in _OUTAGE or not code:
        message = f"Slack answered {code or status}"
        return ChannelError(message, fault=Fault.OUTAGE, wait_seconds=wait_seconds, unsure=True)
    return ChannelError(f"Slack refuses the message: {code}", fault=Fault.MESSAGE)


def _seconds(text: str) -> float:
    try:
        return min(max(0.0, float(text)), 3600.0)
    except ValueError:
        return 0.0
