"""Workers that ask for a key get theirs, never the client's."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ds4watch.gateway.worker_keys import WorkerKeys
from ds4watch.model.usage import RequestOutcome, RetryReason
from tests.edge.gateway.support import CHAT, FakeWorker, board_of, front_of, records, status

CLIENTS = {"Authorization": "Bearer of-the-client", "X-API-Key": "of-the-client"}


class Hands:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        return 1.8e9 + self.at

    def monotonic(self) -> float:
        return self.at


async def test_a_worker_is_shown_its_own_key_and_not_the_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    async with FakeWorker("w1", tokens=1990) as worker, FakeWorker("w2", models=("n",)) as open_one:
        board = board_of(worker.view(api_key_file=str(file)), open_one.view())
        async with front_of(tmp_path, board) as front:
            for body in (CHAT, CHAT | {"stream": True}, CHAT | {"model": "n"}):
                async with front.post(body, headers=CLIENTS) as response:
                    assert response.status == 200
                    assert "s3cret" not in str(response.headers) + await response.text()
    assert [it.get("authorization") for it in worker.headers] == ["Bearer s3cret"] * 2
    assert "authorization" not in open_one.headers[0]
    assert "of-the-client" not in str(worker.headers + open_one.headers)
    told = caplog.text + (tmp_path / "board.json").read_text()
    assert "s3cret" not in told
    assert "of-the-client" not in told


async def test_a_worker_that_takes_no_key_of_ours_is_left_for_another(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", status(401)) as shut,
        FakeWorker("w2") as good,
        front_of(tmp_path, board_of(shut.view(), good.view())) as front,
    ):
        front.choose_first("w1")
        async with front.post(CHAT) as response:
            assert response.status == 200
        (record,) = await records(front)
    assert record.retries == (("w1", RetryReason.UNAUTHORIZED),)


async def test_what_nobody_lets_us_ask_is_no_fault_of_the_clients_key(tmp_path: Path) -> None:
    async with (
        FakeWorker("w1", status(401)) as shut,
        front_of(tmp_path, board_of(shut.view())) as front,
    ):
        async with front.post(CHAT, headers=CLIENTS) as response:
            assert response.status == 502
            assert "www-authenticate" not in response.headers
            assert (await response.json())["error"]["code"] == "upstream_unauthorized"
        (record,) = await records(front)
    assert record.outcome is RequestOutcome.UPSTREAM_ERROR


def test_a_new_key_is_found_within_a_second_and_a_fault_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, file = Hands(), tmp_path / "key"
    keys, view = WorkerKeys(clock), FakeWorker("w").view(api_key_file=str(file))
    assert keys.line(FakeWorker("open").view()) == b""
    for _ in range(3):
        clock.at += 2
        assert keys.line(view) == b""
    assert caplog.text.count("asked without their API key") == 1
    file.write_text("one")
    clock.at += 1
    assert keys.line(view) == b"Authorization: Bearer one\r\n"
    file.write_text("other")
    assert keys.line(view) == b"Authorization: Bearer one\r\n"
    clock.at += 1
    assert keys.line(view) == b"Authorization: Bearer other\r\n"
    assert "other" not in caplog.text + repr(keys._held)
