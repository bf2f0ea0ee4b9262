"""Faults of the section `provisioning` that no single key shows."""

from __future__ import annotations

from collections.abc import Iterator
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ds4watch.config.document import Document
from ds4watch.config.provisioning import ProvisioningSettings
from ds4watch.model.errors import Located


def calendar_faults(provisioning: ProvisioningSettings, document: Document) -> Iterator[Located]:
    """Yield time zones that there are not, and entries without a day."""
    for number, entry in enumerate(provisioning.calendar):
        where = ("provisioning", "calendar", number)
        if not _is_zone(entry.timezone):
            message = f"there is no time zone {entry.timezone}"
            mend = "a name such as Europe/Berlin, or UTC"
            yield document.finding((*where, "timezone"), message, mend=mend)
        if not entry.days:
            yield document.finding((*where, "days"), "is empty: name days, or leave it out")
        if entry.begin.tzinfo is not None or entry.end.tzinfo is not None:
            mend = "leave the offset out, and name a timezone"
            yield document.finding((*where, "begin"), "has an offset of its own", mend=mend)


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
