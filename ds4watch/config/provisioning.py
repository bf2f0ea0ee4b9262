"""The section `provisioning` of the settings: scaling ahead of load."""

from __future__ import annotations

from datetime import time
from decimal import Decimal
from typing import Annotated

from pydantic import Field

from ds4watch.config.section import Seconds, Section

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Day = Annotated[str, Field(pattern=r"^(mon|tue|wed|thu|fri|sat|sun)$")]


class CalendarSettings(Section):
    """So many workers from one time of day to another; they are called early enough."""

    name: str = Field(min_length=1, max_length=60, description="Name, for the audit.")
    profile: str = Field("*", description="Profile it holds for; * for each.")
    workers: int = Field(ge=0, le=256, description="How many are to be ready.")
    days: tuple[Day, ...] = Field(DAYS, description="Days of the week: mon to sun.")
    begin: time = Field(time(0), description="Time of day, such as 08:30, when they are needed.")
    end: time = Field(
        time(0), description="Time until which they are; not after `begin`: of the next day."
    )
    timezone: str = Field("UTC", description="Time zone of both, such as Europe/Berlin.")


class ProvisioningSettings(Section):
    """Scaling ahead of load: workers that may rest are called before they are needed.

    Those are spares (fleet.workers[].spare), and workers that sleep, if fleet.sleep_after_seconds
    is given. All others are left alone.
    """

    enabled: bool = Field(default=True, description="Whether load is looked ahead of at all.")
    dry_run: bool | None = Field(
        None, description="Only tell what would be done; if not given, in an install's first week."
    )
    max_workers: int | None = Field(
        None, ge=0, le=1024, description="More than so many are never started; of all profiles."
    )
    budget_per_hour: Decimal | None = Field(
        None, ge=0, description="Nobody is called that would take the fleet over so much an hour."
    )
    queue_waiting: float = Field(
        50.0, gt=0, description="With more requests waiting for a profile, more are called at once."
    )
    target_ratio: float = Field(
        0.75, gt=0, le=1, description="Share of the workers' slots beyond which more are called."
    )
    spread: float = Field(
        1.0,
        ge=0,
        le=10,
        description="What is forecast gets so many times its square root of slots more.",
    )
    coverage_ratio: float = Field(
        0.8,
        gt=0,
        lt=1,
        description="Share of the time in which load is to be inside the forecast's interval; its "
        "upper end is provided for.",
    )
    slots: int | None = Field(
        None,
        ge=1,
        description="Requests that a worker runs at once; its profile's `max_num_seqs`, else 32, "
        "if not given.",
    )
    stabilise_seconds: Seconds = Field(
        300.0, description="What was wanted within so long is kept: nobody is let go and called."
    )
    look_seconds: Seconds = Field(5.0, description="Time between two looks.")
    patience_seconds: Seconds | None = Field(
        None,
        description="A start that takes longer is given up and another worker called; twice the "
        "95th percentile of the profile's last starts if not given.",
    )
    calendar: tuple[CalendarSettings, ...] = Field((), description="What is known beforehand.")
