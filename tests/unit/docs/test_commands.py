"""Every `ds4watch …` that a document shows can be typed: commands, options, what they need."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from ds4watch.cli import COMMANDS
from tests.unit.docs.documents import ROOT, blocks, indented_lines, markdown_files, without_code

PLACEHOLDER = re.compile(r"^[A-Z]+([|.]\S*)?$|^\[|…|^\.\.\.$|^<")
"""A word that stands for others: NAME, [FILE], …"""
ENDS = {"|", ">", "&&", ";", "&", "||"}


USAGE_FAULT: type[BaseException] = typer.BadParameter.__mro__[1]
"""Typer's UsageError, which it does not export by name."""


@cache
def command(name: str) -> TyperCommand | TyperGroup:
    found = get_command(import_module(COMMANDS[name].module).app)
    assert isinstance(found, TyperCommand | TyperGroup)
    return found


def in_blocks(path: Path) -> Iterator[str]:
    """Yield the command lines of the code blocks; what they print is left out."""
    text = path.read_text(encoding="utf-8")
    lines = [*indented_lines(text)]
    for block in blocks(path):
        code = block.text.replace("\\\n", "").splitlines()
        typed = [line[2:] for line in code if line.startswith("$ ")]
        lines += typed or code
    for line in lines:
        yield from ours(line)


def ours(line: str) -> Iterator[str]:
    """Yield what follows the program's name, where it is what a line calls."""
    found = re.search(r"(?:^(?:\S*bin/)?|\s/\S*bin/)ds4watch ((?:[a-z\[…]|--).*)$", line)
    if found:
        yield found[1].partition("──")[0]


def in_text(path: Path) -> Iterator[str]:
    """Yield what is named in the running text, between code marks."""
    text = without_code(path.read_text(encoding="utf-8"))
    for found in re.findall(r"`([^`]+)`", text):
        yield from ours(" ".join(found.split()))


def words_of(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = []
    for word in lexer:
        if word in ENDS:
            break
        words.append(word)
    return words


def resolved(words: list[str]) -> tuple[TyperCommand | TyperGroup | None, list[str], str]:
    """Return the command that words name, what is left for it, and what is wrong if none."""
    name, *rest = words
    if name not in COMMANDS:
        return None, rest, f"there is no command {name}"
    found = command(name)
    # A group's own options may stand before the command within it.
    inner = next((it for it in rest if not it.startswith("-")), None)
    if isinstance(found, TyperGroup) and inner is not None:
        if inner not in found.commands:
            return None, rest, f"{name} has no command {inner}"
        rest.remove(inner)
        within = found.commands[inner]
        assert isinstance(within, TyperCommand | TyperGroup)
        return within, rest, ""
    return found, rest, ""


def fault_in_full(line: str) -> str | None:
    """Return what is wrong with a whole command line."""
    words = words_of(line)
    if words[0].startswith("-"):
        return None if words[0] in ("--help", "--version") else f"there is no {words[0]}"
    found, rest, fault = resolved(words)
    if found is None:
        return fault
    try:
        found.make_context(words[0], rest)
    except typer.Exit:
        return None
    except USAGE_FAULT as error:
        return str(error)
    return None


def fault_in_short(line: str) -> str | None:
    """Return what is wrong with a command that is named, perhaps with placeholders."""
    words = line.split()
    if PLACEHOLDER.search(words[0]):
        return None
    if words[0].startswith("-"):
        return None if words[0] in ("--help", "--version") else f"there is no {words[0]}"
    named, *rest = words
    for choice in named.split("|"):
        told = [it for it in rest if not PLACEHOLDER.search(it)] or []
        inner = told[0].split("|") if told and "|" in told[0] else told[:1]
        for each in inner or [""]:
            found, _, fault = resolved([choice, *([each] if each else [])])
            options = {name for it in getattr(found, "params", ()) for name in it.opts}
            options |= {name for it in getattr(found, "params", ()) for name in it.secondary_opts}
            asked = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(rest))
            unknown = [it for it in asked if it not in options | {"--help"}]
            if fault or unknown:
                return fault or f"{choice} {each} has no {', '.join(unknown)}"
    return None


FILES = [it for it in markdown_files() if it.name != "CHANGELOG.md"]


@pytest.mark.parametrize("path", FILES, ids=lambda it: str(it.relative_to(ROOT)))
def test_command_lines_of_code_blocks_can_be_typed_as_they_stand(path: Path) -> None:
    assert not [(line, fault) for line in in_blocks(path) if (fault := fault_in_full(line))]


@pytest.mark.parametrize("path", FILES, ids=lambda it: str(it.relative_to(ROOT)))
def test_commands_and_options_named_in_the_text_are_there(path: Path) -> None:
    assert not [(line, fault) for line in in_text(path) if (fault := fault_in_short(line))]


def test_command_lines_are_found() -> None:
    assert sum(1 for path in FILES for _ in in_blocks(path)) > 20
    assert sum(1 for path in FILES for _ in in_text(path)) > 100


@pytest.mark.parametrize("line", ["hold default --for 30m", "status --wach", "stauts", "--frob"])
def test_a_line_that_cannot_be_typed_is_noticed(line: str) -> None:
    assert fault_in_full(line)


@pytest.mark.parametrize("line", ["history inspekt", "keys add NAME --rpn 3", "stauts", "audit -x"])
def test_a_command_that_is_not_there_is_noticed(line: str) -> None:
    assert fault_in_short(line)
