"""What commands share: options, settings, how a file of state is found."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ds4watch.cli.client import AdminClient, is_loopback
from ds4watch.config.files import LoadedSettings, find_settings
from ds4watch.config.places import resolve_state_dir
from ds4watch.model.errors import ConfigError
from ds4watch.web.tokens import ADMIN_TOKEN_FILE

Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Settings file. Without it: $DS4WATCH_CONFIG, ./ds4watch.yml, "
        "/etc/ds4watch/ds4watch.yml, the first that there is; else all defaults hold.",
    ),
]
State = Annotated[
    Path | None,
    typer.Option(
        "--state", metavar="DIR", help="State folder, instead of the one in the settings."
    ),
]
Admin = Annotated[
    str | None,
    typer.Option(
        "--admin",
        metavar="URL",
        help="Address of the daemon's admin API. [default: as in the settings]",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would follow.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs to read.")]


def new_app(**options: Any) -> typer.Typer:
    """Return the Typer app of one command: plain help, no stack traces with values in them."""
    return typer.Typer(
        add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **options
    )


def print_json(value: Any) -> None:
    """Print for programs."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def tell(words: str, found: Mapping[str, Any], *, as_json: bool) -> None:
    """Say what was done: in words for people, or what programs are to know of it."""
    if as_json:
        print_json(found)
    else:
        sys.stdout.write(f"{words}\n")


@dataclass(frozen=True, slots=True)
class Context:
    """The settings that hold, and how to reach the daemon."""

    loaded: LoadedSettings
    state_dir: Path | None
    client: AdminClient


def connect(config: Path | None, admin: str | None, state: Path | None = None) -> Context:
    """Load the settings and return the way to the daemon. Raises ConfigError."""
    loaded = find_settings(config, os.environ)
    try:
        state_dir = state or resolve_state_dir(loaded.settings, os.environ)
    except ConfigError:
        # Without a home there is no token, but on loopback reading needs none.
        state_dir = None
    own = own_admin_url(loaded)
    url = (admin or own).rstrip("/")
    token = os.environ.get("DS4WATCH_TOKEN")
    if not token and state_dir and (url == own or is_loopback(url)):
        token = _local_token(state_dir / ADMIN_TOKEN_FILE)
    certificate = loaded.settings.admin.tls_certificate
    return Context(loaded, state_dir, AdminClient(url, token, certificate=certificate))


def own_admin_url(loaded: LoadedSettings) -> str:
    """Return the admin API's address as the settings have it."""
    admin = loaded.settings.admin
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(admin.host, admin.host)  # noqa: S104 - names
    return f"{admin.scheme}://{f'[{host}]' if ':' in host else host}:{admin.port}"


def _local_token(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None
