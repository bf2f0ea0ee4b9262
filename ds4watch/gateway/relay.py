"""One attempt at one worker: send the request, pass the answer on, note what it used."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ds4watch.config.settings import GatewaySettings
from ds4watch.gateway.call import Call
from ds4watch.gateway.headers import headers_for_client
from ds4watch.model.errors import Ds4watchError, EdgeReason, UpstreamError
from ds4watch.model.ports import Clock
from ds4watch.model.usage import RequestOutcome, RetryReason
from ds4watch.model.worker import WorkerView
from ds4watch.routing.retry import Failure, failure_of_status
from ds4watch.shaping.request import Shaped
from ds4watch.shaping.sse import OversizedEventError, SseRelay
from ds4watch.shaping.usage import usage_of

_MAX_ANSWER_BYTES = 256 << 20
_IDLE_CONNECTION_SECONDS = 3.0
"""Under the 5 s after which vLLM's server closes an idle connection, perhaps as we use it."""

_REASONS = {
    RetryReason.CONNECT: EdgeReason.CONNECT,
    RetryReason.TIMEOUT: EdgeReason.TIMEOUT,
    RetryReason.STATUS_5XX: EdgeReason.STATUS,
    RetryReason.BUSY: EdgeReason.FULL,
    RetryReason.BROKEN: EdgeReason.BODY,
}


class AttemptError(UpstreamError):
    """A worker did not answer as it should."""

    def __init__(self, failure: Failure, detail: str) -> None:
        super().__init__(detail, reason=_REASONS[failure.reason], retryable=True)
        self.failure = failure


class ClientGoneError(Ds4watchError):
    """There is nobody left to send the answer to."""


class Relay:
    """The way to the workers and back."""

    def __init__(
        self, session: aiohttp.ClientSession, settings: GatewaySettings, clock: Clock
    ) -> None:
        self._session = session
        self._settings = settings
        self._clock = clock

    async def attempt(
        self,
        request: web.Request,
        call: Call,
        worker: WorkerView,
        *,
        shaped: Shaped,
        payload: bytes,
        headers: CIMultiDict[str],
    ) -> web.StreamResponse:
        """Return the response made of the worker's answer.

        Raises AttemptError if the worker failed, ClientGoneError if the client did. A stream
        has been sent in full on return; `call.response` says whether one was begun.
        """
        try:
            async with (
                asyncio.timeout(self._settings.request_timeout_seconds),
                self._session.post(
                    worker.url.rstrip("/") + call.path,
                    data=payload,
                    headers=headers,
                    allow_redirects=False,
                ) as answer,
            ):
                try:
                    return await self._pass_on(request, call, answer, shaped)
                except BaseException:
                    # A half-read connection must not go back to the pool, and the worker
                    # must see at once that nobody listens.
                    answer.close()
                    raise
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as error:
            raise AttemptError(Failure(RetryReason.CONNECT), _said(error)) from error
        except aiohttp.InvalidURL as error:
            raise AttemptError(Failure(RetryReason.CONNECT), _said(error)) from error
        except TimeoutError as error:
            raise AttemptError(Failure(RetryReason.TIMEOUT), "no answer in time") from error
        except (aiohttp.ClientError, OSError, OversizedEventError) as error:
            raise AttemptError(Failure(RetryReason.BROKEN), _said(error)) from error

    async def _pass_on(
        self, request: web.Request, call: Call, answer: aiohttp.ClientResponse, shaped: Shaped
    ) -> web.StreamResponse:
        failure = failure_of_status(answer.status)
        if failure is not None:
            raise AttemptError(failure, f"status {answer.status}")
        if answer.status == 200 and answer.content_type == "text/event-stream":
            return await self._stream(request, call, answer, shaped)
        return await self._whole(call, answer)

    async def _whole(self, call: Call, answer: aiohttp.ClientResponse) -> web.Response:
        body = await _read_bounded(answer)
        call.first_byte_at = self._clock.monotonic()
        is_good = answer.status < 400
        call.end(answer.status, RequestOutcome.OK if is_good else RequestOutcome.CLIENT_ERROR)
        if is_good:
            call.usage = _usage_in(body)
        headers = headers_for_client(answer.headers, call.own_headers())
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _stream(
        self, request: web.Request, call: Call, answer: aiohttp.ClientResponse, shaped: Shaped
    ) -> web.StreamResponse:
        sse = SseRelay(
            keep_last=shaped.client_wants_usage, keep_each=shaped.client_wants_continuous_usage
        )
        try:
            async for chunk in answer.content.iter_any():
                await self._emit(request, call, answer, sse=sse, data=sse.feed(chunk))
            await self._emit(request, call, answer, sse=sse, data=sse.finish())
            if call.response is None or not (sse.done or sse.error):
                raise AttemptError(Failure(RetryReason.BROKEN), "the stream ended early")
            is_good = sse.error is None
            call.end(200, RequestOutcome.OK if is_good else RequestOutcome.UPSTREAM_ERROR)
            await _guarded(call.response.write_eof())
            return call.response
        finally:
            call.usage = sse.usage
            call.estimated = call.usage is not None and not (sse.done or sse.has_final_usage)

    async def _emit(
        self,
        request: web.Request,
        call: Call,
        answer: aiohttp.ClientResponse,
        *,
        sse: SseRelay,
        data: bytes,
    ) -> None:
        """Send `data`, after the headers if it is the first; waits for a slow client."""
        if not data:
            return
        if call.response is None:
            if sse.error is not None:
                said = str(sse.error.get("message"))[:200]
                raise AttemptError(_failure_told(sse.error), said)
            call.first_byte_at = self._clock.monotonic()
            headers = headers_for_client(answer.headers, call.own_headers())
            call.response = web.StreamResponse(status=200, headers=headers)
            await _guarded(call.response.prepare(request))
        await _guarded(call.response.write(data))


def session_of(settings: GatewaySettings) -> aiohttp.ClientSession:
    """Return the one HTTP client of this process; to be closed by the caller."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_CONNECTION_SECONDS),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    )


async def _guarded(sending: Any) -> None:
    try:
        await sending
    except ConnectionError as error:
        raise ClientGoneError(str(error)) from error


async def _read_bounded(answer: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > _MAX_ANSWER_BYTES:
            raise AttemptError(Failure(RetryReason.BROKEN), "the answer is too large")
    return b"".join(parts)


def _failure_told(error: dict[str, Any]) -> Failure:
    code = error.get("code")
    told = failure_of_status(code) if isinstance(code, int) and code < 600 else None
    return told or Failure(RetryReason.STATUS_5XX, 500)


def _usage_in(body: bytes) -> Any:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return usage_of(answer.get("usage")) if isinstance(answer, dict) else None


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
