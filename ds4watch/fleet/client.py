"""The one client of a worker's HTTP API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from ds4watch.fleet.own_use import OwnUse, OwnWork
from ds4watch.fleet.warm_up import TOKENS, Kind, Request
from ds4watch.fleet.worker_answers import (
    Answer,
    Streamed,
    actual_logprob,
    at,
    first_choice,
    greedy_steps,
    listed,
    position_of,
    unusable,
    whole,
)
from ds4watch.model.errors import EdgeReason, NoNumberError, WorkerError
from ds4watch.quality.distributions import Position
from ds4watch.quality.fingerprint import Step

CANARY_PROMPT = "ds4watch asks whether this worker can still generate text."
CANARY_TOKENS = 4
_WARM_UP_SECONDS = 3600.0
_ANSWER_SECONDS = 600.0
"""A golden question may have to wait behind users' requests."""
_MAX_BODY_BYTES = 32 << 20
"""Log-probabilities of a prompt take about 100 bytes a token; 200,000 tokens fit."""
_SHOWN_BODY_CHARACTERS = 200
_UNAUTHORIZED = ": its API key is missing or another one (api_key_file, api_key_env)"
_NO_NUMBER = b"Out of range float values"
"""What vLLM says of an answer with NaN in it, as JSON has none."""


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """A worker's answer to the fixed canary: it generated `completion_tokens` tokens."""

    text: str
    completion_tokens: int
    took_seconds: float


def open_session() -> aiohttp.ClientSession:
    """Return a session for all workers; whoever opens it closes it."""
    return aiohttp.ClientSession()


class WorkerClient:
    """Talks to one worker. Every method raises WorkerError and nothing else, unless it says so.

    timeout_seconds bounds short calls; generation_timeout_seconds bounds calls that have to wait
    for the engine (canary, log-probabilities, sleep and wake).
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        *,
        timeout_seconds: float = 5.0,
        generation_timeout_seconds: float = 30.0,
        max_body_bytes: int = _MAX_BODY_BYTES,
        own: OwnUse | None = None,
        api_key: str = "",
    ) -> None:
        self._session = session
        self._own = OwnUse() if own is None else own
        self._base = url.rstrip("/")
        self._timeout_seconds = timeout_seconds
        self._generation_timeout_seconds = generation_timeout_seconds
        self._max_body_bytes = max_body_bytes
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else None

    async def health(self) -> bool:
        """Return whether /health says 200. Never raises; proves nothing about generation."""
        try:
            await self._call("GET", "/health")
        except WorkerError:
            return False
        return True

    async def models(self) -> tuple[str, ...]:
        """Return the model names that the worker serves, its own first."""
        answer = await self._call("GET", "/v1/models")
        return tuple(str(at(model, "id")) for model in listed(answer, "data"))

    async def version(self) -> str:
        """Return the engine's version."""
        return str(at(await self._call("GET", "/version"), "version"))

    async def canary(self, model: str) -> CanaryResult:
        """Have the worker generate a few tokens, greedily, and check that it did."""
        started = asyncio.get_running_loop().time()
        options = {"max_tokens": CANARY_TOKENS}
        answer = await self._generate(OwnWork.CANARY, model, CANARY_PROMPT, options)
        took = asyncio.get_running_loop().time() - started
        tokens = whole(at(answer, "usage"), "completion_tokens")
        if tokens < 1:
            raise unusable("the canary's answer has no tokens")
        return CanaryResult(str(at(first_choice(answer), "text")), tokens, took)

    async def warm_up(self, model: str, request: Request) -> None:
        """Have a warm-up request answered, whatever the answer; the caller bounds the time."""
        options: dict[str, Any] = {"max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
        if request.priority is not None:
            options["priority"] = request.priority
        path, asked = "/v1/completions", dict[str, Any](prompt=request.prompt)
        if request.kind is Kind.LOGPROBS:
            options["logprobs"] = 1
        if request.kind is Kind.CHAT:
            messages = [{"role": "user", "content": request.prompt}]
            path, asked = "/v1/chat/completions", {"messages": messages}
        body = {"model": model, "stream": False, **asked, **options}
        answer = await self._call("POST", path, body=body, within_seconds=_WARM_UP_SECONDS)
        self._own.note(self._base, OwnWork.WARM_UP, answer)

    async def tokenize(self, model: str, text: str) -> int:
        """Return how many tokens `text` is, without a chat template."""
        return whole(
            await self._call("POST", "/tokenize", body={"model": model, "prompt": text}), "count"
        )

    async def prompt_logprobs(self, model: str, prompt: str) -> list[float]:
        """Return the natural log-probability of each token of `prompt` after the first.

        Costs a full prefill: vLLM uses no cached prefix when it has to score the prompt.
        """
        options = {"max_tokens": 1, "prompt_logprobs": 0}
        answer = await self._generate(OwnWork.QUALITY, model, prompt, options)
        positions = listed(first_choice(answer), "prompt_logprobs")
        return [actual_logprob(position) for position in positions[1:]]

    async def prompt_positions(self, model: str, prompt: str, top: int) -> list[Position]:
        """Return the same with the `top` likeliest tokens of each place."""
        options = {"max_tokens": 1, "prompt_logprobs": top}
        answer = await self._generate(OwnWork.QUALITY, model, prompt, options)
        return [position_of(it) for it in listed(first_choice(answer), "prompt_logprobs")[1:]]

    async def greedy(self, model: str, prompt: str, *, tokens: int, top: int) -> tuple[Step, ...]:
        """Return what the worker generates greedily, with the likeliest tokens of each step."""
        options = {"max_tokens": tokens, "logprobs": top, "seed": 0}
        answer = await self._generate(OwnWork.CANARY, model, prompt, options)
        return greedy_steps(at(first_choice(answer), "logprobs"))

    async def answer(
        self, model: str, prompt: str, *, max_tokens: int, priority: int | None, chat: bool
    ) -> Answer:
        """Have a question answered greedily, as a chat or not; streamed, to time the first token.

        priority: None if the engine refuses one.
        """
        options: dict[str, Any] = {"max_tokens": max_tokens, "temperature": 0, "seed": 0}
        if priority is not None:
            options["priority"] = priority
        path, asked = "/v1/completions", dict[str, Any](prompt=prompt)
        if chat:
            messages = [{"role": "user", "content": prompt}]
            path, asked = "/v1/chat/completions", {"messages": messages}
        usage = {"stream": True, "stream_options": {"include_usage": True}}
        body = {"model": model, **asked, **options, **usage}
        streamed, started = Streamed(), asyncio.get_running_loop().time()
        async with self._opened("POST", path, body=body, within_seconds=_ANSWER_SECONDS) as it:
            if it.status != 200:
                _parsed(await self._read(it), it.status, f"POST {path}")
            size = 0
            async for line in it.content:
                size += len(line)
                if size > self._max_body_bytes:
                    message = f"the worker's answer is over {self._max_body_bytes} bytes"
                    raise WorkerError(message, reason=EdgeReason.TOO_LARGE)
                streamed.take(line, asyncio.get_running_loop().time() - started)
        self._own.note(self._base, OwnWork.QUALITY, {"usage": streamed.usage})
        return streamed.answer(asyncio.get_running_loop().time() - started)

    async def sleep(self, level: int, mode: str = "wait") -> None:
        """Put the worker to sleep; `wait` lets running requests end, vLLM's default aborts them."""
        await self._engine_call("/sleep", {"level": str(level), "mode": mode})

    async def wake(self) -> None:
        """Wake the worker."""
        await self._engine_call("/wake_up", {})

    async def is_sleeping(self) -> bool:
        """Return whether the worker sleeps."""
        return bool(at(await self._call("GET", "/is_sleeping"), "is_sleeping"))

    async def reset_prefix_cache(self) -> bool:
        """Empty the prefix cache; False while blocks of it are in use."""
        return at(await self._call("POST", "/reset_prefix_cache"), "success") is True

    async def _generate(
        self, work: OwnWork, model: str, prompt: str, options: Mapping[str, Any]
    ) -> Any:
        body = {"model": model, "prompt": prompt, "temperature": 0, "stream": False, **options}
        answer = await self._call(
            "POST", "/v1/completions", body=body, within_seconds=self._generation_timeout_seconds
        )
        self._own.note(self._base, work, answer)
        return answer

    async def _engine_call(self, path: str, query: Mapping[str, str]) -> None:
        limit = self._generation_timeout_seconds
        await self._call("POST", path, query=query, within_seconds=limit)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        within_seconds: float | None = None,
    ) -> Any:
        opened = self._opened(method, path, body=body, query=query, within_seconds=within_seconds)
        async with opened as response:
            content = await self._read(response)
            status = response.status
        return _parsed(content, status, f"{method} {path}")

    @asynccontextmanager
    async def _opened(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        within_seconds: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; what goes wrong until its answer is read is raised as WorkerError."""
        try:
            async with self._session.request(
                method,
                URL(self._base + path),
                json=body,
                params=query,
                headers=self._headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=within_seconds or self._timeout_seconds),
            ) as response:
                yield response
        except WorkerError:
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _mapped(error, method, path) from error

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        content = bytearray()
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > self._max_body_bytes:
                message = f"the worker's answer is over {self._max_body_bytes} bytes"
                raise WorkerError(message, reason=EdgeReason.TOO_LARGE)
        return bytes(content)


def _mapped(error: Exception, method: str, path: str) -> WorkerError:
    """Return the one error of ours that stands for `error`."""
    match error:
        case TimeoutError():
            reason, what = EdgeReason.TIMEOUT, "no answer in time"
        case aiohttp.ClientConnectorError():
            reason, what = EdgeReason.CONNECT, "cannot connect"
        case aiohttp.ClientPayloadError():
            reason, what = EdgeReason.BODY, "the answer broke off"
        case aiohttp.ClientConnectionError() | OSError():
            reason, what = EdgeReason.GONE, "the connection was lost"
        case _:
            reason, what = EdgeReason.OTHER, "the request failed"
    message = f"{method} {path}: {what} ({error or type(error).__name__})"
    return WorkerError(message, reason=reason, retryable=reason is not EdgeReason.OTHER)


def _parsed(content: bytes, status: int, call: str) -> Any:
    if status != 200:
        shown = content[:_SHOWN_BODY_CHARACTERS].decode(errors="replace").strip()
        retryable = status >= 500 or status == 429
        hint = _UNAUTHORIZED if status == 401 else ""
        message = f"{call}: status {status} {shown}".rstrip() + hint
        if status == 400 and _NO_NUMBER in content:
            raise NoNumberError(message, reason=EdgeReason.STATUS)
        raise WorkerError(message, reason=EdgeReason.STATUS, retryable=retryable)
    if not content:
        return None
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        message = f"{call}: the answer is not JSON"
        raise WorkerError(message, reason=EdgeReason.PARSE) from error
