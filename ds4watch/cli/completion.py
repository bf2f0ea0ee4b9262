"""`ds4watch completion`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from ds4watch import cli
from ds4watch.cli.common import new_app
from ds4watch.cli.loading import loaded

app = new_app()


class Shell(StrEnum):
    """What a script can be made for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that the script is for.")],
) -> None:
    """Print a script that completes commands and options in a shell.

    It holds the words themselves, so completing starts no Python.

    Example: ds4watch completion bash > /etc/bash_completion.d/ds4watch
    """
    words = dict(_words())
    make = {Shell.BASH: _bash, Shell.ZSH: _zsh, Shell.FISH: _fish}[shell]
    typer.echo(make(words), nl=False)


def _words() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return what may follow the program, each command, and each of their own commands."""
    listed = {name: it for name, it in cli.COMMANDS.items() if it.help}
    yield "", (*listed, "--help", "--version")
    for name, command in listed.items():
        found = get_command(loaded(command.module).app)
        yield name, (*_commands_of(found), *_options(found))
        for below, each in _commands_of(found).items():
            yield f"{name} {below}", _options(each)


def _commands_of(command: object) -> Mapping[str, object]:
    return command.commands if isinstance(command, TyperGroup) else {}


def _options(command: object) -> tuple[str, ...]:
    found = command.params if isinstance(command, TyperCommand | TyperGroup) else []
    options = [it for it in found if isinstance(it, TyperOption) and not it.hidden]
    return (*(name for it in options for name in it.opts if name.startswith("--")), "--help")


def _bash(words: Mapping[str, tuple[str, ...]]) -> str:
    cases = "".join(f'    "{name}") words="{" ".join(them)}" ;;\n' for name, them in words.items())
    return f"""\
# bash completion of ds4watch
_ds4watch() {{
  local words="" path="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    [[ $word == -* ]] || path="${{path:+$path }}$word"
  done
  while :; do
    case "$path" in
{cases}    esac
    [[ -n $words || $path != *" "* ]] && break
    path=${{path% *}}
  done
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
  [[ -n ${{COMPREPLY[*]}} ]] || COMPREPLY=($(compgen -f -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -F _ds4watch ds4watch
"""


def _zsh(words: Mapping[str, tuple[str, ...]]) -> str:
    return f"#compdef ds4watch\nautoload -U +X bashcompinit && bashcompinit\n{_bash(words)}"


def _fish(words: Mapping[str, tuple[str, ...]]) -> str:
    lines = ["# fish completion of ds4watch", "complete -c ds4watch -f"]
    for name, them in words.items():
        first, _, second = name.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}" if first else "__fish_use_subcommand"
        if second:
            seen += f"; and __fish_seen_subcommand_from {second}"
        options = [it[2:] for it in them if it.startswith("--")]
        plain = [it for it in them if not it.startswith("--")]
        lines += [f"complete -c ds4watch -n '{seen}' -l {it}" for it in options]
        if plain:
            lines.append(f"complete -c ds4watch -n '{seen}' -a '{' '.join(plain)}'")
    return "\n".join(lines) + "\n"
