"""What `ds4watch quality` asks and tells."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from ds4watch.access.roles import Role
from tests.edge.cli.test_commands import ds4watch
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, serving


def row(name: str, right: int, cost: float | None, *, unbeaten: bool) -> dict[str, Any]:
    share = {"right": right, "asked": 200, "ratio": right / 200, "low": 0.8, "high": 0.99}
    return {
        "profile": name, "unbeaten": unbeaten, "accuracy": share,
        "classes": {"mathematics": share}, "divergence_nats": 0.0123,
        "divergence_age_seconds": 250.0, "slo_cost_per_thousand_tokens": cost and cost / 1000,
        "weights_bytes": 15 * 2**30, "tokens_per_second": 41.25,
        "first_token_seconds": None, "cost_per_million_tokens": cost,
    }  # fmt: skip


LOSS = {
    "questions": 200, "worse": 2, "better": 1, "points": 0.5, "lower_points": -1.0,
    "upper_points": 2.4, "p_value": 1.0, "verdict": "undecided", "more_questions": 1100,
}  # fmt: skip
TABLE = {
    "reference": "full",
    "route_regret": {"judged": 1200, "mean_seconds": 0.0124, "p95_seconds": 0.25},
    "profiles": [row("full", 190, 4.0, unbeaten=True), row("four", 180, 1.5, unbeaten=False)],
    "advice": [{"class": "mathematics", "profile": "full", "losses": {"four": LOSS}}],
}


async def test_profiles_are_set_side_by_side_with_what_is_advised_and_a_picture(
    tmp_path: Path,
) -> None:
    daemon = FakeDaemon()
    daemon.quality.table_answer = TABLE
    async with serving(daemon) as server:
        words = ("quality", "compare", "--plot", "q.png", "--admin", server.url)
        ended = await ds4watch(*words, cwd=tmp_path)
    assert ended.code == 0, ended.err
    assert (tmp_path / "q.png").read_bytes().startswith(b"\x89PNG")
    told = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert "* full (reference) 95.0% 80.0%-99.0% 200 0.0123 4m 15.00 GiB 41.2 - 4.000" in told
    assert "mathematics: full" in told
    assert (
        "four: undecided, about 1,100 more questions: loses 0.50 points (-1.00 to 2.40) on 200 "
        "questions; 2 worse, 1 better, p = 1" in told
    )
    assert "allowed: 0.9 points lost as measured, 2 at most with 95 % certainty" in told
    assert any(line.endswith("A") for line in ended.out.splitlines())
    assert "a: full, b: four" in ended.out


async def test_routing_is_told_in_hindsight_and_what_tokens_in_time_cost(tmp_path: Path) -> None:
    daemon = FakeDaemon()
    daemon.quality.table_answer = TABLE
    async with serving(daemon) as server:
        words = ("quality", "routes", "--admin", server.url)
        ended = await ds4watch(*words, cwd=tmp_path)
        as_json = await ds4watch(*words, "--json", cwd=tmp_path)
    told = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert told[0] == "PROFILE EUR/1,000 TOKENS IN TIME"
    assert "four 0.001500" in told
    assert told[-1] == (
        "route regret: 0.012 s on average, 95 % within 0.250 s, of 1,200 requests judged since "
        "the daemon's start"
    )
    found = json.loads(as_json.out)
    assert found["slo_cost_per_thousand_tokens"] == {"full": 0.004, "four": 0.0015}
    assert found["route_regret"]["judged"] == 1200


async def test_a_program_gets_the_table(tmp_path: Path) -> None:
    daemon = FakeDaemon()
    async with serving(daemon) as server:
        words = ("quality", "compare", "a", "b", "--against", "c", "--json", "--loss", "2")
        ended = await ds4watch(*words, "--admin", server.url, cwd=tmp_path)
    found = json.loads(ended.out)
    assert (found["asked"], found["reference"]) == (["a", "b"], "c")
    assert found["allowed"]["loss_points"] == 2


async def test_a_run_is_followed_to_its_end_and_its_exit_code_says_how(tmp_path: Path) -> None:
    daemon = FakeDaemon()

    async def finish(status: str) -> None:
        while not any(it["status"] == "running" for it in daemon.quality.begun):
            await asyncio.sleep(0.01)
        daemon.quality.begun[-1].update(
            status=status, answered=20, right={"p": 9, "r": 10}, asked={"p": 10, "r": 10}, told="x"
        )

    async with serving(daemon) as server:
        for status, code in (("done", 0), ("failed", 1)):
            ending = asyncio.create_task(finish(status))
            words = ("quality", "run", "p", "--against", "r", "--questions", "10")
            more = ("--max-cost", "0.5", "--admin", server.url)
            ended = await ds4watch(
                *words, *more, cwd=tmp_path, DS4WATCH_TOKEN=SECRETS[Role.OPERATOR]
            )
            await ending
            assert ended.code == code, ended.err
            assert f"p against r: {status}, 20 of 20 answered" in ended.out
            assert "(p 9 of 10 right, r 10 of 10 right); x" in ended.out
    assert daemon.quality.begun[0]["budget_nanos"] == 500_000_000
