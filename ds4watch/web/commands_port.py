"""What of the admin API changes something; bound by the daemon.

With `dry_run` all the same checks are made, nothing is stored, and what would follow is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class AdminCommands(Protocol):
    """What a person may ask for; each is stored and audited before it returns."""

    async def hold(
        self, *, target: str, seconds: float, who: str, why: str, dry_run: bool = False
    ) -> dict[str, Any]:
        """Forbid actions on `target` (`*`: on anything) for so long; return the hold.

        `told` says what that holds back now.
        """
        ...

    async def lift(self, *, target: str, who: str, dry_run: bool = False) -> str | None:
        """End the hold on `target`; return what follows, None if there is none."""
        ...

    async def steer(
        self, *, worker: str, verb: str, who: str, why: str, dry_run: bool = False
    ) -> str | None:
        """Wish something of a worker; return what follows, None if there is no such worker.

        Raises RefusedError if the worker cannot be that.
        """
        ...

    async def apply(
        self, *, file: str | None, plan: str | None, dry_run: bool, who: str, why: str
    ) -> dict[str, Any]:
        """Return the plan of the change of the fleet to what the files say; begin it unless dry.

        Raises ConfigError if the files are at fault, RefusedError if it cannot be begun.
        """
        ...

    async def steer_change(self, *, verb: str, who: str, why: str, dry_run: bool = False) -> str:
        """Pause, resume or abort the rolling change; return what follows.

        Raises RefusedError if none is under way.
        """
        ...

    def keys(self) -> list[dict[str, Any]]:
        """Return what may be told of each API key of the gateway."""
        ...

    async def add_key(
        self, *, key: Mapping[str, Any], who: str, why: str, dry_run: bool = False
    ) -> None:
        """Let a new key in. Raises RefusedError if its name is taken, ValueError if it is odd."""
        ...

    async def revoke_key(self, *, name: str, who: str, why: str, dry_run: bool = False) -> bool:
        """End a key; False if there is none."""
        ...

    async def rotate_key(
        self,
        *,
        name: str,
        sha256: str,
        signing: str,
        grace_seconds: float,
        who: str,
        why: str,
        dry_run: bool = False,
    ) -> bool:
        """Give a key another secret; False if there is none. Raises RefusedError."""
        ...

    def wake(self) -> None:
        """Let the next evaluation begin at once."""
        ...
