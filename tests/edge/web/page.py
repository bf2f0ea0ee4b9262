"""A daemon with something to see on each part of the page, and a real Chromium that looks at it."""

from __future__ import annotations

import copy
import gzip
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, async_playwright

from ds4watch.model.question import Question
from ds4watch.web.server import AdminServer
from tests.edge.web.asking import API, OPERATOR
from tests.edge.web.fake_answers import AT, AUDIT
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fake_desk import ACTION, FakeDesk
from tests.edge.web.fakes import FakeHistory

WAITING = ACTION | {
    "id": "restart_worker:sim-full-1:7",
    "kind": "set_level",
    "target": "sim-full",
    "status": "waiting",
    "reason": "KvCachePressure is firing",
    "planned_at": AT + 100,
    "parameters": {"level": 3},
}
POINTS = [
    {"at": AT + 60 * it, "expected": 4.0 + it, "low": 3.0 + it, "high": 6.0 + it, "workers": 2}
    for it in range(20)
]
AHEAD = {
    "profile": "sim-full",
    "in_flight": 6.64,
    "waiting": 42.0,
    "lead_seconds": 90.0,
    "service_seconds": 1.0,
    "forecast": None,
    "ahead": {"at": AT + 90, "expected": 5.5, "low": 4.0, "high": 7.0},
    "calendar": "",
    "wanted": 2,
    "kept": 2,
    "hot": 1,
    "starting": 1,
    "asks": {"floor": 1, "load": 2},
    "refused": "",
    "points": POINTS,
}


class PageDesk(FakeDesk):
    """Commands are carried out at once; one action waits for a person."""

    def __init__(self) -> None:
        super().__init__()
        self.stored_actions.append(dict(WAITING))

    def happen(self, kind: str, summary: str = "", **detail: Any) -> int:
        """Add a row above those that are in the audit already."""
        number = 100 + len(self.events)
        row = {"id": number, "kind": kind, "summary": summary, "detail": detail}
        self.events.append(AUDIT[0] | row)
        return number

    async def command(self, number: int) -> dict[str, Any] | None:
        asked = await super().command(number)
        if asked is None:
            return None
        for action in self.stored_actions:
            if action["id"] == asked["body"].get("action") and action["status"] == "waiting":
                action["status"] = {"approve": "applied", "refuse": "refused"}[asked["kind"]]
        return asked | {"status": "done", "told": f"{asked['kind']}: done"}


class PageDaemon(FakeDaemon):
    """Has silences, a forecast, and alerts of the last minutes in its audit."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(**changes)
        self.desk = PageDesk()
        self.rows = [alert_row(it, AT - 60 * it) for it in (7, 6)] + self.rows

    def status(self) -> dict[str, Any]:
        found = super().status()
        alerts = copy.deepcopy(found["alerts"])
        now = [it["id"] for it in self.desk.placed.values() if it["ends_at"] > AT]
        alerts[0]["silenced_by"] = now
        return found | {"alerts": alerts}

    async def audit(
        self, *, limit: int, before: int | None, kind: str | None
    ) -> list[dict[str, Any]]:
        self.rows = self.desk.events[::-1] + [it for it in self.rows if it["id"] < 100]
        return await super().audit(limit=limit, before=before, kind=kind)

    def forecast(self, hours: float) -> dict[str, Any]:
        return {"at": AT, "hours": hours, "dry_run": True, "profiles": [copy.deepcopy(AHEAD)]}


def alert_row(number: int, at: float) -> dict[str, Any]:
    """Return the row of an alert that begins to fire."""
    labels = {"alertname": "QueueDepthHigh", "severity": "warning"}
    detail = {"fingerprint": "aa", "old": "pending", "new": "firing", "labels": labels}
    summary = f"QueueDepthHigh (warning): pending to firing at {number}"
    return AUDIT[1] | {"id": number, "at": at, "summary": summary, "detail": detail}


class PageHistory(FakeHistory):
    """Answers each question with a line for each of two workers."""

    async def ask_body(self, question: Question) -> bytes:
        self.asked.append(question)
        values = [[AT - 900 + 15 * it, str(it % 7)] for it in range(61)]
        names = ("sim-full-1", "sim-quantized-1")
        series: list[Mapping[str, Any]] = [
            {"metric": {"worker": name, "profile": "sim-full"}, "values": values} for name in names
        ]
        data = {"resultType": "matrix", "result": series}
        body = json.dumps({"status": "success", "data": data}).encode()
        return gzip.compress(body) if question.compressed else body


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Yield Debian's Chromium, without a window."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def looking(
    browser: Browser, *, scheme: Literal["light", "dark"] = "light", width: int = 1280
) -> AsyncIterator[tuple[Page, list[str]]]:
    """Yield a page that shares nothing with others, and what its console complains of."""
    faults: list[str] = []
    context = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme
    )
    page = await context.new_page()
    page.set_default_timeout(10_000)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda it: faults.append(it.text) if it.type == "error" else None)
    try:
        yield page, faults
    finally:
        await context.close()


async def log_in(page: Page, server: AdminServer) -> None:
    """Enter by a link, as `ds4watch status --link` prints it."""
    answer = await page.context.request.post(f"{server.url}{API}/session", headers=OPERATOR)
    await page.goto(server.url + (await answer.json())["path"])


async def serious_faults(page: Page) -> list[str]:
    """Return what axe finds that keeps people out."""
    found = await Axe().run(page)
    return [
        f"{it['id']}: {[node['html'][:200] for node in it['nodes']]}"
        for it in found.response["violations"]
        if it["impact"] in ("serious", "critical")
    ]
