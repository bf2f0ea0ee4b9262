"""A bounded load generator, for trying out policies on this machine."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from ds4watch.model.errors import ConfigError, EdgeReason, Located, UpstreamError
from ds4watch.model.ports import Clock
from ds4watch.model.usage import Usage
from ds4watch.sim.text import words

MAX_CONCURRENCY = 512
MAX_SECONDS = 600.0
MAX_REQUESTS = 100_000
DEGRADED_HEADER = "x-ds4-degraded"
_SHED = frozenset({429, 503})
_NO_STATUS = "no answer"


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What to send. A prompt has about `prompt_tokens` bytes, a token each for a byte tokenizer."""

    url: str = "http://127.0.0.1:8400"
    model: str | None = None
    concurrency: int = 16
    seconds: float = 30.0
    requests: int = MAX_REQUESTS
    prompt_tokens: int = 64
    max_tokens: int = 64
    stream: bool = True
    shared_prefix_ratio: float = 0.5
    seed: int = 1
    timeout_seconds: float = 120.0


@dataclass(slots=True)
class LoadSummary:
    """What came back. `errors` counts answers other than 200 by status, sheds included."""

    requests: int = 0
    ok: int = 0
    shed: int = 0
    degraded: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    latencies_seconds: list[float] = field(default_factory=list)
    elapsed_seconds: float = 0.0

    def percentile(self, percent: int) -> float | None:
        """Return a percentile of the latency of good answers, None without any (nearest rank)."""
        ordered = sorted(self.latencies_seconds)
        if not ordered:
            return None
        return ordered[max(0, -(-percent * len(ordered) // 100) - 1)]

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict."""
        elapsed = self.elapsed_seconds or None
        return {
            "requests": self.requests,
            "ok": self.ok,
            "errors": dict(sorted(self.errors.items())),
            "shed": self.shed,
            "degraded": self.degraded,
            "p50_seconds": self.percentile(50),
            "p95_seconds": self.percentile(95),
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "completion_tokens": self.completion_tokens,
            "elapsed_seconds": round(self.elapsed_seconds, 3),
            "requests_per_second": round(self.requests / elapsed, 2) if elapsed else None,
            "tokens_per_second": round(self.completion_tokens / elapsed, 1) if elapsed else None,
        }


def check(settings: LoadSettings) -> None:
    """Raise ConfigError for what would be too much, or for another machine than this one."""
    findings = [
        Located(f"{value} is outside {low}..{high}", field=flag)
        for flag, value, low, high in (
            ("--concurrency", settings.concurrency, 1, MAX_CONCURRENCY),
            ("--seconds", settings.seconds, 0.1, MAX_SECONDS),
            ("--requests", settings.requests, 1, MAX_REQUESTS),
            ("--shared-prefix-ratio", settings.shared_prefix_ratio, 0, 1),
            ("--prompt-tokens", settings.prompt_tokens, 1, 1 << 20),
            ("--max-tokens", settings.max_tokens, 1, 1 << 20),
        )
        if not low <= value <= high
    ]
    if not _is_loopback(settings.url):
        findings.append(
            Located(
                f"{settings.url} is not on this machine, and load is sent to loopback only",
                field="--url",
                mend="use http://127.0.0.1:PORT",
            )
        )
    if findings:
        raise ConfigError(*findings)


def _is_loopback(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.scheme in {"http", "https"} and (
            host == "localhost" or ipaddress.ip_address(host).is_loopback
        )
    except ValueError:
        return False


def prompt(settings: LoadSettings, number: int) -> str:
    """Return the prompt of a request: a part that all share, and one of its own."""
    shared = round(settings.prompt_tokens * settings.shared_prefix_ratio)
    salt = f"load {settings.seed}"
    head = words(f"{salt} shared".encode(), shared)
    # The number leads, so that two prompts part at the first character.
    tail = f"{number} " + words(f"{salt} {number}".encode(), settings.prompt_tokens)
    return head + tail[: settings.prompt_tokens - shared]


class LoadRun:
    """One run. `on_progress` is called after each answer."""

    def __init__(
        self,
        settings: LoadSettings,
        clock: Clock,
        on_progress: Callable[[LoadSummary], None] = lambda _: None,
    ) -> None:
        check(settings)
        self.summary = LoadSummary()
        self._settings = settings
        self._clock = clock
        self._on_progress = on_progress
        self._sent = 0

    async def run(self) -> LoadSummary:
        """Send the load and wait for the last answer. Raises UpstreamError if nobody listens."""
        settings = self._settings
        timeout = aiohttp.ClientTimeout(total=settings.timeout_seconds)
        connector = aiohttp.TCPConnector(limit=settings.concurrency)
        async with aiohttp.ClientSession(
            settings.url, timeout=timeout, connector=connector
        ) as session:
            model = settings.model or await first_model(session, settings.url)
            started_at = self._clock.monotonic()
            deadline = started_at + settings.seconds
            await asyncio.gather(
                *(self._client(session, model, deadline) for _ in range(settings.concurrency))
            )
            self.summary.elapsed_seconds = self._clock.monotonic() - started_at
        return self.summary

    async def _client(self, session: aiohttp.ClientSession, model: str, deadline: float) -> None:
        while self._clock.monotonic() < deadline and self._sent < self._settings.requests:
            self._sent += 1
            await self._request(session, model, self._sent)
            self._on_progress(self.summary)

    async def _request(self, session: aiohttp.ClientSession, model: str, number: int) -> None:
        summary = self.summary
        started_at = self._clock.monotonic()
        summary.requests += 1
        try:
            async with session.post(
                "/v1/chat/completions", json=self._body(model, number)
            ) as response:
                body = await response.read()
                self._count(response, body, self._clock.monotonic() - started_at)
        except aiohttp.ClientConnectorError as error:
            raise _nobody_listens(self._settings.url) from error
        except (aiohttp.ClientError, TimeoutError):
            summary.errors[_NO_STATUS] += 1

    def _body(self, model: str, number: int) -> dict[str, Any]:
        settings = self._settings
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": prompt(settings, number)}],
            "max_tokens": settings.max_tokens,
            "stream": settings.stream,
        }
        if settings.stream:
            body["stream_options"] = {"include_usage": True}
        return body

    def _count(self, response: aiohttp.ClientResponse, body: bytes, seconds: float) -> None:
        summary = self.summary
        summary.degraded += DEGRADED_HEADER in response.headers
        if response.status != 200:
            summary.errors[str(response.status)] += 1
            summary.shed += response.status in _SHED
            return
        usage = usage_of(body, stream=self._settings.stream)
        if usage is None:
            # A stream that broke off, or an error that came after the 200.
            summary.errors["broken"] += 1
            return
        summary.ok += 1
        summary.latencies_seconds.append(seconds)
        summary.prompt_tokens += usage.prompt
        summary.cached_tokens += usage.cached
        summary.completion_tokens += usage.completion


def usage_of(body: bytes, *, stream: bool) -> Usage | None:
    """Return the usage that an answer ends with; None if it is not there."""
    if stream:
        lines = [line for line in body.split(b"\n") if line.startswith(b"data: {")]
        body = lines[-1].removeprefix(b"data: ") if lines else b""
    try:
        data = json.loads(body)
        usage = data["usage"]
        details = usage.get("prompt_tokens_details") or {}
        return Usage(
            prompt=int(usage["prompt_tokens"]),
            cached=int(details.get("cached_tokens") or 0),
            completion=int(usage["completion_tokens"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


async def first_model(session: aiohttp.ClientSession, url: str) -> str:
    """Ask for the models; return the first without a dash (a pool's name), else the first."""
    try:
        async with session.get("/v1/models") as response:
            data = await response.json(content_type=None)
            names = [str(card["id"]) for card in data["data"]]
            return next((name for name in names if "-" not in name), names[0])
    except aiohttp.ClientConnectorError as error:
        raise _nobody_listens(url) from error
    except (
        aiohttp.ClientError,
        TimeoutError,
        ValueError,
        KeyError,
        TypeError,
        IndexError,
    ) as error:
        message = f"{url}/v1/models lists no model: name one with --model"
        raise UpstreamError(message, reason=EdgeReason.BODY) from error


def _nobody_listens(url: str) -> UpstreamError:
    message = f"nobody listens on {url}: start the gateway with `ds4watch up`, or give --url"
    return UpstreamError(message, reason=EdgeReason.CONNECT, retryable=True)
