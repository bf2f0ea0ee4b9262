"""What comes in and goes out over HTTP, as typed bodies."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

TARGET_PATTERN = r"^(\*|[A-Za-z0-9][A-Za-z0-9._:-]{0,126})$"
Target = Annotated[str, StringConstraints(pattern=TARGET_PATTERN)]
Who = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._@ -]{0,63}$")]

WorkerVerb = Literal["drain", "stop", "start", "fresh", "restart", "sleep", "wake"]
"""`fresh`: as start, with the steps of its memory ladder taken back."""
SumBy = Literal["key", "model", "worker", "profile", "class"]
ChangeVerb = Literal["pause", "resume", "abort"]
MAX_HOLD_SECONDS = 30 * 86400.0
DryRun = Annotated[bool, Field(description="Only check it, and say what would follow.")]


class WorkerRequest(BaseModel):
    """Ask something of a worker."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: str = Field(min_length=1, max_length=500)
    who: Who | None = Field(None, description="Name for the audit; the token's if absent.")
    dry_run: DryRun = False


class ApplyRequest(BaseModel):
    """Ask that the fleet be made what the files say."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: str = Field(min_length=1, max_length=500)
    who: Who | None = Field(None, description="Name for the audit; the token's if absent.")
    file: str | None = Field(
        None,
        pattern=r"^/",
        max_length=4096,
        description="Settings file on the daemon's machine; its own if absent. Needs the role "
        "admin: what it names is run.",
    )
    plan: str | None = Field(
        None, pattern=r"^[0-9a-f]{16}$", description="Begin it only if it is still this plan."
    )
    dry_run: bool = Field(default=False, description="Only return the plan.")


class ChangeRequest(BaseModel):
    """Ask something of a rolling change."""

    model_config = ConfigDict(extra="forbid", strict=True)

    why: str = Field(min_length=1, max_length=500)
    who: Who | None = Field(None, description="Name for the audit; the token's if absent.")
    dry_run: DryRun = False


class Plan(BaseModel):
    """What is done to make the fleet what the files say; no steps: it is so already."""

    plan: str
    begun: bool
    ready_at_least: int
    steps: list[dict[str, Any]]
    unchanged: list[str]


class ChangeState(BaseModel):
    """The rolling change under way, or the last; null: there was none."""

    change: dict[str, Any] | None


class Told(BaseModel):
    """What is going to happen; it has not yet."""

    told: str


class Follows(BaseModel):
    """What is going to happen; it has not yet."""

    worker: str
    told: str


class Problem(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str


class Health(BaseModel):
    """Liveness: this was answered, so the daemon serves."""

    status: str
    at: float


class Readiness(BaseModel):
    """Whether every worker is ready, and else what is waited for."""

    ready: bool
    waiting_for: list[str]


class WorkerList(BaseModel):
    """The fleet."""

    workers: list[dict[str, Any]]
    next_cursor: str | None


class AlertList(BaseModel):
    """Alerts that are not inactive."""

    alerts: list[dict[str, Any]]
    next_cursor: str | None


class SignalMap(BaseModel):
    """Fleet-wide signals by name, and each worker's; null: not reported."""

    signals: dict[str, float | None]
    workers: dict[str, dict[str, float | None]]


class RuleDistances(BaseModel):
    """Alerts with their values beside the thresholds of their tiers."""

    rules: list[dict[str, Any]]


class Explanation(BaseModel):
    """The rules of one name with the values of their parts, as docs/admin-api.md has it."""

    rules: list[dict[str, Any]]


class CostPage(BaseModel):
    """Money of hours, in 1e-9 of the currency.

    costs: by worker and part, all of it. work: by key and model. context: by the length of prompts.
    storage: what was kept, beside all that.
    """

    currency: str
    start_at: float
    end_at: float
    costs: list[dict[str, Any]]
    work: list[dict[str, Any]]
    context: list[dict[str, Any]]
    storage: list[dict[str, Any]]


class CostWhy(BaseModel):
    """Why an hour is not like the usual one. Of each measure, causes sum to the difference."""

    currency: str
    hour_at: float
    measures: list[dict[str, Any]]


class RequestSums(BaseModel):
    """Requests added up by what `by` names; money in `nanos`, 1e-9 of the currency."""

    by: str
    since_at: float
    currency: str
    requests: list[dict[str, Any]]


class AuditPage(BaseModel):
    """The story, newest first. `next_cursor` leads to the page of older rows; null: none."""

    audit: list[dict[str, Any]]
    next_cursor: str | None
