from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.gateway.replay_memory import ReplayMemory, Seen


def test_a_signature_is_new_once_in_all_processes_and_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "replay.bin"
    one, other = ReplayMemory(path), ReplayMemory(path)
    assert one.note("s", 100.0, good_seconds=60) is Seen.NEW
    assert one.note("s", 130.0, good_seconds=60) is Seen.REPLAYED
    assert other.note("s", 159.0, good_seconds=60) is Seen.REPLAYED
    assert other.note("t", 159.0, good_seconds=60) is Seen.NEW
    one.close()
    other.close()
    assert ReplayMemory(path).note("s", 159.0, good_seconds=60) is Seen.REPLAYED
    assert path.stat().st_mode & 0o077 == 0


def test_what_is_no_longer_good_makes_room(tmp_path: Path) -> None:
    memory = ReplayMemory(tmp_path / "replay.bin", sets=1)
    assert all(memory.note(f"s{n}", 100.0, good_seconds=60) is Seen.NEW for n in range(16))
    # Full: better refused than taken twice.
    assert memory.note("more", 100.0, good_seconds=60) is Seen.UNKNOWN
    assert memory.note("s3", 100.0, good_seconds=60) is Seen.REPLAYED
    assert memory.note("more", 200.0, good_seconds=60) is Seen.NEW


def test_where_nothing_can_be_noted_nothing_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = ReplayMemory(tmp_path / "none" / "replay.bin")
    assert memory.note("s", 100.0, good_seconds=60) is Seen.UNKNOWN
    assert "signed requests are refused" in caplog.text
