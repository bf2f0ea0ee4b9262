"""Where a daemon is, and what it is reached at."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ds4watch.config.settings import AdminSettings
from ds4watch.model.ports import UnixSeconds


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
