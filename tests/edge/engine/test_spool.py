"""Reading what gateways spooled: whole lines once, whatever happens to the file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ds4watch.engine.spool import read_spools
from tests.unit.engine.test_signals import RECORD


def line(seq: int) -> str:
    return json.dumps(replace(RECORD, seq=seq).as_json()) + "\n"


def test_lines_are_read_once_and_a_half_line_waits(tmp_path: Path) -> None:
    spool = tmp_path / "g0.jsonl"
    spool.write_text(line(1) + line(2)[:20])
    first = read_spools(tmp_path, {})
    assert [record.seq for record in first.records] == [1]
    assert read_spools(tmp_path, first.offsets).records == ()
    spool.write_text(line(1) + line(2))
    second = read_spools(tmp_path, first.offsets)
    assert [record.seq for record in second.records] == [2]
    assert second.records[0] == replace(RECORD, seq=2)


def test_a_spoiled_line_is_told_and_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "g0.jsonl").write_text(line(1) + "{oops\n" + line(2))
    assert [record.seq for record in read_spools(tmp_path, {}).records] == [1, 2]
    assert "g0.jsonl" in caplog.text


def test_a_file_begun_anew_is_read_from_its_start(tmp_path: Path) -> None:
    (tmp_path / "g0.jsonl").write_text(line(1))
    assert len(read_spools(tmp_path, {"g0": 10_000}).records) == 1


def test_each_gateway_has_an_offset_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "g0.jsonl").write_text(line(1))
    (tmp_path / "g1.jsonl").write_text(line(1) + line(2))
    read = read_spools(tmp_path, {})
    assert len(read.records) == 3
    assert set(read.offsets) == {"g0", "g1"}
