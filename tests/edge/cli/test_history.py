"""`ds4watch history` on stores of its own, as a person runs it."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ds4watch.cli import main
from ds4watch.fleet.lock import daemon_lock
from ds4watch.history.place import Place, Server
from ds4watch.history.samples import SampleStore
from ds4watch.model.scrape import Target
from ds4watch.model.series import SeriesKey
from tests.edge.cli.test_commands import ROOT, Ended, ds4watch
from tests.edge.history.conftest import postgres as _postgres
from tests.edge.history.folding import SLOT, open_store
from tests.edge.history.helpers import AB, W1, W2, failed, query, scrape
from tests.postgres import PASSWORD, PostgresServer

postgres = _postgres

NOW = 1_739_998_800.0
"""21:00 UTC on a day that is over."""
DAY = "2025-02-19"


async def fill(place: Place, *, seconds: int = 2 * SLOT + 100) -> None:
    """Twenty minutes of two targets, of which most is folded."""
    store = open_store(place)
    store.intern(AB)
    for target in (W1, W2):
        await store.append(
            [scrape(NOW + at, [at, at / 8], target=target) for at in range(0, seconds, 10)]
        )
    await store.append([failed(NOW + seconds)])
    await store.fold(NOW + seconds)
    await store.close()


@pytest.fixture
async def state(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    await fill(folder / "samples.db")
    return folder


async def history(state: Path, *arguments: str) -> Ended:
    """Run the command in this process: a new one takes a second to start."""
    return await asyncio.to_thread(run_here, "history", *arguments, "--state", str(state))


def run_here(*arguments: str) -> Ended:
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(arguments))
        except SystemExit as end:
            code = end.code
    assert isinstance(code, int)
    return Ended(code, out.getvalue(), err.getvalue())


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


async def test_inspect_tells_what_there_is(state: Path) -> None:
    shown, program = (await history(state, "inspect"), await history(state, "inspect", "--json"))
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[1][:8] == [
        "w1", DAY, "21:00:00Z", DAY, "21:21:40Z", "131", "260", "2",
    ]  # fmt: skip
    one, two = json.loads(program.out)
    assert (one["target"], two["target"]) == ("w1", "w2")
    assert (one["scrapes"], one["samples"], one["rows"], one["chunks"]) == (131, 260, 11, 2)
    assert (one["first_at"], one["last_at"]) == (NOW, NOW + 2 * SLOT + 100)
    assert one["rollups_first_at"] == NOW
    assert one["rollup_bytes"] > 0 < one["bytes_a_sample"]


async def test_a_store_without_samples_says_so(tmp_path: Path) -> None:
    store = SampleStore.open(tmp_path / "samples.db", Still())
    await store.close()
    shown, program = (
        await history(tmp_path, "inspect"),
        await history(tmp_path, "inspect", "--json"),
    )
    assert shown == Ended(0, "nothing is stored yet\n", "")
    assert program == Ended(0, "[]\n", "")
    assert await history(tmp_path, "export") == Ended(0, "# EOF\n", "")


class Still:
    def now(self) -> float:
        return NOW

    def monotonic(self) -> float:
        return 0.0


@pytest.mark.parametrize(
    "arguments", [["inspect"], ["export"], ["verify"], ["prune", "--before", "2h"]]
)
async def test_nothing_is_made_where_nothing_is(arguments: list[str], tmp_path: Path) -> None:
    state = tmp_path / "state"
    ended = await history(state, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert "there is no such state folder: nothing is stored yet" in ended.err
    assert not state.exists()
    state.mkdir()
    ended = await history(state, *arguments)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "samples.db: nothing is stored yet: there is no such file" in ended.err
    assert not (state / "samples.db").exists()


async def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "samples.db").write_bytes(b"this is a letter to my aunt, not a database" * 99)
    ended = await history(tmp_path, "verify")
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "samples.db: file is not a database" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["samples.db"]


async def test_a_database_of_another_version_is_not_touched(state: Path) -> None:
    query(state / "samples.db", "UPDATE alembic_version SET version_num = 'future'")
    ended = await history(state, "inspect")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "was made by another version of ds4watch (schema future" in ended.err


async def test_a_part_is_exported_by_target_metric_and_time(state: Path) -> None:
    at = int(NOW)
    part = ("--target", "w2", "--name", "b", "--start", f"{at + 590}")
    om, table = (
        await history(state, "export", *part, "--end", f"{DAY}T21:10:10Z"),
        await history(state, "export", *part, "--end", f"{at + 610}", "--format", "csv"),
    )
    assert om.out.splitlines() == [
        f'b{{job="vllm",worker="w2",x="1"}} {(second / 8)!r} {at + second}.000'
        for second in (590, 600, 610)
    ] + ["# EOF"]
    assert [(row["time"], row["labels"], row["value"]) for row in rows_of(table.out)] == [
        (f"{DAY}T21:{it}.000+00:00", 'job="vllm",worker="w2",x="1"', value)
        for it, value in (("09:50", "73.75"), ("10:00", "75.0"), ("10:10", "76.25"))
    ]
    assert om.err == table.err == ""


async def test_up_and_its_kin_are_exported_with_the_page(state: Path) -> None:
    ended = await history(state, "export", "--target", "w1")
    last = NOW + 2 * SLOT + 100
    assert f'up{{job="vllm",worker="w1"}} 0.0 {last:.3f}' in ended.out.splitlines()
    assert f'scrape_duration_seconds{{job="vllm",worker="w1"}} 5.0 {last:.3f}' in ended.out
    assert ended.out.count("up{") == 131


async def test_promql_is_evaluated_over_what_is_stored(state: Path) -> None:
    span = ("--start", str(int(NOW) + 600), "--end", str(int(NOW) + 660), "--step", "30")
    asked = ("query", "sum by (job) (rate(a[1m]))", *span)
    table, program = await history(state, *asked), await history(state, *asked, "--json")
    assert (table.code, table.err) == (0, "")
    rows = rows_of(table.out)
    assert [(row["time"], row["series"]) for row in rows] == [
        (f"{DAY}T21:{at}.000+00:00", '{job="vllm"}') for at in ("10:00", "10:30", "11:00")
    ]
    assert [float(row["value"]) for row in rows] == pytest.approx([2.0, 2.0, 2.0])
    (series,) = json.loads(program.out)
    assert series["metric"] == {"job": "vllm"}
    assert [at for at, _ in series["values"]] == [NOW + 600, NOW + 630, NOW + 660]


@pytest.mark.parametrize("step", ["60s", "1m", "60", "60.0"])
async def test_a_step_is_a_duration_or_seconds_and_the_span_is_as_of_replay(
    state: Path, step: str
) -> None:
    span = ("--from", str(int(NOW) + 600), "--to", str(int(NOW) + 660), "--step", step)
    ended = await history(state, "query", "sum by (job) (rate(a[1m]))", *span)
    assert (ended.code, ended.err) == (0, "")
    assert [row["time"][-18:-10] for row in rows_of(ended.out)] == ["21:10:00", "21:11:00"]


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("sum(a", "unclosed left parenthesis, at character 4"),
        ("1 + info(a)", "the function info() is not supported, at character 5"),
    ],
)
async def test_what_is_no_query_is_told_with_its_place(
    state: Path, expression: str, told: str
) -> None:
    wrong = await history(state, "query", expression)
    assert (wrong.code, wrong.out, wrong.err) == (2, "", f"ds4watch: PROMQL: {told}\n")


async def test_a_file_is_for_its_owner_only(state: Path, tmp_path: Path) -> None:
    ended = await history(state, "export", "-o", str(tmp_path / "out.om"))
    assert ended == Ended(0, "", "")
    assert (tmp_path / "out.om").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "out.om").read_text().endswith("# EOF\n")


async def test_a_reader_that_leaves_is_no_trouble(state: Path) -> None:
    program = f"{sys.executable} -m ds4watch history export"
    process = await asyncio.create_subprocess_shell(
        f"{program} --state {state} | head -n 1",
        env={**os.environ, "PYTHONPATH": str(ROOT), "HOME": str(state)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert (out.count(b"\n"), err) == (1, b"")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["export", "--start", "soon"], "--start: must be a time such as 2026-"),
        (["export", "--start", "1h", "--end", "2h"], "--start: 1h is after the end, 2h"),
        (["export", "--target", "w3"], "--target: nothing is stored of w3 (see `ds4watch history"),
        (["export", "--resolution", "1m"], "--resolution: roll-ups are exported as CSV (add"),
        (["export", "-o", "no/such/place"], "--output: no/such/place cannot be written: no such"),
        (["prune", "--before", "2100-01-01"], "--before: 2100-01-01 is yet to come (all of it"),
    ],
)
async def test_bad_input_is_one_line_and_exit_code_2(
    arguments: list[str], line: str, state: Path
) -> None:
    ended = await history(state, *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith(f"ds4watch: {line}")


async def test_prune_without_an_instant_deletes_nothing(state: Path) -> None:
    for arguments in ([], ["everything"], ["--older", "2h"]):
        ended = await history(state, "prune", *arguments)
        assert ended.code == 2
        assert "Traceback" not in ended.err
    assert query(state / "samples.db", "SELECT count(*) FROM chunks") == [(4,)]


async def test_what_is_damaged_is_named(state: Path) -> None:
    assert await history(state, "verify") == Ended(0, "all of it is sound\n", "")
    query(state / "samples.db", "UPDATE chunks SET checksum = checksum + 1 WHERE id = 1")
    query(state / "samples.db", "UPDATE rollups SET payload = x'00' WHERE id = 2")
    shown, program, exported = (
        await history(state, "verify"),
        await history(state, "verify", "--json"),
        await history(state, "export"),
    )
    assert (shown.code, program.code, exported.code) == (1, 1, 1)
    assert shown.out == (
        "w1: chunk 1 is left out: its checksum is wrong\n"
        "w1: roll-up 2 is left out: its checksum is wrong\n"
        "damaged: 2\n"
    )
    assert [one["target"] for one in json.loads(program.out)] == ["w1", "w1"]
    assert exported.err == "ds4watch: chunk 1 is left out: its checksum is wrong\n"
    assert exported.out.endswith("# EOF\n")


async def test_pruning_goes_by_the_instant_and_never_beside_a_daemon(state: Path) -> None:
    with daemon_lock(state):
        ended = await history(state, "prune", "--before", "1h")
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert (
            f"the daemon, process {os.getpid()}, is at work here and prunes by itself" in ended.err
        )
    ended = await history(state, "prune", "--before", f"{DAY}T21:10:01")
    assert ended == Ended(0, "120 scrapes and 20 roll-ups deleted\n", "")
    assert (await history(state, "export", "--name", "a")).out.startswith(
        f'a{{job="vllm",worker="w1"}} 600.0 {NOW + SLOT:.3f}\n'
    )
    assert await history(state, "prune", "--before", "1h") == Ended(
        0, "141 scrapes and 20 roll-ups deleted\n", ""
    )
    assert await history(state, "inspect") == Ended(0, "nothing is stored yet\n", "")


async def test_targets_that_cannot_be_told_apart_are_refused(state: Path) -> None:
    store = open_store(state / "samples.db")
    twin = Target("w9", "http://w9", W1.labels)
    await store.append([scrape(NOW, [1, 2], target=twin)])
    await store.close()
    ended = await history(state, "export")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "w1 and w9 have the same labels" in ended.err
    ended = await history(state, "export", "--target", "w9")
    assert ended.code == 0


RAW = [(0, 5.0), (20, 9.0), (50, 7.0), (61, 2.0), (70, 4.0), (130, 4.0), (131, np.nan), (179, 10.0)]
"""A counter: at 61 it began anew."""


def by_hand(samples: Sequence[tuple[int, float]], seconds: int) -> dict[str, list[float]]:
    """Minimum, maximum, mean, last, increase and samples of each bucket, the plain way."""
    found: dict[str, list[float]] = {}
    previous = None
    for start in range(0, 180, seconds):
        values = [it for at, it in samples if start <= at < start + seconds and it == it]  # noqa: PLR0124
        grown = 0.0
        for value in values:
            if previous is not None:
                grown += value - previous if value >= previous else value
            previous = value
        mean = sum(values) / len(values)
        clock = f"{DAY}T21:{start // 60:02}:00.000+00:00"
        found[clock] = [min(values), max(values), mean, values[-1], grown, len(values)]
    return found


@pytest.mark.parametrize(("resolution", "seconds"), [("1m", 60), ("1h", 3600)])
async def test_roll_ups_are_what_the_samples_say(
    tmp_path: Path, resolution: str, seconds: int
) -> None:
    """Over a restart of the worker, after which its page has other series."""
    store = open_store(tmp_path / "samples.db")
    other = store.intern((SeriesKey("new"), AB[0])) if store.intern(AB) else None
    assert other is not None
    for at, value in RAW:
        row = [0.5, value] if at > 60 else [value, 0.25]
        await store.append([scrape(NOW + at, row, schema_id=other.id if at > 60 else 1)])
    await store.append([scrape(NOW + 3600, [1.0, 10.0], schema_id=other.id)])
    await store.fold(NOW + 2 * 3600)
    await store.close()
    ended = await history(
        tmp_path, "export", "--format", "csv", "--resolution", resolution, "--name", "a",
        "--end", f"{NOW + 1800}",
    )  # fmt: skip
    columns = ("minimum", "maximum", "mean", "last", "increase", "samples")
    found = {row["time"]: [float(row[it]) for it in columns] for row in rows_of(ended.out)}
    assert found == by_hand(RAW, seconds)


@pytest.mark.needs("postgres")
async def test_a_server_is_read_and_pruned_as_a_file_is(
    postgres: PostgresServer, state: Path, tmp_path: Path
) -> None:
    url = postgres.new_database()
    (tmp_path / "ds4watch.yml").write_text(f"store:\n  url: {url}\n")
    none = await ds4watch("history", "inspect", cwd=tmp_path)
    assert none.code == 2
    assert "nothing is stored yet" in none.err
    assert PASSWORD not in none.err
    plain = tmp_path / "plain.yml"
    plain.write_text("")
    place = Server(url)
    await fill(place)
    part = ("history", "export")
    ours, theirs = (
        await ds4watch(*part, cwd=tmp_path),
        await history(state, *part[1:], "--config", str(plain)),
    )
    assert ours.out == theirs.out
    assert ours.out.count("\n") > 700
    assert (await ds4watch("history", "verify", cwd=tmp_path)).out == "all of it is sound\n"
    store = open_store(place)
    refused = await ds4watch("history", "prune", "--before", "1h", cwd=tmp_path)
    await store.close()
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "a ds4watch is connected to this database" in refused.err
    assert PASSWORD not in refused.err
    pruned = await ds4watch("history", "prune", "--before", "1h", cwd=tmp_path)
    assert pruned.code == 0, pruned.err
