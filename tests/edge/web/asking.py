"""How tests ask the admin API."""

from __future__ import annotations

from typing import Any, NamedTuple

import aiohttp

from ds4watch.access.roles import Role
from tests.edge.web.fakes import SECRETS

API = "/api/ds4/v1"


class Answer(NamedTuple):
    status: int
    headers: Any
    body: Any


def bearer(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {SECRETS[role]}"}


OPERATOR = bearer(Role.OPERATOR)


async def ask(
    client: aiohttp.ClientSession,
    method: str,
    path: str,
    body: Any = None,
    *,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send a request as an operator, unless headers say else."""
    own = OPERATOR if headers is None else headers
    async with client.request(method, API + path, json=body, headers=own) as answer:
        text = await answer.text()
        is_json = "json" in answer.headers.get("Content-Type", "")
        return Answer(
            answer.status, answer.headers, await answer.json(content_type=None) if is_json else text
        )
