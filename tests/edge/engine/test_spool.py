"""Reading what gateways spooled: whole lines once, whatever happens to the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ds4watch.engine.spool import booked_whole, read_spools, remove, shrunk, sizes_in
from ds4watch.history.ledger_values import SpoolBatch
from tests.unit.engine.test_signals import RECORD


def line(seq: int) -> str:
    return json.dumps(replace(RECORD, seq=seq).as_json()) + "\n"


def seqs(batches: tuple[SpoolBatch, ...]) -> list[int]:
    return [record.seq for batch in batches for record in batch.records]


def offsets(batches: tuple[SpoolBatch, ...]) -> dict[str, int]:
    return {batch.gateway: batch.end_bytes for batch in batches}


def test_lines_are_read_once_and_a_half_line_waits(tmp_path: Path) -> None:
    spool = tmp_path / "g0.jsonl"
    spool.write_text(line(1) + line(2)[:20])
    first = read_spools(tmp_path, {})
    assert seqs(first) == [1]
    assert read_spools(tmp_path, offsets(first)) == ()
    spool.write_text(line(1) + line(2))
    (second,) = read_spools(tmp_path, offsets(first))
    assert second.records == (replace(RECORD, seq=2),)
    assert second.start_bytes == first[0].end_bytes


def test_a_spoiled_line_is_told_and_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "g0.jsonl").write_text(line(1) + "{oops\n" + line(2))
    assert seqs(read_spools(tmp_path, {})) == [1, 2]
    assert "g0.jsonl" in caplog.text


def test_a_file_begun_anew_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "g0.jsonl").write_text(line(1))
    assert read_spools(tmp_path, {"g0": 10_000}) == ()
    assert shrunk(sizes_in(tmp_path), {"g0": 10_000}) == ("g0",)


def test_only_files_that_are_left_behind_and_booked_whole_are_removed(tmp_path: Path) -> None:
    for name in ("g0", "g0.000001", "g0.000002", "g1"):
        (tmp_path / f"{name}.jsonl").write_text(line(1))
    read = offsets(read_spools(tmp_path, {}))
    assert booked_whole(sizes_in(tmp_path), {}) == ()
    assert booked_whole(sizes_in(tmp_path), read) == ("g0", "g0.000001")
    assert booked_whole(sizes_in(tmp_path), read | {"g0": 3}) == ("g0.000001",)
    remove(tmp_path, "g0")
    assert booked_whole(sizes_in(tmp_path), read) == ("g0.000001",)


def test_each_gateway_has_an_offset_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "g0.jsonl").write_text(line(1))
    (tmp_path / "g1.jsonl").write_text(line(1) + line(2))
    read = read_spools(tmp_path, {})
    assert seqs(read) == [1, 1, 2]
    assert set(offsets(read)) == {"g0", "g1"}
