"""docs/getting-started.md, as a stranger follows it: its blocks, in order, on one daemon."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.flow.daemon import Daemon, environment, new_daemon, until
from tests.unit.docs.documents import DOCS, ROOT, Block, blocks

GUIDE = DOCS / "getting-started.md"
STEP_SECONDS = 40.0
SHORT = (("make run SIM=1", "ds4watch up --sim"), ("--seconds 30", "--seconds 6"))
"""What is done in less time, or without a new virtual environment."""
WRAPPER = """\
#!/bin/sh
case $1 in load) set -- "$@" --url http://127.0.0.1:{gateway} ;; esac
exec {python} -m ds4watch "$@"
"""
"""The command; the load goes to this test's gateway."""


def quick_policy() -> str:
    """Return the shipped policy with fewer seconds; a level stays for some, to be seen."""
    policy = yaml.safe_load((ROOT / "serving" / "policy.yml").read_text(encoding="utf-8"))
    policy["pools"]["default"] |= {"settle_seconds": 3, "clear_hold_seconds": 1}
    return yaml.safe_dump(policy)


def quick_rules() -> str:
    """Return the shipped rules of load; an alert is over sooner."""
    shipped = (ROOT / "rules" / "ds4watch.yml").read_text(encoding="utf-8")
    return shipped.replace("keep_firing_for: 10s", "keep_firing_for: 2s")


@dataclass(frozen=True, slots=True)
class Step:
    """One block that is run: what its comment asks for, and what it types."""

    block: Block
    script: str
    program: str
    background: bool
    until: str
    shows: tuple[str, ...]


def step_of(block: Block) -> Step | None:
    """Return how a block is run; None if its comment does not ask for it."""
    asked = re.fullmatch(
        r"run(?P<background> in background)?(?: until: (?P<until>.+?))?(?: shows: (?P<shows>.+))?",
        block.comment,
    )
    if asked is None:
        assert not block.comment.startswith("run"), block
        return None
    code = block.text if block.info == "python" else typed_in(block.text)
    return Step(
        block=block,
        script=code,
        program=sys.executable if block.info == "python" else "/bin/sh",
        background=bool(asked["background"]),
        until=asked["until"] or "",
        shows=tuple((asked["shows"] or "").split(" | ")) if asked["shows"] else (),
    )


def typed_in(text: str) -> str:
    """Return what is typed: lines after a prompt, with their continuations."""
    found = re.findall(r"^\$ ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert found, text
    return "\n".join(found)


@dataclass(slots=True)
class Reader:
    """Somebody with a terminal, who types what the page says."""

    daemon: Daemon
    folder: Path
    begun: list[subprocess.Popen[str]] = field(default_factory=list)

    def follow(self, step: Step) -> None:
        if step.background:
            self._begin(step)
            return
        started = time.monotonic()
        while True:
            shown = self._typed(step)
            if step.until in shown:
                break
            assert time.monotonic() < started + STEP_SECONDS, f"{step.block}: {shown}"
            time.sleep(0.2)
        self._compare(step, shown)

    def _compare(self, step: Step, shown: str) -> None:
        place = 0
        for word in step.shows:
            place = shown.find(word, place)
            assert place >= 0, f"{step.block} does not show {word!r} (in this place):\n{shown}"

    def _typed(self, step: Step) -> str:
        done = subprocess.run(
            [step.program, "-c", self._here(step.script)],
            capture_output=True,
            text=True,
            check=False,
            timeout=STEP_SECONDS,
            env=self._environment(),
            cwd=self.folder,
        )
        assert done.returncode == 0, f"{step.block}: {done.stdout}{done.stderr}"
        return done.stdout

    def _begin(self, step: Step) -> None:
        log = self.folder / f"{len(self.begun)}.log"
        with log.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                [step.program, "-c", f"exec {self._here(step.script)}"],
                stdout=stream,
                stderr=stream,
                text=True,
                env=self._environment(),
                cwd=self.folder,
                start_new_session=True,
            )
        self.begun.append(process)
        if step.until:
            until(lambda: step.until in log.read_text(encoding="utf-8"), step.until)
            self.daemon.note_pids()

    def _here(self, script: str) -> str:
        """Return a script with this test's ports, and in less time."""
        ports = ((":8400", f":{self.daemon.gateway_port}"), (":9464", f":{self.daemon.admin_port}"))
        for old, new in (*SHORT, *ports):
            script = script.replace(old, new)
        return script

    def _environment(self) -> dict[str, str]:
        return environment(
            PATH=f"{self.folder}:{os.environ['PATH']}",
            DS4WATCH_CONFIG=str(self.daemon.config),
            PYTHONPATH=str(ROOT),
            COLUMNS="200",
        )


@contextmanager
def new_reader() -> Iterator[Reader]:
    scrape = {"interval_seconds": 1}
    with new_daemon(
        rules=quick_rules(), policy=quick_policy(), sections={"scrape": scrape}
    ) as daemon:
        settings = daemon.settings | {"state_dir": str(daemon.state)}
        daemon.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        wrapper = daemon.folder / "ds4watch"
        text = WRAPPER.format(gateway=daemon.gateway_port, python=sys.executable)
        wrapper.write_text(text, encoding="utf-8")
        wrapper.chmod(0o755)
        reader = Reader(daemon, daemon.folder)
        try:
            yield reader
        finally:
            for process in reader.begun:
                if process.poll() is None:
                    process.kill()
                process.wait()


def test_a_stranger_who_types_what_the_page_says_sees_what_it_says() -> None:
    assert shutil.which("curl"), "the page asks with curl"
    steps = [step for block in blocks(GUIDE) if (step := step_of(block))]
    with new_reader() as reader:
        for step in steps:
            reader.follow(step)
        codes = [process.wait(timeout=STEP_SECONDS) for process in reader.begun]
        assert codes == [0, 0]
        reader.daemon.assert_nothing_is_left([reader.daemon.admin_port])
    assert len(steps) > 10


def test_make_runs_what_the_test_runs_in_its_place() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert ".venv/bin/ds4watch up $(if $(SIM),--sim) $(ARGS)" in makefile
    assert all(old in GUIDE.read_text(encoding="utf-8") for old, _ in SHORT)
