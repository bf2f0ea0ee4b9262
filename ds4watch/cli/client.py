"""The command line's way to the admin API. Standard library only: no proxy, no redirects."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ds4watch.model.errors import ConfigError, Ds4watchError, Located

TIMEOUT_SECONDS = 10.0
MAX_ANSWER_BYTES = 64 << 20
API = "/api/ds4/v1"


class AdminError(Ds4watchError):
    """The daemon is not there, or says no; the message is one line for a person."""


class AdminClient:
    """Asks one daemon; one connection for each request."""

    def __init__(
        self, url: str, token: str | None = None, *, certificate: str | None = None
    ) -> None:
        """`certificate`: of the daemon, in PEM, where no authority known here vouches for it."""
        self._certificate = certificate
        parts = urlsplit(url)
        self.url = url
        self._token = token
        self._host = parts.hostname or ""
        self._scheme = parts.scheme
        self._port = _port_of(url)

    def status(self) -> dict[str, Any]:
        """Return the state of everything. Raises AdminError."""
        found: dict[str, Any] = self._ask("GET", "/status")
        return found

    def audit(self, *, limit: int, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the newest audit rows, newest first. Raises AdminError."""
        query = _query(limit=limit, kind=kind)
        rows: list[dict[str, Any]] = self._ask("GET", f"/audit{query}")["audit"]
        return rows

    def alerts(self, **wanted: str | bool | None) -> list[dict[str, Any]]:
        """Return alerts by name, phase, severity, silenced. Raises AdminError."""
        return self._all("/alerts", "alerts", **wanted)

    def silences(self, *, over: bool) -> list[dict[str, Any]]:
        """Return the silences in force and to come, with `over` the last ones too."""
        return self._all("/silences", "silences", over=over)

    def silence(self, body: dict[str, Any]) -> dict[str, Any]:
        """Place a silence and return it. Raises AdminError."""
        placed: dict[str, Any] = self._ask("POST", "/silences", body)
        return placed

    def unsilence(self, silence: str, *, who: str, dry_run: bool) -> str:
        """End a silence; of a dry run, return what would follow. Raises AdminError."""
        return self._end(f"/silences/{quote(silence, safe='')}", who=who, dry_run=dry_run)

    def actions(self, *, limit: int, **wanted: str | None) -> list[dict[str, Any]]:
        """Return the newest actions by status, kind, target. Raises AdminError."""
        query = _query(limit=limit, **wanted)
        rows: list[dict[str, Any]] = self._ask("GET", f"/actions{query}")["actions"]
        return rows

    def page_link(self) -> str:
        """Return an address that lets a browser in, once. Raises AdminError."""
        return self.url + str(self._ask("POST", "/session")["path"])

    def cost(self, start_at: float, end_at: float) -> dict[str, Any]:
        """Return what was spent in the hours from `start_at` on. Raises AdminError."""
        query = urlencode({"start_at": start_at, "end_at": end_at})
        found: dict[str, Any] = self._ask("GET", f"/cost?{query}")
        return found

    def cost_why(self, at: float | None) -> dict[str, Any]:
        """Return why an hour (the running one) is unlike others. Raises AdminError."""
        query = f"?{urlencode({'at': at})}" if at is not None else ""
        found: dict[str, Any] = self._ask("GET", f"/cost/why{query}")
        return found

    def requests(self, *, by: str, hours: int) -> dict[str, Any]:
        """Return what was asked and what it cost. Raises AdminError."""
        query = urlencode({"by": by, "hours": hours})
        found: dict[str, Any] = self._ask("GET", f"/requests?{query}")
        return found

    def report(self, period: str, *, tell: bool) -> dict[str, Any]:
        """Return a report of the last day or week; tell it to all channels. Raises AdminError."""
        found: dict[str, Any] = self._ask("POST" if tell else "GET", f"/reports/{period}")
        return found

    def explain(self, name: str) -> list[dict[str, Any]]:
        """Return what the rules of a name see now. Raises AdminError."""
        rules: list[dict[str, Any]] = self._ask("GET", f"/rules/{quote(name, safe='')}")["rules"]
        return rules

    def hold(self, target: str, body: dict[str, Any]) -> dict[str, Any]:
        """Place a hold and return it. Raises AdminError."""
        placed: dict[str, Any] = self._ask("PUT", f"/holds/{quote(target, safe='')}", body)
        return placed

    def act(self, body: dict[str, Any]) -> dict[str, Any]:
        """Ask for an action; return the command. Raises AdminError."""
        asked: dict[str, Any] = self._ask("POST", "/actions", body)
        return asked

    def decide(self, action: str, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Approve, refuse or undo an action; return the command. Raises AdminError."""
        path = f"/actions/{quote(action, safe='')}/{verb}"
        asked: dict[str, Any] = self._ask("POST", path, body)
        return asked

    def command(self, number: int) -> dict[str, Any]:
        """Return what came of a command. Raises AdminError."""
        found: dict[str, Any] = self._ask("GET", f"/commands/{number}")
        return found

    def explain_policy(self, labels: dict[str, str]) -> dict[str, Any]:
        """Return what alerts with these labels lead to now. Raises AdminError."""
        query = urlencode([("label", f"{name}={value}") for name, value in labels.items()])
        found: dict[str, Any] = self._ask("GET", f"/policy/explain?{query}")
        return found

    def steer(self, worker: str, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        """Ask something of a worker and return what follows. Raises AdminError."""
        path = f"/workers/{quote(worker, safe='')}/{verb}"
        told: dict[str, Any] = self._ask("POST", path, body)
        return told

    def apply(
        self, *, file: str | None, plan: str | None, dry_run: bool, who: str, why: str
    ) -> dict[str, Any]:
        """Plan a change of the fleet, begin it unless `dry_run`; return the plan.

        Raises AdminError.
        """
        body = {"file": file, "plan": plan, "dry_run": dry_run, "who": who, "why": why}
        planned: dict[str, Any] = self._ask("POST", "/fleet/apply", body)
        return planned

    def forecast(self, hours: float) -> dict[str, Any]:
        """Return the load of the next hours by profile. Raises AdminError."""
        found: dict[str, Any] = self._ask("GET", f"/fleet/forecast?hours={hours:g}")
        return found

    def change(self) -> dict[str, Any] | None:
        """Return the rolling change under way, or the last. Raises AdminError."""
        found: dict[str, Any] | None = self._ask("GET", "/fleet/change")["change"]
        return found

    def steer_change(self, verb: str, body: dict[str, Any]) -> str:
        """Pause, resume or abort the change; return what follows. Raises AdminError."""
        return str(self._ask("POST", f"/fleet/{verb}", body)["told"])

    def keys(self) -> list[dict[str, Any]]:
        """Return the API keys of the gateway. Raises AdminError."""
        found: list[dict[str, Any]] = self._ask("GET", "/keys")["keys"]
        return found

    def add_key(self, body: dict[str, Any]) -> str:
        """Let a new key in; return what follows. Raises AdminError."""
        return str(self._ask("POST", "/keys", body)["told"])

    def change_key(self, name: str, verb: str, body: dict[str, Any]) -> str:
        """Revoke or rotate a key; return what follows. Raises AdminError."""
        return str(self._ask("POST", f"/keys/{quote(name, safe='')}/{verb}", body)["told"])

    def golden_runs(self) -> list[dict[str, Any]]:
        """Return golden runs, newest first. Raises AdminError."""
        runs: list[dict[str, Any]] = self._ask("GET", "/quality/runs")["runs"]
        return runs

    def begin_golden(self, body: dict[str, Any]) -> int:
        """Begin a golden run, or let one go on; return its id. Raises AdminError."""
        return int(self._ask("POST", "/quality/runs", body)["id"])

    def quality_told(self, path: str, *, who: str, why: str) -> str:
        """Stop a golden run, or forget a baseline; return what follows. Raises AdminError."""
        return str(self._ask("POST", f"/quality/{path}", {"who": who, "why": why})["told"])

    def quality_table(
        self, profiles: list[str], *, reference: str | None, loss: float, bound: float
    ) -> dict[str, Any]:
        """Return profiles side by side. Raises AdminError."""
        asked = [("profile", it) for it in profiles]
        asked += [("reference", reference)] if reference is not None else []
        query = urlencode([*asked, ("loss_points", str(loss)), ("bound_points", str(bound))])
        found: dict[str, Any] = self._ask("GET", f"/quality/table?{query}")
        return found

    def lift(self, target: str, *, who: str, dry_run: bool) -> str:
        """Lift a hold; of a dry run, return what would follow. Raises AdminError."""
        return self._end(f"/holds/{quote(target, safe='')}", who=who, dry_run=dry_run)

    def _end(self, path: str, *, who: str, dry_run: bool) -> str:
        found = self._ask("DELETE", path + _query(who=who, dry_run=dry_run or None))
        return "" if found is None else str(found["told"])

    def _all(self, path: str, key: str, /, **wanted: Any) -> list[dict[str, Any]]:
        """Return a list, all its pages."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            page = self._ask("GET", path + _query(limit=1000, cursor=cursor, **wanted))
            found += page[key]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        status, data = self._exchange(method, API + path, body)
        if status >= 400:
            raise AdminError(_refusal(status, data, self.url))
        if not data:
            return None
        try:
            return json.loads(data)
        except ValueError as error:
            message = f"what answers at {self.url} is not ds4watch"
            raise AdminError(message) from error

    def _exchange(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        connection = self._connection()
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        payload = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, payload, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_ANSWER_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise AdminError(_silence(error, self.url)) from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._scheme != "https":
            return http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT_SECONDS)
        context = ssl.create_default_context()
        if self._certificate is not None:
            context.load_verify_locations(self._certificate)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # itself, whoever signed it
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=TIMEOUT_SECONDS, context=context
        )


def _query(**wanted: Any) -> str:
    given = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in wanted.items()
        if value is not None
    }
    return f"?{urlencode(given)}" if given else ""


def _silence(error: Exception, url: str) -> str:
    if isinstance(error, TimeoutError):
        return f"the daemon at {url} did not answer within {TIMEOUT_SECONDS:g} s"
    if isinstance(error, ssl.SSLError):
        return f"the daemon at {url} is not trusted: {error.reason or error}"
    if isinstance(error, http.client.HTTPException):
        return f"what answers at {url} is not ds4watch"
    return f"no daemon answers at {url}: start one with `ds4watch up`"


def _refusal(status: int, data: bytes, url: str) -> str:
    try:
        detail = str(json.loads(data)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{url} answered with {status}"
    if status == 401:
        detail += "; it stands in admin.token in the state folder, or set $DS4WATCH_TOKEN"
    return f"the daemon refuses ({status}): {detail}"


def _port_of(url: str) -> int | None:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        message = f"must be an address such as http://127.0.0.1:9464, got {url!r}"
        raise ConfigError(Located(message, field="--admin"))
    return port


def is_loopback(url: str) -> bool:
    """Return whether an address is this machine's own."""
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
