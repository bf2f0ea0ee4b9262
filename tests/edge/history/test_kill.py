"""Kill -9 at any moment, while scrapes come in and fold."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from tests.edge.history.folding import counting, open_store, rollups_of, seconds_of, verified
from tests.edge.history.helpers import AB, NOW, W1, W2, Base, Bases

STEP = 20
"""A scrape each twenty seconds of its own time, so that a slot is over after thirty."""
KILLS = 8

WRITER = """
import asyncio, sys
from tests.edge.history.folding import counting, open_store
from tests.edge.history.helpers import AB, NOW, W2, place_from

async def main():
    store = open_store(place_from(sys.argv[1]))
    store.intern(AB)
    at = int(sys.argv[2])
    while True:
        await store.append(counting([at]) + counting([at], target=W2))
        print(at, flush=True)
        if at % 300 == 0:
            await store.fold(NOW + at)
        at += int(sys.argv[3])

asyncio.run(main())
"""


def killed_after(base: Base, start: int, lines: int) -> int:
    """Run the writer, kill it somewhere after `lines` appends; return the last it acknowledged."""
    command = [sys.executable, "-c", WRITER, base.argument, str(start), str(STEP)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [int(writer.stdout.readline()) for _ in range(lines)]
        writer.kill()
        said += [int(line) for line in writer.stdout.read().split()]
    assert said == list(range(start, start + STEP * len(said), STEP))
    return said[-1]


@pytest.mark.slow
async def test_kill_9_at_any_moment_loses_and_doubles_nothing(bases: Bases) -> None:
    base = bases.samples
    rng = random.Random(65)
    acknowledged: list[int] = []
    start = 0
    for _ in range(KILLS):
        last = killed_after(base, start, rng.randint(20, 140))
        acknowledged += range(start, last + 1, STEP)
        store = open_store(base.place)
        stored = seconds_of(await store.read("w1", NOW, NOW + 10**6))
        await store.close()
        # The one it was about to acknowledge may be there.
        assert stored[: len(acknowledged)] == acknowledged
        assert len(stored) - len(acknowledged) <= 1
        acknowledged = stored
        start = stored[-1] + STEP
    [(chunks,)] = base.query("SELECT count(*) FROM chunks")
    assert chunks > 10
    store = open_store(base.place)
    assert await verified(base) == []
    for target in (W1, W2):
        back = await store.read(target.name, NOW, NOW + 10**6)
        assert seconds_of(back) == acknowledged
        [page] = counting(acknowledged[-1:])
        assert back[-1].values.tobytes() == page.values.tobytes()
    await store.fold(NOW + start + 10**5)
    minutes = await rollups_of(base, 60, NOW, NOW + 10**6)
    assert sum(frame.count[:, 0].sum() for frame in minutes) == len(acknowledged)
    assert sum(frame.increase[:, 0].sum() for frame in minutes) == acknowledged[-1]
    assert store.intern(AB).id == 1
    await store.close()
