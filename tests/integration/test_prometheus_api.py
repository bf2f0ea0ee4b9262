"""The Prometheus HTTP API beside a real Prometheus on the same samples, and its real clients."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException

from ds4watch.engine.query_process import QueryProcess
from ds4watch.web.listen import bind
from ds4watch.web.ports import Ports
from ds4watch.web.serve import admin_server
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fake_desk import FakeDesk
from tests.edge.web.fakes import TOKENS, FakeFacts, FixedClock
from tests.integration.test_history_into_prometheus import AT, command, prometheus, stored

pytestmark = [pytest.mark.needs("promtool", "prometheus"), pytest.mark.prometheus, pytest.mark.slow]

START, END = int(AT) + 100, int(AT) + 700
"""No scrape fails in between: staleness is not exported."""
W2 = urllib.parse.quote('{worker="w2"}')
MOMENT = f"{datetime.fromtimestamp(START, UTC):%Y-%m-%dT%H:%M:%S}"
WHEN = f"time={START}"
OVER = f"start={START}&end={END}&step=60"


def _quoted(text: str) -> str:
    return urllib.parse.quote(text)


# Good ones: the same data, to the letter of each number.
SAME = [
    f"query?query=1%2B1&{WHEN}",
    f"query?query=1e100/3&{WHEN}",
    f"query?query=-1/0&{WHEN}",
    f"query?query=0/0&{WHEN}",
    f"query?query='text'&{WHEN}",
    f"query?query=up&{WHEN}.123",
    f"query?query=up&time={MOMENT}Z",
    f"query?query=up&time={MOMENT}.5%2B01:00",
    f"query?query=nothing&{WHEN}",
    f"query?query={_quoted('values[10m]')}&{WHEN}",
    f"query?query={_quoted('values * 1e-7')}&{WHEN}",
    f"query?query={_quoted('vector(1e-7)')}&{WHEN}",
    f"query?query={_quoted('vector(1.5e21) or vector(3)')}&{WHEN}",
    f"query?query={_quoted('vector(123456789012345678)')}&{WHEN}",
    f"query?query={_quoted('vector(0.00001)')}&{WHEN}",
    f"query?query={_quoted('sum(rate(requests_total[5m]))')}&{WHEN}",
    f"query?query={_quoted('max_over_time(sum(rate(requests_total[5m]))[10m:1m])')}&{WHEN}",
    f"query?query={_quoted('sort_desc(vllm:odd or up)')}&{WHEN}",
    f"query?query={_quoted('requests_total offset 5m')}&{WHEN}&timeout=5s",
    f"query?query=up&time={START + 4000}",
    f"query?query=up&{WHEN}&timeout=",
    f"query_range?query=up&{OVER}",
    f"query_range?query=vllm:odd&{OVER}",
    f"query_range?query={_quoted('rate(requests_total[5m])')}&{OVER}",
    f"query_range?query=3&{OVER}",
    f"query_range?query=nothing&{OVER}",
    f"query_range?query=up&start={START}&end={END}&step=1m",
    f"query_range?query=up&start={START}.5&end={END}.25&step=90.5",
    f"query_range?query=up&start={START}&end={START}&step=1",
    f"query_range?query=vector(1)&start={START}&end={START + 11000}&step=1",
    f"series?match[]={W2}&start={START}&end={END}",
    f"series?match[]=up&match[]=later&start={START}&end={END}",
    f"series?match[]=nothing&start={START}&end={END}",
    f"labels?start={START}&end={END}",
    f"labels?match[]=requests_total&start={START}&end={END}",
    f"label/worker/values?start={START}&end={END}",
    f"label/__name__/values?match[]={W2}&start={START}&end={END}",
    f"label/nothing/values?start={START}&end={END}",
    "query_exemplars?query=up",
    f"format_query?query={_quoted('sum(  up)by(job)')}",
]
# Bad ones: the same status, errorType and, up to here, message.
REFUSED = [
    ("query", 'invalid parameter "query": '),
    ("query?query=", 'invalid parameter "query": '),
    ("query?query=up(", 'invalid parameter "query": '),
    ("query?query=rate(up)", 'invalid parameter "query": '),
    ("query?query=up&time=yesterday", None),
    ("query?query=up&timeout=soon", None),
    (f"query?query={_quoted('up + on(job) up')}&time={END}", "found duplicate series"),
    ("query_range?query=up", None),
    ("query_range?query=up&start=1&end=x&step=1", None),
    ("query_range?query=up&start=2&end=1&step=1", None),
    ("query_range?query=up&start=1&end=2", None),
    ("query_range?query=up&start=1&end=2&step=0", None),
    ("query_range?query=up&start=1&end=2&step=-5", None),
    ("query_range?query=up&start=1&end=2&step=often", None),
    ("query_range?query=up&start=0&end=11001&step=1", None),
    ("query_range?query=up[5m]&start=1&end=2&step=1", "invalid"),  # as 3 has it
    ("query_range?query='text'&start=1&end=2&step=1", "invalid"),
    ("series", None),
    ("series?match[]=up(", ""),
    ("series?match[]={}", ""),
    ("series?match[]=up&start=x", None),
    ("labels?match[]=sum(up)", ""),
    ("labels?start=x", None),
    ("label/0bad/values", None),
    ("metadata?limit=x", "limit must be a number"),
    ("rules?type=other", None),
    ("format_query?query=up(", 'invalid parameter "query": '),
]


class Ours:
    """The API over a store, served by a thread of its own."""

    def __init__(self, store: Path) -> None:
        self.url = ""
        self._store = store
        self._ready, self._end = threading.Event(), asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()])

    def __enter__(self) -> str:
        self._thread.start()
        assert self._ready.wait(30)
        return self.url

    def __exit__(self, *_told: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()
        self._loop.close()

    async def _serve(self) -> None:
        daemon = FakeDaemon()
        async with QueryProcess(self._store) as queries:
            ports = Ports(
                daemon, daemon, FakeFacts(), queries, desk=FakeDesk(), quality=daemon.quality
            )
            listener = bind("127.0.0.1", 0, setting="admin")
            async with admin_server(
                listener,
                ports,
                tokens=TOKENS,
                render_metrics=lambda: b"",
                clock=FixedClock(),
                open_reads=True,
            ) as server:
                self.url = server.url
                self._ready.set()
                await self._end.wait()


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Yield our address and that of a Prometheus on the same samples."""
    folder = tmp_path_factory.mktemp("api")
    state = folder / "state"
    asyncio.run(stored(state))
    export = ("history", "export", "-o", "history.om", "--state", str(state))
    command(sys.executable, "-m", "ds4watch", *export, cwd=folder)
    blocks = ("promtool", "tsdb", "create-blocks-from", "openmetrics", "history.om", "blocks")
    command(*blocks, cwd=folder)
    with prometheus(folder, folder / "blocks") as port, Ours(state / "samples.db") as url:
        yield url, f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def ours(addresses: tuple[str, str]) -> str:
    return addresses[0]


def asked(address: str, path: str, form: str | None = None) -> tuple[int, dict[str, Any]]:
    data = form.encode() if form is not None else None
    try:
        with urllib.request.urlopen(f"{address}/api/v1/{path}", data, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def in_order(data: Any) -> Any:
    """Return data with series, of which nobody promises an order, in one."""
    if (
        isinstance(data, dict)
        and isinstance(data["result"], list)
        and data["resultType"]
        in (
            "vector",
            "matrix",
        )
    ):
        key = lambda one: json.dumps(one["metric"], sort_keys=True)  # noqa: E731 - one line
        return {**data, "result": sorted(data["result"], key=key)}
    return sorted(data, key=str) if isinstance(data, list) else data


def rounded(data: Any) -> Any:
    """Return data with numbers of 12 digits."""
    if isinstance(data, str) and data.replace(".", "").isdecimal():
        return f"{float(data):.12g}"
    if isinstance(data, dict):
        return {name: rounded(one) for name, one in data.items()}
    return [rounded(one) for one in data] if isinstance(data, list) else data


@pytest.mark.parametrize("path", SAME)
def test_what_is_right_is_answered_to_the_letter(addresses: tuple[str, str], path: str) -> None:
    answers = [asked(address, path) for address in addresses]
    (our_status, mine), (their_status, theirs) = answers
    assert (our_status, mine["status"]) == (their_status, theirs["status"]) == (200, "success")
    if "rate" in path:  # the order of additions decides about the last digit
        mine["data"], theirs["data"] = (rounded(it["data"]) for it in (mine, theirs))
    assert in_order(mine["data"]) == in_order(theirs["data"])
    name, _, form = path.partition("?")
    if not name.startswith("label/"):
        assert asked(addresses[0], name, form)[1]["status"] == "success"


@pytest.mark.parametrize(("path", "message"), REFUSED)
def test_what_is_wrong_is_refused_alike(
    addresses: tuple[str, str], path: str, message: str | None
) -> None:
    (status, mine), (their_status, theirs) = [asked(address, path) for address in addresses]
    assert (status, mine["status"], mine["errorType"]) == (
        their_status,
        theirs["status"],
        theirs["errorType"],
    )
    if message is None:
        assert mine["error"] == theirs["error"]
    else:
        assert mine["error"].startswith(message)
        assert theirs["error"].startswith(message)


def test_prometheus_api_client_works_unchanged(ours: str) -> None:
    client = PrometheusConnect(url=ours)
    assert client.check_prometheus_connection()
    assert "requests_total" in client.all_metrics()
    assert client.get_label_values("worker") == ["w1", "w2"]
    assert "exported_worker" in client.get_label_names()
    start, end = (datetime.fromtimestamp(at, UTC) for at in (START, END))
    ranges = client.custom_query_range("sum by (worker) (up)", start, end, "1m")
    assert {one["metric"]["worker"]: len(one["values"]) for one in ranges} == {"w1": 11, "w2": 11}
    instant = client.custom_query("up", params={"time": START})
    assert {one["value"][1] for one in instant} == {"1"}
    chunks = client.get_metric_range_data("later", {"worker": "w2"}, start, end)
    assert sum(len(one["values"]) for one in chunks) > 30
    told = client.get_metric_aggregation(
        "later", ["max", "average"], start_time=start, end_time=end
    )
    assert told["max"] > told["average"] > 0
    with pytest.raises(PrometheusApiClientException, match="bad_data"):
        client.custom_query("up(")


def promtool(*arguments: str) -> str:
    told = subprocess.run(
        ["promtool", "query", *arguments], capture_output=True, text=True, check=True, timeout=30
    )
    return told.stdout


def test_promtool_asks_as_it_asks_a_prometheus(ours: str) -> None:
    assert f"=> 1 @[{START}]" in promtool("instant", f"--time={START}", ours, "up")
    when = (f"--start={START}", f"--end={END}")
    ranges = promtool("range", *when, "--step=5m", ours, "sum(up)")
    assert ranges.count("2 @[") == 3
    shown = promtool("series", "--match=up", *when, ours).splitlines()
    assert len(shown) == 2
    assert promtool("labels", *when, ours, "worker").split() == ["w1", "w2"]
