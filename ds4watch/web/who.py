"""Who asks, and what they may: the guard has let them in, routes ask for more."""

from __future__ import annotations

from fastapi import Depends, Request
from starlette.exceptions import HTTPException

from ds4watch.access.roles import Role, allows
from ds4watch.web.gate import Visitor
from ds4watch.web.guard import VISITOR_KEY


def visitor_of(request: Request) -> Visitor:
    """Return who asks."""
    found = request.scope[VISITOR_KEY]
    assert isinstance(found, Visitor)
    return found


def who_of(request: Request, claimed: str | None) -> str:
    """Return the name for the audit.

    A token that was made for somebody is named whatever they claim; those of this machine are
    everybody's who may read them, so that the claim is all there is.
    """
    visitor = visitor_of(request)
    if not visitor.is_named:
        return claimed or visitor.name
    return f"{claimed} ({visitor.name})" if claimed and claimed != visitor.name else visitor.name


def require(request: Request, role: Role, *, what: str) -> None:
    """Refuse whoever does not have the role."""
    visitor = visitor_of(request)
    if visitor.role is None or not allows(visitor.role, role):
        raise HTTPException(403, f"{what} needs the role {role}, not {visitor.role or 'none'}")


def admin_only(request: Request) -> None:
    """Refuse all but admins, before anything of the request is looked at."""
    require(request, Role.ADMIN, what="to give or take access")


ADMIN_ONLY = Depends(admin_only)
ROLE_FIELD = "x-required-role"
ADMIN_DOC = {ROLE_FIELD: Role.ADMIN.value}
"""Of a route with ADMIN_ONLY, for the document."""
