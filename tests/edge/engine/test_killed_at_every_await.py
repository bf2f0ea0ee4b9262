"""Killed at every await of an action, one after the other: nothing is done twice, none is left."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.edge.engine.mortal import live
from tests.edge.engine.scripted import STARTED_AT, Daemon, Steps, prepare

pytestmark = pytest.mark.timeout(300)

LOAD = (1.0, 20.0, 20.0, 1.0, 1.0, 1.0)
"""Up and down once: level 1 is taken, and given back."""
RULES = """\
groups:
  - name: scripted
    interval: 1s
    rules:
      - alert: High
        expr: load > 10
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
"""


@dataclass
class Told:
    """A channel that keeps what it is told: the far end, which does not die with the daemon."""

    name: str = "told"
    got: list[Mapping[str, Any]] = field(default_factory=list)

    async def send(self, payload: Mapping[str, Any]) -> None:
        await asyncio.sleep(0)
        self.got.append(payload)
        await asyncio.sleep(0)


@dataclass
class Life:
    """One daemon on a folder, that plays the script from where it stands to its end."""

    folder: Path
    told: Told
    daemon: Daemon | None = None

    async def play(self) -> None:
        self.daemon = Daemon(self.folder, "", Steps(), channel=self.told, load=LOAD, rules=RULES)
        async with self.daemon as daemon:
            while daemon.clock.at < STARTED_AT + len(LOAD):
                await daemon.tick()
                daemon.clock.at += 1

    def end(self, killed_at: int | None) -> bool:
        """Live until the end, or until killed; return which."""
        opened = _Opened(self)
        return live(self.play, killed_at, opened)


class _Opened:
    """The databases that a life has opened, asked for when it is over."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def __iter__(self) -> Any:
        return iter(self._life.daemon.opened if self._life.daemon is not None else ())


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
def test_no_death_at_any_await_doubles_an_action_or_leaves_one_behind(
    tmp_path: Path, stride: int
) -> None:
    empty = tmp_path / "empty"
    asyncio.run(prepare(empty))
    whole = shutil.copytree(empty, tmp_path / "whole")
    told = Told()
    assert Life(whole, told).end(None)
    wanted = levels(whole)
    assert wanted == ["1", "0"]
    assert_right(whole, told, "no death")
    killed_at, is_whole = 0, False
    deaths: Counter[str] = Counter()
    while not is_whole:
        folder, told = shutil.copytree(empty, tmp_path / str(killed_at)), Told()
        is_whole = Life(folder, told).end(killed_at)
        deaths[state_at_death(folder)] += 1
        assert Life(folder, told).end(None)
        assert levels(folder) == wanted, f"killed before step {killed_at}"
        assert_right(folder, told, f"killed before step {killed_at}")
        shutil.rmtree(folder)
        killed_at += stride
    # Every stretch of an action's life was died in: before it, running, applied, being undone.
    assert deaths.keys() >= {"", "running", "applied", "applied running", "undone applied"}


def levels(folder: Path) -> list[str]:
    path = folder / "levels"
    return path.read_text().split() if path.exists() else []


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "state.db")) as base:
        return base.execute(query).fetchall()


def state_at_death(folder: Path) -> str:
    return " ".join(it for (it,) in rows(folder, "SELECT status FROM actions ORDER BY planned_at"))


def assert_right(folder: Path, told: Told, place: str) -> None:
    """The deed and its undo took effect once each; everybody was told, under one key each.

    A claim that died before it did anything is given up, and says so; what is to be done is
    decided anew, never tried again blindly.
    """
    actions = rows(folder, "SELECT status, cause, detail FROM actions ORDER BY planned_at")
    given_up = [detail for status, _, detail in actions if status == "failed"]
    assert given_up in ([], ["the daemon was gone before it was done; decided anew"]), place
    deeds = [(status, cause) for status, cause, _ in actions if status != "failed"]
    assert [status for status, _ in deeds] == ["undone", "applied"], (place, actions)
    assert len({cause for _, cause in deeds}) == 2, (place, deeds)
    outcomes = rows(folder, "SELECT count(*) FROM audit WHERE kind = 'outcome'")
    assert outcomes == [(2 + len(given_up),)], place
    waiting = rows(folder, "SELECT count(*) FROM outbox WHERE status <> 'sent'")
    assert waiting == [(0,)], place
    by_key = Counter(str(sorted(it.items(), key=str)) for it in told.got)
    assert len(by_key) == 2, (place, told.got)
    # At least once: one death costs at most one message said again, the one it came between.
    assert sum(by_key.values()) <= 3, (place, told.got)
