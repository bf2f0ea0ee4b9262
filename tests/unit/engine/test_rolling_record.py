from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.engine.rolling_record import Kept, from_row, to_row
from ds4watch.fleet.rolling import Change, Status, taken
from ds4watch.fleet.rolling_steps import next_step
from ds4watch.fleet.rolling_watch import Baseline
from tests.unit.fleet.rolling_world import RULES, Fleet, change_of, fleet


def kept(change: Change) -> Kept:
    profile = Profile(name="a", engine=Engine.SIM, served_names=("m",))
    profiles = {("a", "1"): profile, ("a", "2"): profile.model_copy(update={"max_num_seqs": 4})}
    return Kept(7, change, profiles, "own", "ops", "because")


def stored_and_read(it: Kept) -> Kept:
    row = to_row(it, 5.0)
    return from_row(replace(row, document=json.loads(json.dumps(row.document))))


def test_a_change_at_any_step_is_read_as_it_was_stored() -> None:
    world = Fleet(change_of(fleet(2, "1"), fleet(2, "2")), starts=lambda it: it.revision == "1")
    seen = 0
    while world.change.status is not Status.RETURNED:
        world.step()
        change = replace(world.change, baselines={"a": Baseline(5, 1, 4, 0.25)})
        assert stored_and_read(kept(change)) == kept(change)
        seen += 1
    assert seen > 5


def test_the_next_step_is_the_same_after_reading() -> None:
    world = Fleet(change_of(fleet(2, "1"), fleet(2, "2")))
    while world.change.status is Status.RUNNING:
        read = stored_and_read(kept(world.change)).change
        step = next_step(read, world.world(), RULES, world.now)
        assert step == next_step(world.change, world.world(), RULES, world.now)
        assert taken(read, step, 1.0) == taken(world.change, step, 1.0)
        world.step()


def test_a_row_of_another_shape_is_refused_as_a_whole() -> None:
    row = to_row(kept(change_of(fleet(1, "1"), fleet(1, "2"))), 5.0)
    with pytest.raises(KeyError):
        from_row(replace(row, document={"change": {}}))
