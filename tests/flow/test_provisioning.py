"""Workers called before they are needed, as a person sees it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.flow.daemon import until
from tests.flow.test_warm_pool import fleet_of, phase, profile, told


def soon(seconds: float) -> dict[str, Any]:
    """Return a calendar that asks for both workers so many seconds from now, for an hour."""
    begin = datetime.now(UTC) + timedelta(seconds=seconds)
    end = begin + timedelta(hours=1)
    times = {"begin": begin.strftime("%H:%M:%S"), "end": end.strftime("%H:%M:%S")}
    return {"name": "opening", "workers": 2, "profile": "a", **times}


def test_a_sleeper_is_woken_before_the_calendar_needs_it(tmp_path: Path) -> None:
    wanted: list[Mapping[str, Any]] = [{"profile": "a", "count": 2}]
    sleepy = {"sleep_after_seconds": 1, "sleep_trial_days": 0, "min_hot": 1}
    ahead = {"dry_run": False, "look_seconds": 0.2, "calendar": [soon(25)]}
    ahead["stabilise_seconds"] = 1
    with fleet_of(
        tmp_path, [profile("a")], wanted, sections={"provisioning": ahead}, **sleepy
    ) as daemon:

        def sleeper() -> str | None:
            return next(
                (it["id"] for it in daemon.status()["fleet"] if it["phase"] == "asleep"), None
            )

        name = until(sleeper, "a worker let go")
        until(lambda: phase(daemon, name) == "ready", "the sleeper woken")
        lines = told(daemon, name)
        assert any(it.startswith("let go by provisioning: 2 are on") for it in lines)
        assert "called by provisioning: calendar asks for 2, 2 are wanted" in lines
        row = next(it for it in daemon.audit("worker") if "called by provisioning" in it["summary"])
        assert row["detail"]["calendar"] == "opening"
        assert row["detail"]["wanted"] == 2
        assert row["at"] < datetime.now(UTC).timestamp()
        series = 'ds4_provisioning_workers{kind="wanted",profile="a"}'
        until(lambda: daemon.metric(series) == 2, "the metric")

        def forecast() -> str:
            return daemon.command("fleet", "forecast", "--config", str(daemon.config)).stdout

        # the plan is of the last look, which may be from before the sleeper was up
        until(lambda: "a: 2 ready, 0 starting, 2 wanted" in forecast(), "the plan of the next look")
        found = json.loads(
            daemon.command("fleet", "forecast", "--json", "--config", str(daemon.config)).stdout
        )
        assert found["profiles"][0]["points"] == []
        assert found["dry_run"] is False


def test_in_the_first_week_it_is_only_told(tmp_path: Path) -> None:
    wanted: list[Mapping[str, Any]] = [{"profile": "a"}, {"profile": "b", "count": 1, "spare": 1}]
    calendar = soon(1) | {"profile": "b", "workers": 1}
    ahead = {"look_seconds": 0.2, "calendar": [calendar]}
    with fleet_of(
        tmp_path, [profile("a"), profile("b")], wanted, sections={"provisioning": ahead}, min_hot=1
    ) as daemon:
        lines = until(lambda: told(daemon, "b-0"), "the word")
        assert lines[0].startswith("would be called, in the dry run only told: calendar asks for 1")
        assert phase(daemon, "b-0") == "absent"
        assert daemon.metric("ds4_provisioning_dry_run ") == 1
        shown = daemon.command("fleet", "forecast", "--config", str(daemon.config))
        assert "Dry run until" in shown.stdout
