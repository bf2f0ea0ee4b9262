"""One prometheus-api-client in a thread of its own: the library waits, the daemon must not."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from typing import Any, Final, TypeVar

import requests
import urllib3
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from ds4watch.alerting.remote import Answer
from ds4watch.model.errors import EdgeReason, ScrapeError, SourceError
from ds4watch.scrape.credentials import Authorization
from ds4watch.scrape.remote_answer import bad_status, read_answer
from ds4watch.scrape.remote_failures import failure_of
from ds4watch.scrape.remote_plan import RemoteOptions

_CHUNK_BYTES: Final = 1 << 16
_LONG_QUERY_CHARS: Final = 2000
"""Longer ones are sent in a body: proxies limit addresses."""
_MOST_WAIT_SECONDS: Final = 3600.0
_FAILURES: Final = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    SourceError,
    ScrapeError,
    OSError,
    ValueError,
)
T = TypeVar("T")


class Line:
    """A thread with a connection to the server; does one thing at a time.

    The thread is a daemon's: a server that never ends its answer does not hold up an exit.
    """

    def __init__(self, options: RemoteOptions, number: int) -> None:
        self._options = options
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._session = _Session(options)
        self._client = PrometheusConnect(
            options.url, headers=dict(options.headers), session=self._session, retry=Retry(0)
        )
        self._session.mount(options.url, _Adapter(self._session))
        threading.Thread(target=self._work, name=f"source-{number}", daemon=True).start()

    def close(self) -> None:
        """End the thread, once it has done what it does."""
        self._jobs.put(None)

    def query(self, text: str, at: float, seconds: float) -> Future[Answer]:
        """Ask for an expression's value at an instant. The future may raise SourceError."""
        return self._do(lambda: self._query(text, at, seconds))

    def get(self, path: str, seconds: float) -> Future[Any]:
        """Ask for something else, as it is decoded. The future may raise SourceError."""
        return self._do(lambda: self._get(path, seconds))

    def _do(self, act: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            try:
                future.set_result(act())
            except Exception as error:  # noqa: BLE001 - whoever waits is to know
                future.set_exception(error)

        future.set_running_or_notify_cancel()
        self._jobs.put(work)
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
        self._session.close()

    def _query(self, text: str, at: float, seconds: float) -> Answer:
        # VictoriaMetrics moves an instant that is near into the past, unless told not to.
        params = {
            "time": f"{at:.3f}",
            "timeout": f"{max(1, round(seconds * 1000))}ms",
            "nocache": "1",
        }
        found = self._told(seconds, lambda: self._client.custom_query(text, params=params))
        return read_answer(found)

    def _get(self, path: str, seconds: float) -> Any:
        headers = dict(self._options.headers)
        url = self._options.url + path
        return self._told(seconds, lambda: self._session.request("GET", url, headers=headers))

    def _told(self, seconds: float, ask: Callable[[], object]) -> Any:
        """Return the decoded answer. The library's own result leaves warnings out."""
        self._session.begin(seconds)
        try:
            ask()
        except (PrometheusApiClientException, LookupError, TypeError):
            pass  # the answer says more than that
        except _FAILURES as error:
            raise failure_of(error, seconds) from error
        reply = self._session.reply
        if reply is None:
            raise SourceError("no answer", reason=EdgeReason.OTHER)
        if reply.status_code != 200:
            raise bad_status(reply.status_code, reply.decoded(), reply.wait_seconds())
        return reply.json()


class _Reply:
    """An answer, read as a whole: what the library wants of one, and what it drops."""

    def __init__(self, response: requests.Response) -> None:
        self.status_code = response.status_code
        self.content = response.content
        self._after = response.headers.get("Retry-After", "")
        self._decoded: Any = None

    def json(self) -> Any:
        """Return the body, decoded, once. Raises SourceError if it is not JSON."""
        if self._decoded is None:
            try:
                self._decoded = json.loads(self.content)
            except (ValueError, RecursionError) as error:
                message = "the answer is not JSON: check source.url"
                raise SourceError(message, reason=EdgeReason.PARSE) from error
        return self._decoded

    def decoded(self) -> Any:
        """Return the body, decoded, or None if it is not JSON."""
        try:
            return self.json()
        except SourceError:
            return None

    def wait_seconds(self) -> float:
        """Return for how long the server wants to be left alone; dates are not read."""
        return min(float(self._after), _MOST_WAIT_SECONDS) if self._after.isdecimal() else 0.0


class _Session(requests.Session):
    """Bounds answers in size and time, follows no redirect, reads secrets anew, keeps replies."""

    def __init__(self, options: RemoteOptions) -> None:
        super().__init__()
        self.trust_env = False  # or ~/.netrc would replace our own credentials
        self.verify = options.verify if isinstance(options.verify, bool) else str(options.verify)
        if options.own is not None:
            self.cert = (str(options.own[0]), str(options.own[1]))
        if options.verify is False:
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self.reply: _Reply | None = None
        self.limit_bytes = options.max_body_bytes
        self._authorization = Authorization(options.credentials)
        self._until = 0.0

    def begin(self, seconds: float) -> None:
        """Get ready for one question that may take so long."""
        self.reply = None
        self._until = time.monotonic() + seconds

    def check_time(self) -> None:
        """Raise SourceError if the question takes too long."""
        if time.monotonic() > self._until:
            raise SourceError("no answer in time", reason=EdgeReason.TIMEOUT, retryable=True)

    def request(self, method: str, url: str, **named: Any) -> Any:  # type: ignore[override]  # a reply
        """Send one request; keep its reply, and return it."""
        params = named.get("params") or {}
        if len(params.get("query", "")) > _LONG_QUERY_CHARS:
            method, named["data"], named["params"] = "POST", params, None
        named["headers"] = {**(named.get("headers") or {}), **self._login()}
        named["timeout"] = max(0.001, self._until - time.monotonic())
        named["allow_redirects"] = False
        with closing(super().request(method, url, stream=True, **named)) as response:
            self.reply = _Reply(response)
        return self.reply

    def _login(self) -> dict[str, str]:
        name, _, value = self._authorization.header().decode().strip().partition(": ")
        return {name: value} if name else {}


class _Adapter(HTTPAdapter):
    """Hands out answers whose bodies are bounded."""

    def __init__(self, session: _Session) -> None:
        super().__init__(max_retries=Retry(0, read=False))
        self._session = session

    def send(self, *given: Any, **named: Any) -> requests.Response:
        """Send, and bound what comes back."""
        response = super().send(*given, **named)
        response.raw = _Bounded(response.raw, self._session)
        return response


class _Bounded:
    """A body of which no more is read than is allowed, for no longer."""

    def __init__(self, raw: Any, session: _Session) -> None:
        self._raw = raw
        self._session = session

    def stream(self, amt: int, *, decode_content: bool = True) -> Any:
        """Yield the body. Raises SourceError if it is too large, or takes too long."""
        del amt
        size = 0
        while chunk := self._raw.read1(_CHUNK_BYTES, decode_content=decode_content):
            size += len(chunk)
            if size > self._session.limit_bytes:
                message = f"the answer is larger than {self._session.limit_bytes} bytes"
                message += ": raise source.max_body_bytes if that is right"
                self._raw.close()
                raise SourceError(message, reason=EdgeReason.TOO_LARGE)
            self._session.check_time()
            yield chunk

    def close(self) -> None:
        """Close the connection."""
        self._raw.close()

    def release_conn(self) -> None:
        """Give the connection back."""
        self._raw.release_conn()
