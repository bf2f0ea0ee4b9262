from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ds4watch.cli import COMMANDS
from tests.edge.cli.test_commands import ds4watch

HARNESS = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ds4watch
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
async def script(tmp_path: Path) -> Path:
    ended = await ds4watch("completion", "bash", cwd=tmp_path)
    assert ended.code == 0, ended.err
    path = tmp_path / "completion.bash"
    path.write_text(ended.out, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("wor",), {"workers"}),
        (("workers", "lo"), {"logs"}),
        (("workers", "logs", "sim-0", "--fol"), {"--follow"}),
        (("status", "--js"), {"--json"}),
        (("keys", "r"), {"revoke", "rotate"}),
    ],
)
async def test_bash_completes_commands_and_options(
    script: Path, words: tuple[str, ...], wanted: set[str]
) -> None:
    argv = ["bash", "-c", HARNESS, "bash", str(script), "ds4watch", *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == wanted
    assert done.stderr == ""


async def test_every_listed_command_is_completed_in_every_shell(tmp_path: Path) -> None:
    listed = {name for name, command in COMMANDS.items() if command.help}
    for shell in ("bash", "zsh", "fish"):
        ended = await ds4watch("completion", shell, cwd=tmp_path)
        assert ended.code == 0, ended.err
        assert all(name in ended.out for name in listed)
