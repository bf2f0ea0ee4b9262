from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from ds4watch import __version__
from ds4watch.access.roles import Role
from ds4watch.cli import COMMANDS
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, serving

ROOT = Path(__file__).parents[3]
NOBODY = "http://127.0.0.1:1"


class Ended(NamedTuple):
    code: int
    out: str
    err: str


async def ds4watch(*arguments: str, cwd: Path, **environ: str) -> Ended:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ds4watch",
        *arguments,
        cwd=cwd,
        env={"HOME": str(cwd), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", **environ},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def test_the_status_of_a_daemon_is_shown_in_words(tmp_path: Path) -> None:
    async with serving(FakeDaemon()) as server:
        ended = await ds4watch("status", "--admin", server.url, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert "waiting for sim-quantized-1 to load its model" in ended.out
    assert "level 2 (cheaper-sibling)" in ended.out
    assert "QueueDepthHigh on sim-full-1" in ended.out
    assert "cost 1.90 USD an hour; today 0.0317 USD, in all 12.48 USD" in ended.out
    lines = {line.split()[0]: line.split() for line in ended.out.splitlines() if line.strip()}
    assert lines["sim-full-1"][:6] == ["sim-full-1", "ready", "sim-full", "8", "23", "81.2"]
    assert lines["sim-quantized-1"][3:5] == ["-", "-"]
    assert lines["ds4_prefill_token_ratio"] == ["ds4_prefill_token_ratio", "-"]
    assert lines["fold"][3:7] == ["0.4", "s", "1200", "scrapes"]
    assert "database or disk is full" in " ".join(lines["prune"])
    assert lines["quality"][3:] == ["-", "running"]
    assert "\x1b" not in ended.out


async def test_a_program_gets_json(tmp_path: Path) -> None:
    daemon = FakeDaemon()
    async with serving(daemon) as server:
        status, workers, audit = await asyncio.gather(
            ds4watch("status", "--json", "--admin", server.url, cwd=tmp_path),
            ds4watch("workers", "--json", "--admin", server.url, cwd=tmp_path),
            ds4watch("audit", "--json", "--admin", server.url, cwd=tmp_path),
        )
    assert json.loads(status.out) == daemon.status()
    assert [worker["id"] for worker in json.loads(workers.out)] == ["sim-full-1", "sim-quantized-1"]
    assert [json.loads(line)["id"] for line in audit.out.splitlines()] == [1, 2, 3, 4]


async def test_the_audit_reads_as_a_story_oldest_first(tmp_path: Path) -> None:
    daemon = FakeDaemon()
    daemon.rows[1]["summary"] += "\x1b[2J\n"
    async with serving(daemon) as server:
        ended = await ds4watch("audit", "--limit", "3", "--admin", server.url, cwd=tmp_path)
    lines = ended.out.splitlines()
    assert [line.split()[2] for line in lines] == ["alert", "alert", "action"]
    assert "default" in lines[2]
    assert lines[2].endswith("level 1 to 2 (cheaper-sibling): QueueDepthHigh is firing")
    assert "\x1b" not in ended.out


async def test_requests_are_added_up_for_people_and_for_programs(tmp_path: Path) -> None:
    async with serving(FakeDaemon()) as server:
        where = ("--hours", "3", "--admin", server.url)
        shown, told, wrong = await asyncio.gather(
            ds4watch("requests", *where, cwd=tmp_path, COLUMNS="160"),
            ds4watch("requests", "--by", "class", "--json", *where, cwd=tmp_path),
            ds4watch("requests", "--by", "moon", *where, cwd=tmp_path),
        )
    (line,) = [line for line in shown.out.splitlines() if line.startswith("team-a")]
    assert line.split()[2:] == [
        *("1,200", "3", "4", "5", "6", "7", "50,000", "20,000", "9,000"),
        *("1.50", "0.25", "40.00", "300.00", "80.00", "1.2346"),
    ]
    assert "\x1b" not in shown.out
    assert "EUR" in shown.out
    found = json.loads(told.out)
    assert (found["by"], found["requests"][0]["nanos"]) == ("class", 1_234_567_891)
    assert wrong.code == 2
    assert "moon" in wrong.err


async def test_a_hold_is_placed_with_the_local_token_and_lifted(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "admin.token").write_text(SECRETS[Role.ADMIN] + "\n")
    environ = {"STATE_DIRECTORY": str(state), "LOGNAME": "ann"}
    daemon = FakeDaemon()
    async with serving(daemon) as server:
        where = ("--admin", server.url)
        told = ("hold", "default", "--for", "30m", "--why", "load test", *where)
        ended = await ds4watch(*told, cwd=tmp_path, **environ)
        assert ended.out.startswith("hold on default until "), ended.err
        assert daemon.held["default"]["why"] == "load test"
        assert daemon.held["default"]["who"] == "ann"
        assert daemon.held["default"]["until_at"] - daemon.held["default"]["placed_at"] == 1800
        ended = await ds4watch("resume", "default", *where, cwd=tmp_path, **environ)
        assert (ended.code, ended.out) == (0, "the hold on default is lifted\n")
        assert daemon.held == {}
        await ds4watch(*told, cwd=tmp_path, **environ)
        ended = await ds4watch("resume", "default", "--json", *where, cwd=tmp_path, **environ)
        assert json.loads(ended.out) == {"lifted": "default"}
        ended = await ds4watch("resume", "default", *where, cwd=tmp_path, **environ)
        assert ended.code == 1
        assert "(404): there is no hold on default" in ended.err


async def test_without_a_token_a_change_is_refused_in_one_line(tmp_path: Path) -> None:
    async with serving(FakeDaemon()) as server:
        ended = await ds4watch("resume", "x", "--admin", server.url, cwd=tmp_path)
    assert ended.code == 1
    assert ended.err.startswith("ds4watch: the daemon refuses (401): needs a token")
    assert ended.err.count("\n") == 1


async def test_the_end_of_a_workers_log_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    log.write_text("".join(f"line {at}\n" for at in range(10)))
    daemon = FakeDaemon()
    daemon.state["fleet"][0]["log"] = str(log)
    async with serving(daemon) as server:
        where = ("--admin", server.url)
        shown, unknown = await asyncio.gather(
            ds4watch("workers", "logs", "sim-full-1", "-n", "2", *where, cwd=tmp_path),
            ds4watch("workers", "logs", "gone-1", *where, cwd=tmp_path),
        )
    assert shown.out == "line 8\nline 9\n"
    assert (unknown.code, unknown.err) == (
        1,
        "ds4watch: there is no worker gone-1 (there are: sim-full-1, sim-quantized-1)\n",
    )


async def test_no_daemon_is_one_line_that_says_what_to_do(tmp_path: Path) -> None:
    ended = await ds4watch("status", "--admin", NOBODY, cwd=tmp_path)
    assert ended == Ended(
        1, "", f"ds4watch: no daemon answers at {NOBODY}: start one with `ds4watch up`\n"
    )


SETTINGS = "scrape:\n  interval_seconds: -1\nadmin:\n  prot: 1\ncost:\n  currency: euro\n"
FAULTS = (
    "ds4watch: ds4watch.yml:2: scrape.interval_seconds: must be greater than 0, got -1\n"
    "ds4watch: ds4watch.yml:4: admin.prot: unknown key (did you mean `port`?)\n"
    "ds4watch: ds4watch.yml:6: cost.currency: must be three capital letters, such as USD, "
    'got "euro"\n'
)


@pytest.mark.parametrize("command", ["up", "down", "status"])
async def test_bad_settings_are_one_line_each_and_exit_code_2(command: str, tmp_path: Path) -> None:
    (tmp_path / "ds4watch.yml").write_text(SETTINGS)
    assert await ds4watch(command, cwd=tmp_path) == Ended(2, "", FAULTS)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["statsu"], "there is no command 'statsu' (did you mean 'status'?)"),
        (["status", "--config", "no.yml"], "no.yml: there is no such file"),
        (["status", "--admin", "box:1"], "--admin: must be an address such as http://"),
        (["hold", "x", "--why", "y", "--for", "soon"], "--for: must be a time such as 30s"),
    ],
)
async def test_bad_arguments_are_one_line_and_exit_code_2(
    arguments: list[str], line: str, tmp_path: Path
) -> None:
    ended = await ds4watch(*arguments, cwd=tmp_path)
    assert ended.code == 2
    assert ended.err.startswith(f"ds4watch: {line}")
    assert ended.err.count("\n") == 1


async def test_a_profile_that_is_not_there_stops_up_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "ds4watch.yml").write_text("fleet:\n  workers:\n    - profile: nothing\n")
    ended = await ds4watch("up", "--state", str(tmp_path / "state"), cwd=tmp_path)
    assert ended.code == 2
    assert (
        "ds4watch.yml:3: fleet.workers[0].profile: there is no profile nothing (known: "
        in ended.err
    )
    assert not (tmp_path / "state").exists()


async def test_the_help_names_every_command_and_starts_without_the_heavy_libraries(
    tmp_path: Path,
) -> None:
    script = (
        "import sys\nfrom ds4watch.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([name for name in ('typer', 'fastapi', 'sqlalchemy', 'pydantic', 'aiohttp')"
        " if name in sys.modules])"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out = (await process.communicate())[0].decode()
    assert out.endswith("[]\n")
    for name, command in COMMANDS.items():
        assert not command.help or f"  {name}" in out


async def test_the_version_is_told(tmp_path: Path) -> None:
    ended = await ds4watch("version", cwd=tmp_path)
    assert ended == Ended(0, f"ds4watch {__version__}\n", "")
