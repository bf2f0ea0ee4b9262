from __future__ import annotations

import pytest

from ds4watch.config.profile import Engine, Profile
from ds4watch.engine.rolling_view import held, room
from ds4watch.fleet.recipe import WorkerSpec
from ds4watch.model.action import Hold
from ds4watch.scrape.gpu import LATE, NO_DRIVER, GpuReading, GpuReport
from tests.unit.fleet.rolling_world import change_of, fleet

GIB = 1 << 30
SIM = WorkerSpec("s-0", Profile(name="s", engine=Engine.SIM, served_names=("s",)))
REAL = WorkerSpec("r-0", Profile(name="r", model="m", served_names=("r",)))


def gpus(*used_gib: float | None) -> GpuReport:
    return GpuReport(
        tuple(
            GpuReading(
                index,
                memory_used_bytes=None if used is None else int(used * GIB),
                memory_total_bytes=80 * GIB,
            )
            for index, used in enumerate(used_gib)
        )
    )


@pytest.mark.parametrize(
    ("report", "spec", "expected"),
    [
        (GpuReport(why_not=NO_DRIVER), REAL, 1),
        (gpus(70, 70), SIM, 1),
        (gpus(70, 70), REAL, 0),
        (gpus(70, 1), REAL, 1),
        (gpus(70, None), REAL, 0),
        (GpuReport(why_not=LATE), REAL, 0),
    ],
)
def test_there_is_room_for_one_more_where_a_gpu_is_empty_or_none_is_needed(
    report: GpuReport, spec: WorkerSpec, expected: int
) -> None:
    assert room(report, [spec], most=1) == expected
    assert room(report, [spec], most=0) == 0


@pytest.mark.parametrize(
    ("target", "until_at", "holds"),
    [
        ("*", 20.0, True),
        ("fleet", 20.0, True),
        ("a-surge", 20.0, True),
        ("a-1", 20.0, False),
        ("default", 20.0, False),
        ("fleet", 10.0, False),
    ],
)
def test_whose_hold_stands_in_the_way(target: str, until_at: float, *, holds: bool) -> None:
    change = change_of(fleet(2, "1"), fleet(2, "2"))
    told = held([Hold(target, until_at, "ops", "an incident", 0.0)], change, 15.0)
    assert told == (f"ops holds {target}: an incident" if holds else "")
