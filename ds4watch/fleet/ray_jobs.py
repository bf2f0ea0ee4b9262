"""Ray's Jobs API over HTTP: submit, look, stop, delete, follow the log."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from ds4watch.model.errors import EdgeReason, WorkerError

_TIMEOUT_SECONDS = 10.0
_MAX_ANSWER_BYTES = 16 << 20
_MAX_LINES_BYTES = 4 << 20
_RUNS = ("PENDING", "RUNNING")


@dataclass(frozen=True, slots=True)
class Job:
    """A job as Ray tells of it."""

    id: str
    status: str
    message: str = ""
    exit_code: int | None = None
    metadata: Mapping[str, str] | None = None

    @property
    def is_running(self) -> bool:
        """Whether it runs, or will when the cluster has room."""
        return self.status in _RUNS


class RayJobs:
    """A client of one cluster's dashboard."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str | None = None) -> None:
        self._session = session
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    async def submit(self, job: Mapping[str, Any]) -> None:
        """Submit a job. Raises WorkerError."""
        await self._ask("POST", "/api/jobs/", job)

    async def jobs(self) -> list[Job]:
        """Return all jobs of the cluster that came by this API. Raises WorkerError."""
        found = await self._ask("GET", "/api/jobs/") or []
        return [_job(it) for it in found if it.get("submission_id")]

    async def job(self, job_id: str) -> Job | None:
        """Return a job; None if the cluster knows it no more. Raises WorkerError."""
        found = await self._ask("GET", f"/api/jobs/{job_id}")
        return None if found is None else _job(found)

    async def stop(self, job_id: str) -> None:
        """Begin to stop a job. Raises WorkerError."""
        await self._ask("POST", f"/api/jobs/{job_id}/stop")

    async def delete(self, job_id: str) -> None:
        """Have the cluster forget a job that has ended. Raises WorkerError."""
        await self._ask("DELETE", f"/api/jobs/{job_id}")

    async def log(self, job_id: str) -> AsyncIterator[str]:
        """Yield a job's output from its beginning, as it comes, until it ends or is cut off."""
        address = f"{self._url}/api/jobs/{job_id}/logs/tail"
        try:
            async with self._session.ws_connect(
                address, headers=self._headers, max_msg_size=_MAX_LINES_BYTES, heartbeat=30.0
            ) as stream:
                async for message in stream:
                    if message.type is not aiohttp.WSMsgType.TEXT:
                        return
                    yield message.data
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(self._url, error) from error

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer's JSON; None if what is asked for is not known."""
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        try:
            async with self._session.request(
                method, self._url + path, json=body, headers=self._headers, timeout=timeout
            ) as answer:
                status, raw = answer.status, await _bounded(answer)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise _unreachable(self._url, error) from error
        if status == 404:
            return None
        if status >= 400:
            raise WorkerError(
                f"Ray refuses {method} {path} ({status}): {_last_line(raw)}",
                reason=EdgeReason.STATUS,
                retryable=status >= 500,
            )
        try:
            return json.loads(raw)
        except ValueError as error:
            message = f"{self._url} is no Jobs API of Ray: {_last_line(raw)}"
            raise WorkerError(message, reason=EdgeReason.PARSE) from error


def open_session() -> aiohttp.ClientSession:
    """Return a session for the cluster."""
    return aiohttp.ClientSession()


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    """Return the body. Raises WorkerError if it is too long."""
    parts, size = [], 0
    async for part in answer.content.iter_chunked(1 << 16):
        size += len(part)
        if size > _MAX_ANSWER_BYTES:
            message = f"Ray's answer is longer than {_MAX_ANSWER_BYTES} bytes"
            raise WorkerError(message, reason=EdgeReason.TOO_LARGE)
        parts.append(part)
    return b"".join(parts)


def _unreachable(url: str, error: Exception) -> WorkerError:
    why = str(error) or type(error).__name__
    return WorkerError(
        f"Ray cannot be asked at {url}: {why}", reason=EdgeReason.CONNECT, retryable=True
    )


def _last_line(raw: bytes) -> str:
    """Return where a traceback says what is wrong."""
    lines = raw[-4096:].decode(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else "no reason given"


def _job(data: Mapping[str, Any]) -> Job:
    return Job(
        id=str(data.get("submission_id")),
        status=str(data.get("status")),
        message=str(data.get("message") or ""),
        exit_code=data.get("driver_exit_code"),
        metadata=data.get("metadata") or {},
    )
