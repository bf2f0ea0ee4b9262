"""Who is let in, with what, and what reads like nothing there."""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ds4watch.access.keys import digest
from ds4watch.access.signature import signing_key
from ds4watch.gateway.replay_memory import ReplayMemory
from ds4watch.model.key_budget import BudgetLeft
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.service_policy import ApiKey
from tests.edge.gateway.support import CHAT, FakeWorker, Front, board_of, front_of

SECRET = "ds4-a-secret"
SIGNER = ApiKey("signer", digest(SECRET), signing=signing_key(SECRET))
KEY = ApiKey("team", digest("secret"))
BEARER = {"Authorization": "Bearer secret"}
PATH = "/v1/chat/completions"


async def asked(front: Front, headers: dict[str, str], **fields: Any) -> tuple[int, Any]:
    async with front.post(CHAT | fields, headers=headers) as response:
        return response.status, await response.json()


async def test_a_key_is_kept_to_its_models(tmp_path: Path) -> None:
    key = replace(KEY, limits=KeyLimits(models=("m",)))
    async with (
        FakeWorker("w1", models=("m", "dear")) as worker,
        front_of(tmp_path, board_of(worker.view(), keys=(key,))) as front,
    ):
        assert (await asked(front, BEARER))[0] == 200
        status, told = await asked(front, BEARER, model="dear")
        unknown = await asked(front, BEARER, model="none")
        async with front.http.get(f"{front.url}/v1/models", headers=BEARER) as response:
            listed = [model["id"] for model in (await response.json())["data"]]
    assert (status, told["error"]["code"]) == (404, "model_not_found")
    assert told["error"]["message"] == unknown[1]["error"]["message"].replace("none", "dear")
    assert listed == ["m"]


@pytest.mark.parametrize(
    ("change", "status", "code", "kind"),
    [
        ({"expires_at": 1.0}, 401, "invalid_api_key", "authentication_error"),
        ({"left": BudgetLeft(0, 4e9)}, 429, "insufficient_quota", "insufficient_quota"),
        ({"left": BudgetLeft(0, 1.0)}, 200, None, None),
        ({"left": BudgetLeft(1, 4e9)}, 200, None, None),
    ],
)
async def test_a_key_ends_with_its_time_and_its_money(
    tmp_path: Path, change: dict[str, Any], status: int, code: str | None, kind: str | None
) -> None:
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), keys=(replace(KEY, **change),))) as front,
    ):
        got, told = await asked(front, BEARER)
    error = told.get("error", {})
    assert (got, error.get("code"), error.get("type")) == (status, code, kind)


async def test_who_has_spent_its_money_is_told_when_to_come_again(tmp_path: Path) -> None:
    spent = replace(KEY, left=BudgetLeft(0, time.time() + 3000))
    async with (
        front_of(tmp_path, board_of(keys=(spent,))) as front,
        front.post(BODY, PATH, headers=BEARER) as response,
    ):
        seconds = int(response.headers["Retry-After"])
        message = (await response.json())["error"]["message"]
    assert 2900 < seconds <= 3000
    assert message.endswith(f"in {seconds} s")


async def test_on_loopback_a_key_is_asked_for_if_it_is_said(tmp_path: Path) -> None:
    async with front_of(tmp_path, board_of(), require_key=True) as front:
        assert (await asked(front, {}))[0] == 401


def documented() -> Any:
    text = (Path(__file__).parents[3] / "docs/security.md").read_text(encoding="utf-8")
    snippet = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert snippet is not None
    names: dict[str, Any] = {}
    exec(snippet[1], names)
    return names["signed_headers"]


BODY = json.dumps(CHAT).encode()


async def signed(
    front: Front, headers: dict[str, str], body: bytes = BODY, path: str = PATH
) -> Any:
    async with front.post(body, path, headers=headers) as response:
        told = await response.json()
        return response.status, told.get("error", {}).get("code")


async def test_a_request_signed_as_documented_is_let_in_once(tmp_path: Path) -> None:
    headers = documented()("signer", SECRET, "POST", PATH, BODY)
    async with (
        FakeWorker("w1") as worker,
        front_of(tmp_path, board_of(worker.view(), keys=(SIGNER, KEY))) as front,
    ):
        assert await signed(front, headers) == (200, None)
        assert await signed(front, headers) == (401, "replayed_request")
        again = documented()("signer", SECRET, "POST", PATH, BODY)
        assert await signed(front, again, BODY + b" ") == (401, "invalid_signature")
        assert await signed(front, again, path=f"{PATH}?a=b") == (401, "invalid_signature")
        assert await signed(front, again | {"x-ds4-key": "team"}) == (401, "invalid_signature")
        assert await signed(front, again | {"x-ds4-timestamp": "1"}) == (401, "invalid_signature")
        unsigned = again.copy()
        del unsigned["x-ds4-signature"]
        assert await signed(front, unsigned) == (401, "invalid_signature")
        assert await signed(front, unsigned | BEARER) == (200, None)
        assert await signed(front, again) == (200, None)
        # A key that signs is not let in by being sent.
        sent = {"Authorization": f"Bearer {SECRET}"}
        assert await signed(front, sent) == (401, "invalid_api_key")
        assert await signed(front, BEARER) == (200, None)
        assert not any("x-ds4-signature" in headers for headers in worker.headers)
    # Another process of the same folder knows what this one took.
    memory = ReplayMemory(tmp_path / "replay.bin")
    seen = memory.note(headers["x-ds4-signature"], time.time(), good_seconds=1)
    memory.close()
    assert seen == "replayed"


async def test_where_signatures_are_required_nothing_else_is_let_in(tmp_path: Path) -> None:
    required = {"required": True}
    async with (
        FakeWorker("w1") as worker,
        front_of(
            tmp_path, board_of(worker.view(), keys=(SIGNER, KEY)), signature=required
        ) as front,
    ):
        assert await signed(front, BEARER) == (401, "invalid_api_key")
        headers = documented()("signer", SECRET, "POST", PATH, BODY)
        assert await signed(front, headers) == (200, None)
        headers = documented()("signer", SECRET, "GET", "/v1/models", b"")
        async with front.http.get(f"{front.url}/v1/models", headers=headers) as response:
            assert response.status == 200


async def test_a_request_that_lies_about_its_model_is_refused(tmp_path: Path) -> None:
    key = replace(KEY, limits=KeyLimits(models=("m",)))
    async with (
        FakeWorker("w1", models=("m", "dear")) as worker,
        front_of(tmp_path, board_of(worker.view(), keys=(key,))) as front,
    ):
        smuggled = b'{"model": "dear", ' + BODY[1:]
        assert await signed(front, BEARER, smuggled) == (400, "invalid_json")
        image = {"type": "image_url", "image_url": {"url": "http://169.254.169.254/"}}
        messages = [{"role": "user", "content": [image]}]
        status, told = await asked(front, BEARER, messages=messages)
    assert (status, told["error"]["param"]) == (400, "messages[0].content[0].image_url.url")
    assert worker.bodies == []
