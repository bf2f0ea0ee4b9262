"""Logs stay bounded while a process writes on, and lose nothing that people look for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ds4watch.fleet.ring_log import Follower, last_lines, older, trim

WRITER = """
import sys
for line in sys.stdin:
    print(line, end="", flush=True)
"""


def test_a_small_log_and_a_missing_one_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    assert not trim(path, 10)
    path.write_text("0123456789")
    assert not trim(path, 10)
    assert path.read_text() == "0123456789"


def test_a_process_writes_on_over_a_cut_and_the_end_is_read_from_both_sides(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.log"
    with (
        path.open("ab") as stream,
        subprocess.Popen(
            [sys.executable, "-S", "-c", WRITER], stdin=subprocess.PIPE, stdout=stream, text=True
        ) as writer,
    ):
        assert writer.stdin is not None
        writer.stdin.write("".join(f"before {number}\n" for number in range(100)))
        writer.stdin.flush()
        follower = Follower(path)
        text = ""
        while "before 99\n" not in path.read_text():
            pass
        text += follower.more()
        assert trim(path, 200)
        writer.stdin.write("after\n")
        writer.stdin.close()
        writer.wait()
    assert path.read_text() == "after\n"
    assert older(path).stat().st_size == 200
    assert last_lines(path, 3) == ["before 98", "before 99", "after"]
    assert text.endswith("before 99\n") or not text
    assert follower.more() == "after\n"
    assert follower.more() == ""


def test_a_log_that_grew_without_a_daemon_keeps_its_end_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    older(path).write_text("long ago\n")
    path.write_bytes(b"x" * 5000 + b"the end\n")
    assert trim(path, 8)
    assert older(path).read_text() == "the end\n"


def test_without_room_for_the_copy_the_log_is_cut_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("0123456789")
    older(path).mkdir()  # cannot be written, as on a full disk
    (older(path) / "x").write_text("")
    assert trim(path, 5)
    assert path.read_text() == ""
