"""What `ds4watch cost` tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.edge.cli.test_commands import ds4watch
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import serving


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (
            ("today",),
            [
                "busy 2.50 EUR 62.5%",
                "idle 1.50 EUR 37.5%",
                "total 4.00 EUR 100.0%",
                "storage, beside it 0.0548 EUR",
            ],
        ),
        (("by", "worker"), ["w0 3.00 EUR 75.0%", "w1 1.00 EUR 25.0%", "total 4.00 EUR 100.0%"]),
        (
            ("by", "key"),
            [
                "alice 2.00 EUR 50.0%",
                "bob 1.00 EUR 25.0%",
                "hours without requests 1.00 EUR 25.0%",
                "total 4.00 EUR 100.0%",
            ],
        ),
        (
            ("why",),
            [
                "usual 2.00 EUR",
                "price +2.00 EUR",
                "traffic +1.00 EUR",
                "this hour (spent) 5.00 EUR",
            ],
        ),
        (("why", "--measure", "used"), []),
    ],
)
async def test_money_is_told_by_what_was_asked(
    words: tuple[str, ...], lines: list[str], tmp_path: Path
) -> None:
    async with serving(FakeDaemon()) as server:
        ended = await ds4watch("cost", *words, "--admin", server.url, cwd=tmp_path)
    told = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert told[1:] == lines
    assert ended.code == 0


async def test_a_program_gets_the_rows_and_the_sums(tmp_path: Path) -> None:
    async with serving(FakeDaemon()) as server:
        ended = await ds4watch("cost", "by", "key", "--json", "--admin", server.url, cwd=tmp_path)
    found = json.loads(ended.out)
    assert found["nanos"] == {"alice": 2_000_000_001, "bob": 10**9}
    assert sum(found["nanos"].values()) + found["nobody"] == found["total"] == 4_000_000_001


async def test_rows_are_exported_as_csv(tmp_path: Path) -> None:
    async with serving(FakeDaemon()) as server:
        costs = await ds4watch("cost", "export", "--admin", server.url, cwd=tmp_path)
        work = await ds4watch("cost", "export", "--work", "--admin", server.url, cwd=tmp_path)
    assert costs.out.splitlines()[:2] == [
        "hour_at,worker,profile,part,method,nanos",
        "0,w0,p,busy,none,2500000000",
    ]
    assert work.out.splitlines()[1] == "0,alice,tiny,2,1000,250,100,2000000001"


async def test_prompts_of_each_length_are_told_apart_shortest_first(tmp_path: Path) -> None:
    async with serving(FakeDaemon()) as server:
        shown = await ds4watch("cost", "by", "context", "--admin", server.url, cwd=tmp_path)
        told = await ds4watch(
            "cost", "by", "context", "--json", "--admin", server.url, cwd=tmp_path
        )
    assert [line.split()[:3] for line in shown.out.splitlines()[1:]] == [
        ["up", "to", "1K"],
        ["up", "to", "2K"],
    ]
    bands = json.loads(told.out)["bands"]
    assert {band: sums["nanos"] for band, sums in bands.items()} == {"1k": 10**9, "2k": 15 * 10**8}
    assert bands["1k"]["again_tokens"] == 100
