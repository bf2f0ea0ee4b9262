"""Notes in a unit's record that it was told to end: it ends also if the daemon is gone by then."""

from __future__ import annotations

import json
import logging
from pathlib import Path

log = logging.getLogger(__name__)


def note_end_told(record: Path, pid: int) -> None:
    """Note it, if the record is of that very process; what fails costs the note, not the end."""
    temporary = record.with_suffix(".ending")
    try:
        told = json.loads(record.read_text(encoding="utf-8"))
        if told["pid"] != pid:
            return
        temporary.write_text(json.dumps(told | {"is_ending": True}), encoding="utf-8")
        temporary.replace(record)
    except (OSError, ValueError, TypeError, KeyError) as error:
        log.warning("%s: it is not noted that it was told to end: %s", record.stem, error)
