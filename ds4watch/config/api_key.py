"""API keys towards workers: where settings say that they are, and how such a file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

EnvironmentName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""Name of a variable of the daemon's own environment."""
_MAX_BYTES = 1 << 16


class NoKeyError(ValueError):
    """There is no key to be had; the message says why, and never what was found."""


def see_to_one_source(file: str | None, variable: str | None) -> None:
    """Raise ValueError if a key is to come from two places."""
    if file is not None and variable is not None:
        message = "`api_key_file` and `api_key_env` are one key twice: leave one"
        raise ValueError(message)


def placed(file: str, base: Path) -> str:
    """Return the path of a key's file, which starts from the settings' folder."""
    return str(base.absolute() / Path(file).expanduser())


def read_key(file: Path) -> str:
    """Return the key that a file holds. Raises NoKeyError."""
    try:
        with file.open("rb") as opened:
            key = opened.read(_MAX_BYTES).decode()
    except OSError as error:
        message = f"cannot read {file}: {error.strerror or type(error).__name__}"
        raise NoKeyError(message) from error
    except UnicodeDecodeError:
        message = f"{file} holds no text: write the key into it"
        raise NoKeyError(message) from None
    return sound_key(key, str(file))


def sound_key(text: str, source: str) -> str:
    """Return a key without the line end that editors leave. Raises NoKeyError if it is none."""
    key = text.strip()
    if not key:
        message = f"{source} is empty: write the key into it, and nothing else"
        raise NoKeyError(message)
    if not key.isascii() or not key.isprintable():
        message = f"{source} holds more than a key: one line of plain characters is sent"
        raise NoKeyError(message)
    return key
