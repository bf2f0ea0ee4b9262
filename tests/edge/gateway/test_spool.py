from __future__ import annotations

import asyncio
import json
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ds4watch.gateway.call import Call
from ds4watch.gateway.spool import Spool
from ds4watch.model.errors import StoreError
from ds4watch.model.usage import RequestOutcome
from tests.edge.gateway.support import records_in


def numbered(name: str) -> Callable[[int], bytes]:
    call = Call(id=name, path="/v1/completions", started_at=0.9, model_asked="m", worker="w")
    call.end(200, RequestOutcome.OK)
    return lambda seq: call.line(gateway="g0", seq=seq, now=1.0, ended_at=1.0)


def path_in(folder: Path) -> Path:
    return folder / "spool" / "g0.jsonl"


async def written(spool: Spool, *names: str) -> None:
    for name in names:
        spool.append(numbered(name))
    spool.close()
    await spool.run()


async def test_numbers_go_on_after_a_restart(tmp_path: Path) -> None:
    await written(Spool(path_in(tmp_path)), "a", "b")
    await written(Spool(path_in(tmp_path)), "c")
    assert [(r.seq, r.id) for r in records_in(tmp_path)] == [(1, "a"), (2, "b"), (3, "c")]


async def test_half_a_line_of_a_crash_is_cut_off(tmp_path: Path) -> None:
    await written(Spool(path_in(tmp_path)), "a", "b")
    with path_in(tmp_path).open("ab") as stream:
        stream.write(b'{"seq": 3, "id": "ha')
    await written(Spool(path_in(tmp_path)), "c")
    assert [(r.seq, r.id) for r in records_in(tmp_path)] == [(1, "a"), (2, "b"), (3, "c")]


async def test_a_line_that_cannot_be_read_does_not_start_the_numbers_anew(tmp_path: Path) -> None:
    await written(Spool(path_in(tmp_path)), "a", "b")
    with path_in(tmp_path).open("ab") as stream:
        stream.write(b"garbage\n[]\n")
    await written(Spool(path_in(tmp_path)), "c")
    assert json.loads(path_in(tmp_path).read_bytes().splitlines()[-1])["seq"] == 3


async def test_a_large_file_is_followed_by_the_next_and_numbers_go_on(tmp_path: Path) -> None:
    for names in ("ab", "c", "d"):
        spool = Spool(path_in(tmp_path), max_file_bytes=100)
        await written(spool, *names)
    folder = tmp_path / "spool"
    assert {path.name for path in folder.iterdir()} == {
        "g0.jsonl",
        "g0.000001.jsonl",
        "g0.000002.jsonl",
        "g0.000003.jsonl",
    }
    lines = [line for path in sorted(folder.iterdir()) for line in path.read_text().splitlines()]
    assert sorted(json.loads(line)["seq"] for line in lines) == [1, 2, 3, 4]
    (folder / "g0.jsonl").unlink()
    await written(Spool(path_in(tmp_path)), "e")
    assert json.loads((folder / "g0.000003.jsonl").read_text())["seq"] == 5


async def test_records_are_in_the_file_while_it_runs(tmp_path: Path) -> None:
    spool = Spool(path_in(tmp_path))
    running = asyncio.create_task(spool.run())
    spool.append(numbered("a"))
    async with asyncio.timeout(2):
        while not records_in(tmp_path):
            await asyncio.sleep(0.01)
    spool.close()
    await running


async def test_a_full_queue_loses_records_but_no_numbers(tmp_path: Path) -> None:
    spool = Spool(path_in(tmp_path), max_queued=2)
    await written(spool, "a", "b", "c", "d")
    assert [r.seq for r in records_in(tmp_path)] == [1, 2]
    assert spool.dropped == 2
    await written(Spool(path_in(tmp_path)), "e")
    assert [r.seq for r in records_in(tmp_path)] == [1, 2, 3]


async def test_a_second_gateway_of_the_same_name_is_refused(tmp_path: Path) -> None:
    spool = Spool(path_in(tmp_path))
    with pytest.raises(StoreError, match="in use by another gateway"):
        Spool(path_in(tmp_path))
    await written(spool)


async def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    with pytest.raises(StoreError, match="cannot be written"):
        Spool(path_in(tmp_path))


async def test_what_a_full_disk_cannot_take_waits_for_room(tmp_path: Path) -> None:
    await written(Spool(path_in(tmp_path)), "a")
    size = path_in(tmp_path).stat().st_size
    spool = Spool(path_in(tmp_path))
    running = asyncio.create_task(spool.run())
    # A file size limit stands in for a full disk: it takes one line and a half.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + size + size // 2, limits[1]))
        for name in "bcd":
            spool.append(numbered(name))
        async with asyncio.timeout(2):
            while len(records_in(tmp_path)) < 2:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.25)  # a few more tries
        assert [r.id for r in records_in(tmp_path)] == ["a", "b"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    spool.close()
    await running
    assert [(r.seq, r.id) for r in records_in(tmp_path)] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (4, "d"),
    ]
    assert spool.dropped == 0
