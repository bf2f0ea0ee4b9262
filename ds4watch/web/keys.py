"""Routes of the gateway's API keys. The guard has seen to the token; to give access, be admin."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.exceptions import HTTPException

from ds4watch.model.errors import RefusedError
from ds4watch.model.key_budget import MAX_BUDGET
from ds4watch.web.bodies import DryRun, Told, Who
from ds4watch.web.commands_port import AdminCommands
from ds4watch.web.docs import PROBLEM_DOC, REFUSED, REFUSED_WRITES
from ds4watch.web.who import ADMIN_DOC, ADMIN_ONLY, who_of

KeyName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
_Named = Annotated[KeyName, Path()]
_Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Signing = Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{64})?$")]
_Rate = Annotated[int | None, Field(ge=1, le=10**12)]
_Money = Annotated[int | None, Field(ge=0, le=MAX_BUDGET)]
_Why = Annotated[str, Field(max_length=500)]
_MAX_AT = 4e9
_UNWILLING: dict[int | str, dict[str, Any]] = REFUSED_WRITES | {
    404: PROBLEM_DOC | {"description": "There is no such key"},
    409: PROBLEM_DOC | {"description": "It cannot be done, and why"},
}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class KeyLimitsBody(_Strict):
    """What a key may do; null and empty: not limited."""

    requests_per_minute: _Rate = None
    tokens_per_minute: _Rate = None
    concurrency: _Rate = None
    models: list[Annotated[str, Field(max_length=256)]] = Field([], max_length=256)
    priority: Annotated[int | None, Field(ge=0, le=9)] = None
    work_class: str = Field("", max_length=64)
    may_refuse_degrading: bool = True


class KeyBudgetBody(_Strict):
    """What a key may spend, in 1e-9 of the currency."""

    hour: _Money = None
    day: _Money = None
    month: _Money = None


class KeyRequest(_Strict):
    """A new key. Its secret stays with who made it; here is its SHA-256."""

    name: KeyName
    sha256: _Digest
    signing: _Signing = Field("", description="What requests are signed with; empty: they are not.")
    limits: KeyLimitsBody = KeyLimitsBody()
    budget: KeyBudgetBody = KeyBudgetBody()
    expires_at: float | None = Field(None, gt=0, le=_MAX_AT, allow_inf_nan=False)
    why: _Why = ""
    who: Who | None = Field(None, description="Name for the audit; the token's role if absent.")
    dry_run: DryRun = False


class RevokeRequest(_Strict):
    """Ask that a key be let in no more."""

    why: _Why = ""
    who: Who | None = None
    dry_run: DryRun = False


class RotateRequest(_Strict):
    """Ask that a key have another secret."""

    sha256: _Digest
    signing: _Signing = ""
    grace_seconds: float = Field(
        0.0, ge=0, le=30 * 86400.0, allow_inf_nan=False, description="For so long the old is good."
    )
    why: _Why = ""
    who: Who | None = None
    dry_run: DryRun = False


class KeyList(BaseModel):
    """The keys, without secrets and digests."""

    keys: list[dict[str, Any]]


def keys(commands: AdminCommands) -> APIRouter:
    """Return the router of API keys."""
    router = APIRouter(prefix="/keys")

    @router.get("", summary="The gateway's API keys", responses=REFUSED)
    async def listed() -> KeyList:
        return KeyList(keys=commands.keys())

    @router.post(
        "",
        status_code=201,
        summary="Add a key",
        dependencies=[ADMIN_ONLY],
        openapi_extra=ADMIN_DOC,
        responses=_UNWILLING,
    )
    async def add(body: KeyRequest, request: Request) -> Told:
        who = who_of(request, body.who)
        key = body.model_dump(exclude={"why", "who", "dry_run"})
        try:
            await commands.add_key(key=key, who=who, why=body.why, dry_run=body.dry_run)
        except RefusedError as error:
            raise HTTPException(409, str(error)) from error
        return _told(f"{body.name} is let in", dry_run=body.dry_run)

    @router.post(
        "/{name}/revoke",
        summary="End a key",
        dependencies=[ADMIN_ONLY],
        openapi_extra=ADMIN_DOC,
        responses=_UNWILLING,
    )
    async def revoke(name: _Named, body: RevokeRequest, request: Request) -> Told:
        who = who_of(request, body.who)
        is_there = await commands.revoke_key(name=name, who=who, why=body.why, dry_run=body.dry_run)
        if not is_there:
            raise HTTPException(404, f"there is no key {name}")
        return _told(f"{name} is let in no more", dry_run=body.dry_run)

    @router.post(
        "/{name}/rotate",
        summary="Give a key another secret",
        dependencies=[ADMIN_ONLY],
        openapi_extra=ADMIN_DOC,
        responses=_UNWILLING,
    )
    async def rotate(name: _Named, body: RotateRequest, request: Request) -> Told:
        who = who_of(request, body.who)
        try:
            is_there = await commands.rotate_key(
                name=name,
                sha256=body.sha256,
                signing=body.signing,
                grace_seconds=body.grace_seconds,
                who=who,
                why=body.why,
                dry_run=body.dry_run,
            )
        except RefusedError as error:
            raise HTTPException(409, str(error)) from error
        if not is_there:
            raise HTTPException(404, f"there is no key {name}")
        return _told(f"{name} has another secret", dry_run=body.dry_run)

    return router


def _told(words: str, *, dry_run: bool) -> Told:
    return Told(told=f"dry run: {words}; nothing is done" if dry_run else words)
