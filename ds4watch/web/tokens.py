"""Tokens of the admin API: digests in memory, read anew when a file of theirs changes."""

from __future__ import annotations

import hmac
import logging
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ds4watch.access.keys import digest, new_secret
from ds4watch.access.roles import Role
from ds4watch.model.errors import ConfigError, Located

_log = logging.getLogger(__name__)

ADMIN_TOKEN_FILE = "admin.token"  # noqa: S105 - a file's name
TOKENS_FILE = "tokens"
NAME_PATTERN = r"[a-z0-9][a-z0-9._-]{0,62}"
_NAME = re.compile(NAME_PATTERN)
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")
_MAX_TOKENS_CHARS = 1 << 20


@dataclass(frozen=True, slots=True)
class TokenEntry:
    """A token: what it may do, the SHA-256 of its secret in hex, and whose it is.

    is_local: made at the first start for this machine, and named by its role.
    """

    role: Role
    sha256: str = field(repr=False)
    name: str = ""
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class TokenTable:
    """Who may do what."""

    entries: tuple[TokenEntry, ...] = ()

    def find(self, secret: str | None) -> TokenEntry | None:
        """Return the token of a secret; the time taken does not tell how near a guess was."""
        if secret is None:
            return None
        wanted = digest(secret)
        found: TokenEntry | None = None
        for entry in self.entries:  # all of them, without leaving early
            if hmac.compare_digest(entry.sha256, wanted):
                found = entry
        return found

    def known(self, sha256: str) -> TokenEntry | None:
        """Return the token with this digest."""
        return next((it for it in self.entries if it.sha256 == sha256), None)


def local_file(role: Role) -> str:
    """Return the name of the file that has a role's secret for this machine."""
    return f"{role.value}.token"


def read_tokens(text: str, file: str) -> TokenTable:
    """Read lines of `role sha256hex [name]`; `#` begins a comment. Raises ConfigError."""
    entries: list[TokenEntry] = []
    findings: list[Located] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        fault = _fault(words)
        if fault:
            findings.append(Located(fault, file, number))
        else:
            name = words[2] if len(words) > 2 else ""
            entries.append(TokenEntry(Role(words[0]), words[1].lower(), name))
    if findings:
        raise ConfigError(*findings)
    return TokenTable(tuple(entries))


def _fault(words: list[str]) -> str | None:
    """Say what is wrong with a line, without repeating what may be a secret in clear."""
    if len(words) not in (2, 3):
        return "must be a role, the SHA-256 of a secret, and a name"
    if words[0] not in [role.value for role in Role]:
        return f"the role must be one of {', '.join(Role)}"
    if not _SHA256_HEX.fullmatch(words[1].lower()):
        return "the second word must be a SHA-256 in hex (64 digits), never the secret itself"
    if len(words) > 2 and not _NAME.fullmatch(words[2]):
        return "a name has 1 to 63 lower-case letters, digits, dots, dashes and _"
    return None


def write_tokens(path: Path, entries: Sequence[TokenEntry]) -> None:
    """Write a tokens file, readable by its owner only, whole or not at all. Raises ConfigError."""
    lines = [f"{it.role.value} {it.sha256} {it.name}".rstrip() for it in entries]
    write_private(path, "".join(f"{line}\n" for line in lines))


def open_tokens(state_dir: Path) -> TokenTable:
    """Return the tokens of a state folder, making those of this machine at the first start.

    Raises ConfigError where a file cannot be read or written, or may be read by others.
    """
    local = [
        TokenEntry(
            role, digest(_local_secret(state_dir / local_file(role))), role.value, is_local=True
        )
        for role in Role
    ]
    return TokenTable((*local, *stored_tokens(state_dir).entries))


def stored_tokens(state_dir: Path) -> TokenTable:
    """Return the tokens that persons made. Raises ConfigError."""
    path = state_dir / TOKENS_FILE
    return read_tokens(_private_text(path), str(path)) if path.exists() else TokenTable()


class TokenFiles:
    """The tokens of a state folder as its files stand now.

    A file that turns out broken leaves the tokens as they were, and is told once in the log.
    """

    def __init__(
        self, state_dir: Path, *, on_change: Callable[[Sequence[str]], None] = lambda _told: None
    ) -> None:
        """Raise as `open_tokens`. `on_change` gets what became of each token, in words."""
        self._state_dir = state_dir
        self._on_change = on_change
        self._table = open_tokens(state_dir)
        self._seen = self._look()

    def find(self, secret: str | None) -> TokenEntry | None:
        """Return the token of a secret."""
        return self._now().find(secret)

    def known(self, sha256: str) -> TokenEntry | None:
        """Return the token with this digest, if it is let in still."""
        return self._now().known(sha256)

    def _now(self) -> TokenTable:
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            self._read_anew()
        return self._table

    def _read_anew(self) -> None:
        try:
            fresh = open_tokens(self._state_dir)
        except ConfigError as error:
            _log.warning("the tokens stay as they were: %s", error)
            return
        told = changes(self._table, fresh)
        self._table = fresh
        if told:
            _log.info("tokens: %s", "; ".join(told))
            self._on_change(told)

    def _look(self) -> tuple[object, ...]:
        names = (TOKENS_FILE, *map(local_file, Role))
        return tuple(_stamp(self._state_dir / name) for name in names)


def changes(old: TokenTable, new: TokenTable) -> list[str]:
    """Say what became of tokens from one table to the next; never anything of their secrets."""
    before = {_called(it): it for it in old.entries}
    after = {_called(it): it for it in new.entries}
    return [
        *(f"{name} ({it.role}) is let in" for name, it in after.items() if name not in before),
        *(f"{name} is let in no more" for name in before if name not in after),
        *(
            f"{name} has another secret or role ({it.role})"
            for name, it in after.items()
            if name in before and it != before[name]
        ),
    ]


def _called(entry: TokenEntry) -> str:
    return entry.name or f"token {entry.sha256[:8]}…"


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _local_secret(path: Path) -> str:
    if path.exists():
        secret = _private_text(path).strip()
        if secret:
            return secret
    secret = new_secret(os.urandom(32))
    write_private(path, f"{secret}\n")
    return secret


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all. Raises ConfigError."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        fresh.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(fresh, flags, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(Located(f"cannot be written: {reason}", str(path))) from error


def _private_text(path: Path) -> str:
    try:
        if path.stat().st_mode & 0o077:
            finding = Located("may be read by others", str(path), mend=f"chmod 600 {path}")
            raise ConfigError(finding)
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(_MAX_TOKENS_CHARS)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(Located(f"cannot be read: {reason}", str(path))) from error
