"""The channel of those who have none: a line in the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)


class Journal:
    """Logs each notification."""

    name = "log"

    async def send(self, payload: Mapping[str, Any]) -> None:
        """Write one line."""
        annotations = payload.get("annotations", {})
        log.warning(
            "alert %s (%s) %s: %s",
            payload.get("name", "?"),
            payload.get("tier", "none"),
            payload.get("new", "?"),
            annotations.get("summary") or payload.get("reason", ""),
        )
