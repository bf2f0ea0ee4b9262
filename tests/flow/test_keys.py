"""Keys on a running daemon: made, scoped, spent, rotated, revoked, kept over a restart."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.flow.daemon import Answer, Daemon, ask, chat, new_daemon, until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        daemon.up()
        yield daemon


def made(daemon: Daemon, *arguments: str) -> str:
    ended = daemon.command("keys", *arguments, *daemon.options)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def complete(daemon: Daemon, secret: str) -> Answer:
    headers = {"Authorization": f"Bearer {secret}"}
    return ask(daemon.gateway_port, "/v1/chat/completions", chat(), headers=headers)


def refusal(daemon: Daemon, secret: str) -> Answer | None:
    answer = complete(daemon, secret)
    return answer if answer.status == 429 else None


def test_a_key_lets_in_is_rotated_spent_and_revoked(daemon: Daemon) -> None:
    assert daemon.complete().status == 200
    secret = made(daemon, "add", "team-a", "--budget-day", "1000")
    until(lambda: daemon.complete().status == 401, "a gateway that asks for a key")
    assert complete(daemon, secret).status == 200
    fresh = made(daemon, "rotate", "team-a")
    until(lambda: complete(daemon, secret).status == 401, "the old secret gone")
    assert complete(daemon, fresh).status == 200

    poor = made(daemon, "add", "poor", "--budget-day", "0.000000001")
    # What was spent counts until midnight: the refusal looked at is the one that was awaited.
    refused = until(lambda: refusal(daemon, poor), "a budget that is spent")
    assert refused.json()["error"]["code"] == "insufficient_quota"
    assert complete(daemon, fresh).status == 200

    daemon.signal(signal.SIGTERM)
    assert daemon.wait() == 0
    assert complete(daemon, fresh).status == 200
    daemon.start()
    daemon.until_ready()
    assert daemon.complete().status == 401
    assert complete(daemon, fresh).status == 200
    made(daemon, "revoke", "team-a", "--why", "leaked")
    until(lambda: complete(daemon, fresh).status == 401, "a key that is revoked")
    told = [(row["target"], row["summary"]) for row in daemon.audit("key")]
    assert told == [
        ("team-a", "added"),
        ("team-a", "rotated"),
        ("poor", "added"),
        ("team-a", "revoked: leaked"),
    ]
    stored = (daemon.state / "board.json").read_text() + str(daemon.rows("SELECT * FROM api_keys"))
    assert secret not in stored
    assert fresh not in stored
