from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from ds4watch.access.roles import Role
from ds4watch.model.errors import (
    BadQueryError,
    EdgeReason,
    QueryError,
    QueryTimeoutError,
    StoreError,
)
from ds4watch.model.question import Asked, Question
from tests.edge.web.fake_answers import AT
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, FakeHistory, serving

API = "/api/v1"
VIEWER = {"Authorization": f"Bearer {SECRETS[Role.VIEWER]}"}
_LATE = 253_402_300_799.0

# path and parameters -> what the history is asked
QUESTIONS = [
    ("/query", {"query": "up"}, Question(Asked.INSTANT, AT, AT, query="up")),
    (
        "/query",
        {"query": "up", "time": "2023-11-14T22:13:20.25Z", "timeout": "1m30s", "limit": "7"},
        Question(
            Asked.INSTANT, 1_700_000_000.25, 1_700_000_000.25,
            query="up", timeout_seconds=90.0, limit=7,
        ),
    ),
    (
        "/query",
        {"query": "up", "time": "2023-11-14T23:13:20+01:00", "lookback_delta": "15"},
        Question(Asked.INSTANT, 1.7e9, 1.7e9, query="up", lookback_seconds=15.0),
    ),
    (
        "/query_range",
        {"query": "a", "start": "10.5", "end": "1e3", "step": "1m"},
        Question(Asked.RANGE, 10.5, 1000.0, query="a", step_seconds=60.0),
    ),
    (
        "/series",
        {"match[]": ["a", "b"], "start": "-5"},
        Question(Asked.SERIES, -5.0, _LATE, selectors=("a", "b")),
    ),
    ("/labels", {}, Question(Asked.LABEL_NAMES, 0.0, _LATE)),
    (
        "/label/worker/values",
        {"match[]": ["a"], "end": "9"},
        Question(Asked.LABEL_VALUES, 0.0, 9.0, selectors=("a",), label="worker"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("path", "parameters", "question"), QUESTIONS)
async def test_a_question_is_the_same_from_the_address_and_from_a_form(
    path: str, parameters: dict[str, Any], question: Question
) -> None:
    history = FakeHistory()
    headers = {"Accept-Encoding": "identity"}
    async with (
        serving(FakeDaemon(), queries=history) as server,
        aiohttp.ClientSession(server.url, headers=headers) as client,
    ):
        async with client.get(API + path, params=parameters) as answer:
            assert (answer.status, answer.content_type) == (200, "application/json")
            assert await answer.json() == {"status": "success", "data": []}
        if not path.startswith("/label/"):
            pairs = [
                (name, value)
                for name, values in parameters.items()
                for value in (values if isinstance(values, list) else [values])
            ]
            async with client.post(API + path, data=pairs) as answer:
                assert answer.status == 200
    assert set(map(repr, history.asked)) == {repr(question)}


REFUSED = [
    (
        "/query?query=a&time=x",
        'parameter "time": Invalid time value for \'time\': cannot parse "x"',
    ),
    ("/query?query=a&time=2023-13-45T00:00:00Z", "to a valid timestamp"),
    ("/query?query=a&time=nan", "to a valid timestamp"),
    ("/query?query=a&timeout=1y2s3", 'parameter "timeout": cannot parse "1y2s3"'),
    ("/query?query=a&limit=-1", "limit must be non-negative"),
    ("/query?query=a&limit=x", "limit must be a number"),
    ("/query_range?query=a&start=1&end=0&step=1", "must not be before start time"),
    ("/query_range?query=a&start=0&end=1&step=0", "zero or negative query resolution step"),
    ("/query_range?query=a&start=0&end=11001&step=1", "exceeded maximum resolution of 11,000"),
    ("/query?" + "&".join(f"a{n}=" for n in range(1001)), "over 1000 parameters"),
    ("/series", "no match[] parameter provided"),
    ("/label/0/values", 'invalid label name: "0"'),
    ("/rules?type=x", 'not supported value "x"'),
    ("/metadata?limit=x", "limit must be a number"),
    ("/format_query?query=sum(", 'invalid parameter "query": 1:4: parse error: unclosed'),
]


@pytest.mark.parametrize(("path", "error"), REFUSED)
async def test_bad_parameters_are_refused_in_prometheus_own_shape(path: str, error: str) -> None:
    history = FakeHistory()
    async with (
        serving(FakeDaemon(), queries=history) as server,
        aiohttp.ClientSession(server.url) as client,
        client.get(API + path) as answer,
    ):
        assert answer.status == 400
        told = await answer.json()
    assert (told["status"], told["errorType"]) == ("error", "bad_data")
    assert error in told["error"]
    assert history.asked == []


@pytest.mark.parametrize(
    ("error", "status", "kind", "message"),
    [
        (
            BadQueryError("unknown function", position=5),
            400,
            "bad_data",
            'invalid parameter "query": 2:2: parse error: unknown function',
        ),
        (QueryError("too many samples"), 422, "execution", "too many samples"),
        (QueryTimeoutError("over 30 s"), 503, "timeout", "over 30 s"),
        (StoreError("gone", reason=EdgeReason.GONE), 500, "internal", "gone"),
    ],
)
async def test_what_fails_is_told_by_its_kind(
    error: Exception, status: int, kind: str, message: str
) -> None:
    history = FakeHistory()
    history.error = error
    async with (
        serving(FakeDaemon(), queries=history) as server,
        aiohttp.ClientSession(server.url) as client,
        client.post(f"{API}/query", data={"query": "1 +\n foo(a)"}) as answer,
    ):
        assert answer.status == status
        assert await answer.json() == {"status": "error", "errorType": kind, "error": message}


async def test_answers_are_compressed_for_those_who_take_it() -> None:
    history = FakeHistory()
    async with (
        serving(FakeDaemon(), queries=history) as server,
        aiohttp.ClientSession(server.url) as client,
        client.get(f"{API}/query?query=a", headers={"Accept-Encoding": "gzip"}) as answer,
    ):
        assert answer.headers["Content-Encoding"] == "gzip"
        assert (await answer.json())["status"] == "success"
        assert history.asked[0].compressed


FACTS = [
    ("/rules", ["groups", ("load", ["Busy", "load:sum"]), ("cost", ["cost:sum"])]),
    ("/rules?type=alert", ["groups", ("load", ["Busy"]), ("cost", [])]),
    ("/rules?type=record&rule_group[]=cost", ["groups", ("cost", ["cost:sum"])]),
    ("/rules?rule_name[]=Busy", ["groups", ("load", ["Busy"])]),
    ("/rules?file[]=b.yml", ["groups", ("cost", ["cost:sum"])]),
]


@pytest.mark.parametrize(("path", "wanted"), FACTS)
async def test_rules_are_told_as_far_as_they_are_wanted(path: str, wanted: list[Any]) -> None:
    groups = (await told(path))["groups"]
    assert wanted[1:] == [
        (group["name"], [rule["name"] for rule in group["rules"]]) for group in groups
    ]


async def told(path: str) -> Any:
    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession(server.url) as client,
        client.get(API + path) as answer,
    ):
        assert answer.status == 200, await answer.text()
        body = await answer.json()
        assert body["status"] == "success"
        return body["data"]


async def test_what_is_in_memory_is_told() -> None:
    assert (await told("/alerts"))["alerts"] == [{"labels": {"alertname": "Busy"}}]
    rules = (await told("/rules?exclude_alerts=true"))["groups"][0]["rules"]
    assert not any("alerts" in rule for rule in rules)
    assert len((await told("/targets"))["activeTargets"]) == 2
    assert len((await told("/targets?scrapePool=fleet"))["activeTargets"]) == 1
    assert (await told("/targets?state=dropped"))["activeTargets"] == []
    assert list(await told("/metadata")) == ["a", "b", "c"]
    assert list(await told("/metadata?limit=2")) == ["a", "b"]
    assert list(await told("/metadata?metric=c")) == ["c"]
    assert await told("/metadata?metric=d") == {}
    assert await told("/query_exemplars?query=up") == []
    assert (await told("/status/buildinfo"))["version"].startswith("3.")
    assert await told("/format_query?query=sum(up)by(job)") == "sum by (job) (up)"


async def test_a_query_by_post_is_a_read() -> None:
    form = {"query": "up"}
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        async with client.post(f"{API}/query", data=form) as answer:
            assert answer.status == 200
        async with client.post(f"{API}/rules", data=form) as answer:
            assert answer.status == 401
        too_long = {"query": "x" * 70_000}
        async with client.post(f"{API}/query", data=too_long) as answer:
            assert answer.status == 413
        evil = {"Host": "evil.example"}
        async with client.post(f"{API}/query", data=form, headers=evil) as answer:
            assert answer.status == 403


async def test_off_loopback_a_query_needs_a_token_of_any_role() -> None:
    async with (
        serving(FakeDaemon(), open_reads=False) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        for path in ("/query", "/query_range", "/series", "/labels", "/format_query"):
            async with client.post(API + path) as answer:
                assert answer.status == 401
        async with client.post(f"{API}/query", data={"query": "a"}, headers=VIEWER) as answer:
            assert answer.status == 200
