"""Where a daemon is, and what it is reached at."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ds4watch.config.settings import AdminSettings
from ds4watch.model.ports import UnixSeconds


@dataclass(slots=True)
class Standing:
    """Whether this daemon acts or watches another that does. leader: who does, if it is known."""

    leads: bool = True
    leader: dict[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as the admin API shows it."""
        return {"role": "leader" if self.leads else "standby", "leader": self.leader}


@dataclass(frozen=True, slots=True)
class Place:
    """What does not change while the daemon runs."""

    state_dir: Path
    store: str
    started_at: UnixSeconds
    admin_url: str
    gateway_url: str
    admin: AdminSettings
    currency: str
    standing: Standing = field(default_factory=Standing)
