"""Bodies of silences, holds, actions, commands and pages of lists."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ds4watch.web.bodies import MAX_HOLD_SECONDS, DryRun, Who

Why = Annotated[str, Field(min_length=1, max_length=500)]
Instant = Annotated[float, Field(ge=0, le=4e9, allow_inf_nan=False)]
ActionVerb = Literal["approve", "refuse", "undo"]
NamePattern = r"^[A-Za-z0-9][A-Za-z0-9._:*-]{0,126}$"
_WHO = "Name for the audit; the token's if absent."


class Strict(BaseModel):
    """Base of what comes in: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SilenceRequest(Strict):
    """Ask that nobody be told of some alerts for a while; give `seconds` or `until`."""

    matchers: list[Annotated[str, Field(max_length=1200)]] = Field(
        min_length=1, max_length=32, description='As in alertname="QueueHigh" or worker=~"a-.*".'
    )
    seconds: float | None = Field(None, gt=0, le=365 * 86_400.0, allow_inf_nan=False)
    until: Instant | None = Field(None, description="Unix seconds.")
    starts_at: Instant | None = Field(None, description="Unix seconds; now if absent.")
    why: Why
    who: Who | None = Field(None, description=_WHO)
    dry_run: DryRun = False


class SilenceBody(BaseModel):
    """A silence. It mutes messages and nothing else."""

    id: str
    matchers: list[str]
    starts_at: float
    ends_at: float
    who: str
    why: str
    placed_at: float
    ended_by: str | None


class SilenceAnswer(SilenceBody):
    """The silence; of a dry run, as it would be."""

    dry_run: bool
    told: str


class SilenceList(BaseModel):
    """Silences by the instant they end at."""

    silences: list[SilenceBody]
    next_cursor: str | None


class HoldPut(Strict):
    """Ask that nothing be done to a target for a while."""

    seconds: float = Field(gt=0, le=MAX_HOLD_SECONDS, allow_inf_nan=False)
    why: Why
    who: Who | None = Field(None, description=_WHO)
    dry_run: DryRun = False


class HoldBody(BaseModel):
    """A hold."""

    target: str
    until_at: float
    who: str
    why: str
    placed_at: float


class HoldAnswer(HoldBody):
    """The hold, with what it holds back now; of a dry run, as it would be."""

    dry_run: bool
    told: str


class HoldList(BaseModel):
    """The holds in force."""

    holds: list[HoldBody]


class ActRequest(Strict):
    """Ask for an action of the policy, a kind of action or a level, by its name."""

    name: Annotated[str, Field(pattern=NamePattern, description="As the policy has it.")]
    pool: Annotated[str, Field(pattern=NamePattern)] = "default"
    target: Annotated[str, Field(pattern=NamePattern)] | None = Field(
        None, description="The worker; a pool's level needs none."
    )
    dry_run: bool = Field(default=False, description="Only say what would be done.")
    why: Why
    who: Who | None = Field(None, description=_WHO)


class VerbRequest(Strict):
    """Say why."""

    why: Why
    who: Who | None = Field(None, description=_WHO)


class DecideRequest(VerbRequest):
    """Say why; a dry run asks what would follow."""

    dry_run: DryRun = False


class CommandBody(BaseModel):
    """What was asked for, and what came of it: waiting, done or refused."""

    id: int
    at: float
    kind: str
    who: str
    body: dict[str, Any]
    status: str
    told: str
    finished_at: float | None


class ActionBody(BaseModel):
    """An action and how far it got."""

    id: str
    kind: str
    target: str
    status: str
    cause: str
    reason: str
    planned_at: float
    started_at: float | None
    finished_at: float | None
    took_seconds: float | None
    detail: str
    dry_run: bool
    undoes: str | None
    parameters: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]


class ActionList(BaseModel):
    """Actions, newest first."""

    actions: list[ActionBody]
    next_cursor: str | None


class QualityRunList(BaseModel):
    """Comparisons of profiles with their references, newest first."""

    runs: list[dict[str, Any]]
    next_cursor: str | None


class ProfileList(BaseModel):
    """Profiles of the workers that we run, without secrets."""

    profiles: list[dict[str, Any]]


class GatewayList(BaseModel):
    """The gateway's processes."""

    gateways: list[dict[str, Any]]


class TargetList(BaseModel):
    """Everything that is scraped, with how its last scrape went."""

    targets: list[dict[str, Any]]
    next_cursor: str | None


class CostSum(BaseModel):
    """Money by what `by` names, in 1e-9 of the currency, the dearest first."""

    currency: str
    start_at: float
    end_at: float
    by: str
    nanos: int
    sums: list[dict[str, Any]]


class SessionBody(BaseModel):
    """Who asks: role and name are null without a token."""

    role: str | None
    name: str | None


class LinkBody(BaseModel):
    """Where a browser enters, once."""

    path: str
    expires_in_seconds: float
