"""Memory ladders over the death of a daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.engine.installed import installed_at
from ds4watch.engine.ladder_journal import LADDERS, StateLadders, kept_ladders
from ds4watch.fleet.ladders import Ladders
from ds4watch.fleet.memory_ladder import Lever, Step
from ds4watch.fleet.oom import Oom, OomKind
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.history.state import StateStore
from tests.edge.clock import SystemClock

SPEC = WorkerSpec(
    "sim-0", Profile(name="sim", engine=Engine.SIM, served_names=("m",), max_num_seqs=8)
)


async def test_a_step_is_kept_audited_and_gone_on_from(tmp_path: Path) -> None:
    clock = SystemClock()
    state = StateStore.open(tmp_path / "state.db", clock)
    ladders = Ladders({}, StateLadders(state, clock), clock)
    await ladders.died(SPEC, Oom(OomKind.GPU_RUN, "CUDA out of memory"))
    (entry,) = await state.audit(1)
    assert entry.subject == "sim-0"
    assert "from now on started with max_num_seqs 4" in entry.summary
    await state.close()

    again = StateStore.open(tmp_path / "state.db", clock)
    later = Ladders(kept_ladders(await again.kept_values()), StateLadders(again, clock), clock)
    assert later.of("sim-0").steps == (Step(Lever.SEQUENCES, 4),)
    assert later.lowered(SPEC).profile.max_num_seqs == 4
    await later.forget("sim-0", "taken back")
    assert kept_ladders(await again.kept_values()) == {}
    await again.close()


def test_a_ladder_that_cannot_be_read_is_left_out_and_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    good = {"steps": [["max_num_seqs", 4]], "at": 1.0, "eased_at": 0.0, "relapses": 0}
    kept = kept_ladders({LADDERS: {"a": good, "b": {"steps": [["else", 1]]}, "c": 7}})
    assert list(kept) == ["a"]
    assert "the memory ladder of b cannot be read" in caplog.text
    assert kept_ladders({LADDERS: "text"}) == {}


async def test_the_day_of_the_install_is_kept(tmp_path: Path) -> None:
    state = StateStore.open(tmp_path / "state.db", SystemClock())
    assert await installed_at(state, 5.0) == 5.0
    assert await installed_at(state, 9.0) == 5.0
    await state.close()
