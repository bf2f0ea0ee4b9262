"""What holds for every command: an example in its help, JSON for programs, codes that are told."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ds4watch.cli import COMMANDS, overview
from ds4watch.cli.loading import loaded
from ds4watch.notify.by_hand import group_commands, note_commands
from ds4watch.notify.samples import sample_group, sample_tellings

NO_JSON = {
    "up": "runs in the foreground",
    "gateway": "runs in the foreground",
    "sim": "runs in the foreground",
    "policy reference": "prints a document",
    "down": "its exit code says it all",
    "top": "a picture; programs ask `status --json`",
    "workers logs": "passes a log on as it is",
    "cost export": "CSV for programs already",
    "history export": "OpenMetrics or CSV for programs already",
    "install": "writes files for root, once",
    "completion": "a script",
    "config reference": "a document",
    "config metrics": "a document",
}


def named() -> Iterator[tuple[str, TyperCommand]]:
    """Return each command that does something, by what is typed."""
    for name, place in COMMANDS.items():
        found = get_command(loaded(place.module).app)
        if isinstance(found, TyperGroup):
            for below, each in found.commands.items():
                assert isinstance(each, TyperCommand)
                yield f"{name} {below}", each
        else:
            assert isinstance(found, TyperCommand)
            yield name, found


EVERY = dict(named())


@pytest.mark.parametrize("name", EVERY)
def test_the_help_has_an_example_of_the_command_itself(name: str) -> None:
    told = f"{EVERY[name].help} {EVERY[name].epilog}"
    assert "Example" in told
    assert f"ds4watch {name}" in told.partition("Example")[2]


@pytest.mark.parametrize("name", EVERY)
def test_a_program_can_have_json_unless_there_is_a_reason(name: str) -> None:
    options = {option for it in EVERY[name].params for option in it.opts}
    assert ("--json" in options) is not (name in NO_JSON), NO_JSON.get(name)


def test_the_exit_codes_are_told() -> None:
    assert "0 done, 1 failed or found faults, 2 bad input or settings, 130 Ctrl-C" in overview()


@pytest.mark.parametrize("name", EVERY)
def test_what_asks_the_daemon_finds_its_token_in_another_state_folder(name: str) -> None:
    options = {option for it in EVERY[name].params for option in it.opts}
    assert "--admin" not in options or "--state" in options


def test_each_command_that_a_message_says_to_type_is_one_of_ours() -> None:
    notes = [it for _, telling in sample_tellings(0.0) for it in telling.group.notes]
    found = [*group_commands(sample_group(0.0)), *(c for it in notes for c in note_commands(it))]
    assert len(found) == 5
    for _, command in found:
        program, name, *words = shlex.split(command)
        assert program == "ds4watch"
        options = {option for it in EVERY[name].params for option in it.opts}
        assert {it for it in words if it.startswith("--")} <= options
