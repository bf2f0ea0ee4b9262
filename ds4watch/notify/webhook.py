"""A plain webhook: each notification is posted as JSON, signed if there is a secret."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from ds4watch.model.errors import EdgeReason, NotifyError
from ds4watch.notify.secret import Secret
from ds4watch.notify.webhook_signature import signed_headers

_KEY_HEADER = "Idempotency-Key"
_TIMEOUT = aiohttp.ClientTimeout(total=10.0)


def open_session() -> aiohttp.ClientSession:
    """Return a session for webhooks; whoever opens it closes it."""
    return aiohttp.ClientSession()


class Webhook:
    """Posts to one address."""

    name = "webhook"

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        *,
        secret: Secret | None = None,
        now: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._session = session
        self._url = url
        self._secret = secret or Secret()
        self._now = now

    async def send(self, payload: Mapping[str, Any]) -> None:
        """Post the notification. Raises NotifyError; a 4xx other than 408 and 429 is final.

        One that is posted again, because nobody knows whether it arrived, has the same key.
        """
        body = json.dumps(dict(payload)).encode()
        headers = {"Content-Type": "application/json"}
        if "id" in payload:
            headers[_KEY_HEADER] = str(payload["id"])
        if self._secret:
            headers |= signed_headers(self._secret.read(), body, self._now())
        try:
            async with self._session.post(
                self._url,
                data=body,
                headers=headers,
                timeout=_TIMEOUT,
                allow_redirects=False,
            ) as answer:
                status = answer.status
        except TimeoutError as error:
            message = "the webhook did not answer in time"
            raise NotifyError(message, reason=EdgeReason.TIMEOUT, retryable=True) from error
        except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
            # The address may hold a secret, and so may the library's message.
            message = f"the webhook cannot be reached ({type(error).__name__})"
            raise NotifyError(message, reason=EdgeReason.CONNECT, retryable=True) from error
        if status >= 300:
            retryable = status >= 500 or status in (408, 429)
            message = f"the webhook answered {status}"
            raise NotifyError(message, reason=EdgeReason.STATUS, retryable=retryable)
