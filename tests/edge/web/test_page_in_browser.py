from __future__ import annotations

import asyncio
import html
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.edge.web.fakes import FakeDaemon, serving

pytestmark = pytest.mark.needs("chromium")


async def seen(url: str, profile: Path, *, milliseconds: int = 2500) -> str:
    """Return the page's markup after so much of its own time."""
    process = await asyncio.create_subprocess_exec(
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        f"--user-data-dir={profile}",
        f"--virtual-time-budget={milliseconds}",
        "--dump-dom",
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(60):
            out, _ = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        raise
    return out.decode()


def text_of(markup: str, element: str) -> str:
    found = re.search(rf'id="{element}"[^>]*>(.*?)</(?:p|ul|ol|dl|div)>', markup, re.DOTALL)
    assert found, element
    return html.unescape(re.sub(r"<[^>]+>", " ", found[1])).replace("\xa0", " ")


async def test_a_person_sees_the_state_and_markup_from_workers_stays_text(tmp_path: Path) -> None:
    daemon = FakeDaemon()
    daemon.state["fleet"][1]["reason"] = "<img src=x onerror=alert(1)>"
    async with serving(daemon) as server:
        page = await seen(server.url + "/", tmp_path)
    assert text_of(page, "level") == "2: cheaper-sibling"
    assert "QueueDepthHigh on sim-full-1" in text_of(page, "level-why")
    assert text_of(page, "waiting") == "Waiting for: sim-quantized-1 to load its model"
    assert text_of(page, "ready") == "1 of 2"
    assert text_of(page, "alert-count") == "1 firing"
    assert text_of(page, "cost-hour") == "1.90 USD / h"
    assert "level 1 to 2 (cheaper-sibling)" in text_of(page, "audit")
    jobs = " ".join(text_of(page, "jobs").split())
    assert jobs.startswith("done fold ")
    assert "took 0.4 s 1200 scrapes to 2 chunks" in jobs
    assert "failed prune " in jobs
    assert "database or disk is full running quality " in jobs
    assert "<img src=x" not in page
    assert "&lt;img src=x" in page


async def test_a_banner_says_that_the_daemon_is_gone_and_that_it_is_back(tmp_path: Path) -> None:
    class Flapping(FakeDaemon):
        asked = 0

        def status(self) -> dict[str, Any]:
            self.asked += 1
            self.broken = self.asked == 1 or self.asked > 2
            return super().status()

    daemon = Flapping()
    async with serving(daemon) as server:
        back = await seen(server.url + "/", tmp_path / "a", milliseconds=1600)
        gone = await seen(server.url + "/", tmp_path / "b", milliseconds=500)
    assert text_of(back, "banner").startswith("The daemon is back, after ")
    assert text_of(gone, "banner").startswith("The daemon answers with 500 since ")
    assert text_of(gone, "level") == "–"  # noqa: RUF001 - what the page shows
