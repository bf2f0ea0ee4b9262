"""Secrets from settings or files; read anew each time, so that a renewed one is used."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pydantic import SecretStr

from ds4watch.notify.group_channel import ChannelError, Fault

_MAX_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, or the file that holds it."""

    value: str = field(default="", repr=False)
    file: Path | None = None

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self.value or self.file)

    def read(self) -> str:
        """Return it. Raises ChannelError (ACCESS) if the file holds none."""
        if self.file is None:
            return self.value
        try:
            with self.file.open("rb") as opened:
                secret = opened.read(_MAX_BYTES).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            message = f"cannot read {self.file}: {type(error).__name__}"
            raise ChannelError(message, fault=Fault.ACCESS) from error
        if not secret:
            message = f"{self.file} is empty: write the secret into it"
            raise ChannelError(message, fault=Fault.ACCESS)
        if len(secret.splitlines()) > 1:
            message = f"{self.file} has several lines: write the secret alone into it"
            raise ChannelError(message, fault=Fault.ACCESS)
        return secret


def secret_of(value: SecretStr | None, file: str | None, from_env: str | None = None) -> Secret:
    """Return the secret of a setting, of its file, or of the environment."""
    if file:
        return Secret(file=Path(file))
    return Secret(value.get_secret_value() if value is not None else from_env or "")
