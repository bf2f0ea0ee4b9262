"""kill -9 between any two steps of a tick, of sending and of acting: the story stays the same."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import shutil
import signal
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.edge.engine.scripted import play, prepare

pytestmark = pytest.mark.timeout(300)

_FORKS = multiprocessing.get_context("forkserver")
TOLD = [
    ("warning", "firing"),
    ("critical", "firing"),
    ("critical", "resolved"),
    ("warning", "resolved"),
]
LEVELS = ["1", "2", "1", "0"]
SENT = "finish_notification"
DEEDS = frozenset({"finish_action", "publish_policy", "send", SENT})
"""Steps around what the world outside sees."""
AT_ONCE = 2


@dataclass
class Receiver:
    """The far end of the webhook: messages by case, each with the key it came with."""

    got: dict[str, list[tuple[str, dict[str, Any]]]] = field(default_factory=dict)

    def take(self, case: str, key: str, payload: dict[str, Any]) -> None:
        self.got.setdefault(case, []).append((key, payload))


@pytest.fixture(scope="module")
def receiver() -> Iterator[tuple[Receiver, str]]:
    got = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.take(self.path[1:], self.headers["Idempotency-Key"], json.loads(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield got, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@dataclass(frozen=True)
class Story:
    """All that is left of a run: what was told, what levels were taken, what was stored."""

    told: list[tuple[str, str]]
    again: int
    levels: list[str]
    events: dict[str, list[tuple[str, str]]]
    alerts: list[tuple[str, str]]
    waiting: int
    unfinished: int


def lives(*plays: tuple[Path, str, int | None]) -> list[int | None]:
    """Play side by side, each in a process of its own; return how they ended."""
    _FORKS.set_forkserver_preload(["tests.edge.engine.scripted", "ds4watch.history.migrations"])
    processes = [_FORKS.Process(target=play, args=given) for given in plays]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return [process.exitcode for process in processes]


def story(state_dir: Path, messages: list[tuple[str, dict[str, Any]]]) -> Story:
    by_key = dict(reversed(messages))
    assert all(by_key[key] == payload for key, payload in messages)
    first = list(dict.fromkeys(key for key, _ in messages))
    with closing(sqlite3.connect(state_dir / "state.db")) as base:
        events: dict[str, list[tuple[str, str]]] = {}
        for tier, old, new in base.execute("SELECT tier, old, new FROM alert_events ORDER BY id"):
            events.setdefault(tier, []).append((old, new))
        return Story(
            told=[(by_key[key]["tier"], by_key[key]["new"]) for key in first],
            again=len(messages) - len(first),
            levels=(state_dir / "levels").read_text().split(),
            events=events,
            alerts=base.execute("SELECT tier, phase FROM alerts ORDER BY tier").fetchall(),
            waiting=_count(base, "SELECT count(*) FROM outbox WHERE status <> 'sent'"),
            unfinished=_count(
                base, "SELECT count(*) FROM actions WHERE status IN ('planned', 'running')"
            ),
        )


def _count(base: sqlite3.Connection, query: str) -> int:
    (count,) = base.execute(query).fetchone()
    return int(count)


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, receiver: tuple[Receiver, str]
) -> tuple[Story, list[str], Path]:
    """The story without a death, its steps, and a folder with empty databases."""
    got, url = receiver
    empty = tmp_path_factory.mktemp("empty")
    asyncio.run(prepare(empty))
    folder = shutil.copytree(empty, empty.parent / "whole")
    assert lives((folder, f"{url}/whole", None)) == [0]
    return story(folder, got.got["whole"]), (folder / "steps").read_text().split(), empty


def test_the_story_without_a_death(whole: tuple[Story, list[str], Path]) -> None:
    found, steps, _ = whole
    assert found.told == TOLD
    assert found.levels == LEVELS
    assert found.events["warning"] == [
        ("inactive", "pending"),
        ("pending", "firing"),
        ("firing", "resolved"),
    ]
    assert (found.again, found.waiting, found.unfinished) == (0, 0, 0)
    assert Counter(steps)["send"] == len(TOLD)


@pytest.mark.parametrize("deeds", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_death_before_any_step_changes_nothing_of_the_story(
    whole: tuple[Story, list[str], Path],
    receiver: tuple[Receiver, str],
    tmp_path: Path,
    *,
    deeds: bool,
) -> None:
    wanted, steps, empty = whole
    got, url = receiver
    deaths = [number for number, step in enumerate(steps) if (step in DEEDS) is deeds]
    again: list[str] = []
    for batch in batched(deaths, AT_ONCE):
        folders = [shutil.copytree(empty, tmp_path / str(number)) for number in batch]
        urls = [f"{url}/{number}" for number in batch]
        killed = lives(*zip(folders, urls, batch, strict=True))
        assert killed == [-signal.SIGKILL] * len(batch)
        went_on = lives(*((folder, to, None) for folder, to in zip(folders, urls, strict=True)))
        assert went_on == [0] * len(batch)
        for number, folder in zip(batch, folders, strict=True):
            found = story(folder, got.got[str(number)])
            again += [steps[number]] * found.again
            place = f"killed before step {number}, {steps[number]}"
            assert replace(found, again=0) == wanted, place
    # Sent, and dead before that was noted: sent again, under the same key.
    assert again == [step for step in map(steps.__getitem__, deaths) if step == SENT]


def batched(numbers: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), size):
        yield numbers[start : start + size]
