"""Alerts, silences and actions on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from ds4watch.access.roles import Role
from tests.edge.cli.test_commands import Ended, ds4watch
from tests.edge.web.fake_answers import AT
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import SECRETS, serving


async def test_alerts_are_silenced_listed_and_told_of_again(tmp_path: Path) -> None:
    daemon = FakeDaemon()
    state = tmp_path / "state"
    state.mkdir()
    (state / "admin.token").write_text(SECRETS[Role.ADMIN] + "\n")
    async with serving(daemon) as server:

        async def run(*arguments: str) -> Ended:
            where = ("--admin", server.url)
            environ = {"STATE_DIRECTORY": str(state), "LOGNAME": "ann"}
            return await ds4watch(*arguments, *where, cwd=tmp_path, **environ)

        shown = await run("alerts", "--phase", "firing")
        assert shown.code == 0, (shown.err, shown.out)
        assert shown.out.splitlines()[1].split()[:3] == ["QueueDepthHigh", "warning", "firing"]
        muted = json.loads((await run("alerts", "--silenced", "--json")).out)
        assert [it["name"] for it in muted] == ["CacheMissHigh"]
        assert (await run("alerts", "--name", "None")).out == "no such alert\n"
        assert (await run("silences")).out == "nothing is silenced\n"
        told = ("QueueDepthHigh", "worker!~tiny-.*", "--for", "2h", "--why", "load test")
        placed = await run("silence", *told)
        assert placed.out.startswith("silence 00000000-"), placed.err
        (silence,) = daemon.desk.placed.values()
        assert silence["matchers"] == ['alertname="QueueDepthHigh"', 'worker!~"tiny-.*"']
        assert (silence["who"], silence["ends_at"]) == ("ann", AT + 7200)
        listed = (await run("silences")).out
        assert "load test" in listed
        assert 'alertname="QueueDepthHigh"' in listed
        silence["why"] = "[/b] [moved] to ann"
        assert silence["why"] in (await run("silences")).out
        unknown = await run("unsilence", "ffff")
        assert (unknown.code, unknown.err.count("\n")) == (2, 1)
        ended = await run("unsilence", "0000")
        assert ended.out == f"silence {silence['id']} is ended\n", ended.err
        bad = await run("silence", "worker=~(", "--why", "x")
        assert (bad.code, "bad regular expression" in bad.err) == (1, True)


async def test_actions_are_listed_newest_first(tmp_path: Path) -> None:
    async with serving(FakeDaemon()) as server:
        where = ("--admin", server.url)
        shown = await ds4watch("actions", "--limit", "2", *where, cwd=tmp_path)
        rows = [line.split()[2] for line in shown.out.splitlines()[1:]]
        assert rows == ["set_level:default:6", "set_level:default:5"]
        none = await ds4watch("actions", "--status", "failed", *where, cwd=tmp_path)
        assert none.out == "no such action\n"


async def test_the_status_gives_a_link_that_lets_a_browser_in(tmp_path: Path) -> None:
    (tmp_path / "admin.token").write_text(SECRETS[Role.ADMIN] + "\n")
    async with serving(FakeDaemon()) as server:
        where = ("--admin", server.url)
        link = await ds4watch(
            "status", "--link", *where, cwd=tmp_path, STATE_DIRECTORY=str(tmp_path)
        )
        assert link.out.startswith(f"{server.url}/login?code=ds4-"), link.err
        piped = await ds4watch("status", *where, cwd=tmp_path, STATE_DIRECTORY=str(tmp_path))
        assert "/login" not in piped.out
