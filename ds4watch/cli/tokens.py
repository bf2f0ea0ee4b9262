"""`ds4watch tokens`: who may use the admin API. The files are the state folder's own."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from ds4watch.access.keys import digest, new_secret
from ds4watch.access.roles import Role
from ds4watch.cli.common import Config, Json, State, new_app, print_json, tell
from ds4watch.config.files import find_settings
from ds4watch.config.places import resolve_state_dir
from ds4watch.model.errors import ConfigError, Located
from ds4watch.web.tokens import (
    NAME_PATTERN,
    TOKENS_FILE,
    TokenEntry,
    local_file,
    stored_tokens,
    write_private,
    write_tokens,
)

app = new_app(no_args_is_help=True)

_NAME = re.compile(NAME_PATTERN)
_Named = Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")]
_LOCAL = {role.value: role for role in Role}


@app.callback()
def tokens() -> None:
    """List, create, rotate and revoke the tokens of the admin API.

    They are kept as SHA-256 in the file `tokens` of the state folder. Those of this machine, one
    for each role, stand in `viewer.token`, `operator.token` and `admin.token`. A running daemon
    obeys at once, and notes each change in its audit.

    Example: ds4watch tokens create grafana --role viewer
    """


@app.command("list")
def listed(config: Config = None, state: State = None, as_json: Json = False) -> None:
    """List the tokens: name and role, never anything of the secret.

    Example: ds4watch tokens list
    """
    folder = _folder(config, state)
    rows = [
        {"name": role.value, "role": role.value, "file": str(folder / local_file(role))}
        for role in Role
        if (folder / local_file(role)).exists()
    ]
    rows += [
        {"name": it.name or f"{it.sha256[:8]}…", "role": it.role.value, "file": ""}
        for it in stored_tokens(folder).entries
    ]
    if as_json:
        print_json(rows)
        return
    for row in rows:
        sys.stdout.write(f"{row['name']:<24}{row['role']:<10}{row['file']}\n")


@app.command()
def create(
    name: _Named,
    role: Annotated[Role, typer.Option("--role", help="What it may do.")] = Role.VIEWER,
    config: Config = None,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Make a token and print its secret, once.

    Example: ds4watch tokens create ann --role operator
    """
    folder = _folder(config, state)
    entries = stored_tokens(folder).entries
    if name in _LOCAL or any(it.name == name for it in entries):
        raise _bad(f"there is a token {name}", "see `ds4watch tokens rotate`")
    if not _NAME.fullmatch(name):
        raise _bad(f"must be lower-case letters, digits, dots, dashes and _, got {name!r}")
    secret = _secret()
    write_tokens(folder / TOKENS_FILE, [*entries, TokenEntry(role, digest(secret), name)])
    _print_once(name, secret, as_json=as_json)


@app.command()
def rotate(name: _Named, config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Give a token another secret; the old one is good for nothing from then on.

    Of viewer, operator and admin the secret goes into the file of this machine.

    Example: ds4watch tokens rotate admin
    """
    folder = _folder(config, state)
    secret = _secret()
    if name in _LOCAL:
        path = folder / local_file(_LOCAL[name])
        write_private(path, f"{secret}\n")
        tell(f"{path} has another secret", {"name": name, "file": str(path)}, as_json=as_json)
        return
    entries = stored_tokens(folder).entries
    old = _one(entries, name)
    fresh = TokenEntry(old.role, digest(secret), name)
    write_tokens(folder / TOKENS_FILE, [fresh if it is old else it for it in entries])
    _print_once(name, secret, as_json=as_json)


@app.command()
def revoke(name: _Named, config: Config = None, state: State = None, as_json: Json = False) -> None:
    """Let a token in no more.

    Example: ds4watch tokens revoke grafana
    """
    folder = _folder(config, state)
    if name in _LOCAL:
        raise _bad(f"{name} is this machine's own", f"see `ds4watch tokens rotate {name}`")
    entries = stored_tokens(folder).entries
    gone = _one(entries, name)
    write_tokens(folder / TOKENS_FILE, [it for it in entries if it is not gone])
    tell(f"{name} is let in no more", {"revoked": name}, as_json=as_json)


def _folder(config: Path | None, state: Path | None) -> Path:
    settings = find_settings(config, os.environ).settings
    folder = (state or resolve_state_dir(settings, os.environ)).absolute()
    if not folder.is_dir():
        mend = "run `ds4watch up`, or name the right one with --state"
        raise ConfigError(Located("there is no such state folder", str(folder), mend=mend))
    return folder


def _one(entries: tuple[TokenEntry, ...], name: str) -> TokenEntry:
    found = next((it for it in entries if it.name == name), None)
    if found is None:
        raise _bad(f"there is no token {name}", "see `ds4watch tokens list`")
    return found


def _secret() -> str:
    return new_secret(os.urandom(32))


def _print_once(name: str, secret: str, *, as_json: bool) -> None:
    if not as_json:
        sys.stderr.write("the secret is shown this once:\n")
    tell(secret, {"name": name, "secret": secret}, as_json=as_json)


def _bad(message: str, mend: str | None = None) -> ConfigError:
    return ConfigError(Located(message, field="NAME", mend=mend))
