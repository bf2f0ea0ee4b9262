"""Silences, holds and actions over the admin API."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from ds4watch.access.keys import digest
from ds4watch.access.roles import Role
from ds4watch.web.tokens import TokenEntry, TokenTable
from tests.edge.web.asking import ask, bearer
from tests.edge.web.fake_answers import AT
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import TOKENS, serving

SILENCE: dict[str, Any] = {"matchers": ["alertname=Busy"], "seconds": 3600, "why": "load test"}


async def test_a_silence_is_placed_seen_ended_and_then_among_those_that_are_over() -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        placed = await ask(client, "POST", "/silences", SILENCE | {"who": "ann"})
        assert placed.status == 201
        assert placed.body["matchers"] == ['alertname="Busy"']
        assert (placed.body["who"], placed.body["ends_at"]) == ("ann", AT + 3600)
        path = f"/silences/{placed.body['id']}"
        seen = (await ask(client, "GET", path)).body
        answered = {"told": "it mutes nothing that fires now", "dry_run": False}
        assert placed.body == seen | answered
        assert (await ask(client, "GET", "/silences")).body["silences"] == [seen]
        assert (await ask(client, "DELETE", path)).status == 204
        assert (await ask(client, "DELETE", path)).status == 404
        assert (await ask(client, "GET", "/silences")).body["silences"] == []
        over = (await ask(client, "GET", "/silences?over=true")).body["silences"]
        assert [it["ended_by"] for it in over] == ["operator"]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"matchers": []}, "matchers: "),
        ({"matchers": ["Busy"]}, "a matcher is written as"),
        ({"matchers": ['a=~"("']}, "bad regular expression"),
        ({"matchers": ['a=~".*"']}, "at least one matcher"),
        ({"seconds": None}, "give seconds or until"),
        ({"until": AT + 5}, "give seconds or until"),
        ({"seconds": None, "until": AT - 5}, "would end before it begins"),
        ({"why": ""}, "why: "),
        ({"seconds": 1e12}, "seconds: "),
    ],
)
async def test_a_silence_that_makes_no_sense_is_refused(changes: dict[str, Any], told: str) -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        refused = await ask(client, "POST", "/silences", SILENCE | changes)
        assert refused.status == 422
        assert told in refused.body["detail"]


async def test_alerts_are_chosen_by_name_phase_tier_and_silence() -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        for query, names in (
            ("phase=firing", ["QueueDepthHigh"]),
            ("severity=info", ["CacheMissHigh"]),
            ("silenced=true", ["CacheMissHigh"]),
            ("silenced=false", ["QueueDepthHigh"]),
            ("name=CacheMissHigh&phase=firing", []),
        ):
            found = await ask(client, "GET", f"/alerts?{query}")
            assert [it["name"] for it in found.body["alerts"]] == names, query


async def test_what_a_person_asks_of_actions_is_a_row_that_somebody_carries_out() -> None:
    daemon = FakeDaemon()
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        asked = {"name": "shorter-answers", "pool": "default", "dry_run": True, "why": "a test"}
        act = await ask(client, "POST", "/actions", asked)
        undo = await ask(client, "POST", "/actions/set_level:default:3/undo", {"why": "over"})
        gone = await ask(client, "POST", "/actions/no:such:1/approve", {"why": "over"})
        assert (act.status, undo.status, gone.status) == (202, 202, 404)
        assert (await ask(client, "GET", f"/commands/{undo.body['id']}")).body == undo.body
        assert (await ask(client, "GET", "/commands/99")).status == 404
    assert [(it["kind"], it["body"], it["who"]) for it in daemon.desk.asked] == [
        ("act", asked, "operator"),
        ("undo", {"action": "set_level:default:3", "why": "over"}, "operator"),
    ]


async def test_lists_come_page_by_page_without_loss_and_without_repeats() -> None:
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        for path, name, key, count in (
            ("/actions", "actions", "id", 7),
            ("/quality/comparisons", "runs", "id", 5),
            ("/workers", "workers", "id", 2),
            ("/alerts", "alerts", "name", 2),
            ("/targets", "targets", "scrapePool", 2),
            ("/audit", "audit", "id", 4),
        ):
            seen: list[Any] = []
            query = "?limit=2" if count > 2 else "?limit=1"
            page = await ask(client, "GET", path + query)
            while True:
                seen += [it[key] for it in page.body[name]]
                if page.body["next_cursor"] is None:
                    break
                page = await ask(client, "GET", f"{path}{query}&cursor={page.body['next_cursor']}")
            assert (len(seen), len(set(seen))) == (count, count), path
            refused = await ask(client, "GET", f"{path}?cursor=bm90IG91cnM")
            assert refused.status == 422, path
            assert refused.body["detail"].startswith("cursor: ")


async def test_somebodys_own_token_is_named_in_the_audit_whatever_is_claimed() -> None:
    daemon = FakeDaemon()
    secret = "the-secret-of-ann"
    own = TokenEntry(Role.OPERATOR, digest(secret), "ann")
    tokens = TokenTable((*TOKENS.entries, own))
    headers = {"Authorization": f"Bearer {secret}"}
    async with (
        serving(daemon, tokens=tokens) as server,
        aiohttp.ClientSession(server.url) as client,
    ):
        body = {"seconds": 60, "why": "x"}
        plain = await ask(client, "PUT", "/holds/a", body, headers=headers)
        claimed = await ask(client, "PUT", "/holds/b", body | {"who": "bob"}, headers=headers)
        local = await ask(client, "PUT", "/holds/c", body | {"who": "bob"})
    assert [it.body["who"] for it in (plain, claimed, local)] == ["ann", "bob (ann)", "bob"]


async def test_a_store_that_is_away_is_a_503_and_nothing_is_done() -> None:
    daemon = FakeDaemon()
    daemon.desk.away = True
    async with serving(daemon) as server, aiohttp.ClientSession(server.url) as client:
        assert (await ask(client, "GET", "/silences")).status == 503
        keyed = bearer(Role.OPERATOR) | {"Idempotency-Key": "a"}
        refused = await ask(client, "PUT", "/holds/a", {"seconds": 1, "why": "x"}, headers=keyed)
        assert refused.status == 503
    assert daemon.held == {}


async def test_an_export_is_streamed_and_its_refusals_are_problems() -> None:
    span = "start_at=0&end_at=3600"
    async with serving(FakeDaemon()) as server, aiohttp.ClientSession(server.url) as client:
        whole = await ask(client, "GET", f"/history/export?{span}")
        assert whole.body == "a 1 2\n# EOF\n"
        assert whole.headers["Content-Type"].startswith("application/openmetrics-text")
        for query in ("start_at=5&end_at=5", "start_at=0&end_at=99999999", f"{span}&target=none"):
            refused = await ask(client, "GET", f"/history/export?{query}")
            assert refused.status == 422, query


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("application/json", "body: is no JSON, at character 1"),
        ("text/plain", "body: has to be a JSON object, sent with Content-Type: application/json"),
    ],
)
async def test_a_body_that_is_none_is_refused_in_a_word_that_helps(kind: str, told: str) -> None:
    headers = bearer(Role.OPERATOR) | {"Content-Type": kind}
    async with (
        serving(FakeDaemon()) as server,
        aiohttp.ClientSession(server.url) as client,
        client.post("/api/ds4/v1/silences", data="{bad", headers=headers) as answer,
    ):
        assert answer.status == 422
        assert (await answer.json(content_type=None))["detail"] == told
