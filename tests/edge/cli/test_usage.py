"""A command line that cannot be understood: one line, what and where, how to mend it, exit 2."""

from __future__ import annotations

import pytest

from ds4watch.cli import COMMANDS, main

LINES = (
    ("status --jsno", "status: there is no option --jsno (did you mean `--json`?)"),
    ("status -x", "status: there is no option -x (see `ds4watch status --help`)"),
    ("status extra", "status: too many words: extra (see `ds4watch status --help`)"),
    ("status --config", "status: --config needs a value (see `ds4watch status --help`)"),
    ("version --json=3", "version: --json takes no value (see `ds4watch version --help`)"),
    ("workers drian", "workers: there is no command 'drian' (did you mean `drain`?)"),
    ("workers drain", "workers drain: ID is missing (see `ds4watch workers drain --help`)"),
    ("quality blah", "quality: there is no command 'blah' (see `ds4watch quality --help`)"),
    ("history query", "history query: PROMQL is missing (see `ds4watch history query --help`)"),
    ("silence", "silence: MATCHER is missing (see `ds4watch silence --help`)"),
    ("hold", "hold: --why is missing (see `ds4watch hold --help`)"),
    ("load --seconds x", "load: --seconds must be a number (see `ds4watch load --help`)"),
    (
        "load --concurrency x",
        "load: --concurrency must be a whole number (see `ds4watch load --help`)",
    ),
    (
        "tokens list --jso --role boss",
        "tokens list: there is no option --jso (did you mean `--json`?)",
    ),
)


@pytest.mark.parametrize(("typed", "line"), LINES)
def test_what_is_typed_wrong_is_one_line(
    typed: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(typed.split())
    assert ended.value.code == 2
    assert capsys.readouterr() == ("", f"ds4watch {line}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_no_command_has_is_one_line_of_each(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--qqqq"])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert told == f"ds4watch {name}: there is no option --qqqq (see `ds4watch {name} --help`)\n"


@pytest.mark.parametrize("name", ["tokens", "history", "config", "rules", "cost", "fleet"])
def test_a_command_of_commands_by_itself_shows_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"Usage: ds4watch {name} ")
