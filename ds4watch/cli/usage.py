"""A command line that cannot be understood, told in one line: where, what, how to mend it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from typer import Abort
from typer import TyperException as CannotUnderstand

__all__ = ("Abort", "CannotUnderstand", "one_line")

_WORDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"No such option: (\S+).*", r"there is no option \1"),
        (r"No such command '(.*?)'\..*", r"there is no command '\1'"),
        (r"Missing option '(.*)'\.", r"\1 is missing"),
        (r"Missing argument '(.*?)(?:\.\.\.)?'\.", r"\1 is missing"),
        (r"Option '(.*)' requires an argument\.", r"\1 needs a value"),
        (r"Option '(.*)' does not take a value\.", r"\1 takes no value"),
        (r"Got unexpected extra argument(?:\(s\)|s)? \((.*)\)", r"too many words: \1"),
        (r"Invalid value for '(.*?)': (.*)", r"\1: \2"),
    )
)
_VALUES: Mapping[str, str] = {
    "Input should be a valid integer": "must be a whole number",
    "Input should be a valid number": "must be a number",
    "Input should be a valid boolean": "must be true or false",
}
"""How the parser words a value of the wrong kind, by its begin."""


def one_line(error: CannotUnderstand, command: str) -> str:
    """Return what is wrong with a command line, and where to read what is right.

    Of a command that was given none of its own commands, the help is returned.
    """
    if "\n" in (message := error.format_message()):
        return message
    context: Any = getattr(error, "ctx", None)
    path = context.command_path if context is not None else command
    told = _plain(message)
    close = _near(error, context)
    mend = f"did you mean {close}?" if close else f"see `{path} --help`"
    return f"{path}: {told} ({mend})"


def _plain(message: str) -> str:
    for pattern, words in _WORDS:
        if pattern.fullmatch(message):
            return _plain_value(pattern.sub(words, message)).replace("{", "").replace("}", "")
    return message.rstrip(".")


def _plain_value(told: str) -> str:
    place, colon, value = told.partition(": ")
    for begin, words in _VALUES.items():
        if value.startswith(begin):
            return f"{place} {words}"
    return f"{place}{colon}{value.removeprefix('Value error, ').rstrip('.')}"


def _near(error: CannotUnderstand, context: Any) -> str:
    """Return the option or command that was meant, quoted as it is typed; empty if none is near."""
    if context is None:
        return ""
    if option := getattr(error, "option_name", None):
        known = [name for param in context.command.params for name in param.opts]
        wrong = option if "No such option" in error.message else ""
    else:
        known = [*getattr(context.command, "commands", ())]
        found = re.match(r"No such command '(.*?)'\.", error.message)
        wrong = found[1] if found else ""
    close = difflib.get_close_matches(wrong, known, n=1) if wrong else []
    return f"`{close[0]}`" if close else ""
