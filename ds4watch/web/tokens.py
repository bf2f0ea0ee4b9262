"""Tokens of the admin API: digests in memory, the local command line's secret in a 0600 file."""

from __future__ import annotations

import hmac
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ds4watch.access.keys import digest, new_secret
from ds4watch.access.roles import Role
from ds4watch.model.errors import ConfigError, Located

ADMIN_TOKEN_FILE = "admin.token"  # noqa: S105 - a file's name
TOKENS_FILE = "tokens"
_SHA256_HEX = re.compile(r"[0-9a-f]{64}")
_MAX_TOKENS_CHARS = 1 << 20


@dataclass(frozen=True, slots=True)
class TokenTable:
    """Who may do what: (role, SHA-256 of the secret in hex) pairs."""

    entries: tuple[tuple[Role, str], ...] = ()

    def role_of(self, secret: str | None) -> Role | None:
        """Return the role of a secret; the time taken does not tell how near a guess was."""
        if secret is None:
            return None
        wanted = digest(secret)
        found: Role | None = None
        for role, sha256 in self.entries:  # all of them, without leaving early
            if hmac.compare_digest(sha256, wanted):
                found = role
        return found


def read_tokens(text: str, file: str) -> TokenTable:
    """Read lines of `role sha256hex`; `#` begins a comment. Raises ConfigError."""
    entries: list[tuple[Role, str]] = []
    findings: list[Located] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        fault = _fault(words)
        if fault:
            findings.append(Located(fault, file, number))
        else:
            entries.append((Role(words[0]), words[1].lower()))
    if findings:
        raise ConfigError(*findings)
    return TokenTable(tuple(entries))


def _fault(words: list[str]) -> str | None:
    """Say what is wrong with a line, without repeating what may be a secret in clear."""
    if len(words) != 2:
        return "must be a role and the SHA-256 of a secret"
    if words[0] not in [role.value for role in Role]:
        return f"the role must be one of {', '.join(Role)}"
    if not _SHA256_HEX.fullmatch(words[1].lower()):
        return "the second word must be a SHA-256 in hex (64 digits), never the secret itself"
    return None


def open_tokens(state_dir: Path) -> TokenTable:
    """Return the tokens of a state folder, making the admin secret at the first start.

    Raises ConfigError where a file cannot be read or written, or may be read by others.
    """
    secret = _admin_secret(state_dir / ADMIN_TOKEN_FILE)
    path = state_dir / TOKENS_FILE
    more = TokenTable()
    if path.exists():
        more = read_tokens(_private_text(path), str(path))
    return TokenTable(((Role.ADMIN, digest(secret)), *more.entries))


def _admin_secret(path: Path) -> str:
    if path.exists():
        secret = _private_text(path).strip()
        if secret:
            return secret
    secret = new_secret(os.urandom(32))
    fresh = path.with_suffix(".new")
    try:
        fresh.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(fresh, flags, 0o600), "w", encoding="ascii") as stream:
            stream.write(f"{secret}\n")
        fresh.replace(path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ConfigError(Located(f"cannot be written: {reason}", str(path))) from error
    return secret


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
