"""The admin API of a daemon that runs: silences mute it, events tell, exports stream."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.flow.daemon import Daemon, Stream, ask, new_daemon, until

pytestmark = pytest.mark.slow
API = "/api/ds4/v1"


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    with new_daemon() as daemon:
        daemon.up()
        yield daemon


def outbox(daemon: Daemon) -> list[str]:
    return [
        kind for (kind,) in daemon.rows("SELECT kind FROM outbox WHERE kind = 'firing' ORDER BY id")
    ]


def test_a_silenced_alert_fires_acts_and_tells_nobody_until_the_silence_ends(
    daemon: Daemon,
) -> None:
    placed = daemon.command("silence", "Busy", "--why", "a test", "--json", *daemon.options)
    assert placed.returncode == 0, placed.stderr
    silence = json.loads(placed.stdout)["id"]
    with Stream(daemon, max_tokens=4000) as stream:
        until(lambda: daemon.phases("Busy") == ["firing"], "an alert that fires")
        until(lambda: daemon.level() == 1, "a level that follows from it all the same")
        (alert,) = [it for it in daemon.status()["alerts"] if it["name"] == "Busy"]
        assert alert["silenced_by"] == [silence]
        assert outbox(daemon) == []
        ended = daemon.command("unsilence", silence[:8], *daemon.options)
        assert ended.returncode == 0, ended.stderr
        until(lambda: outbox(daemon) == ["firing"], "a message, now that nothing mutes it")
        assert stream.is_open()
    actions = ask(daemon.admin_port, f"{API}/actions?kind=set_level").json()["actions"]
    assert actions[-1]["after"] == {"level": 1}
    told = [it["summary"] for it in daemon.audit("silence")]
    assert [it.split(" by ")[0] for it in told] == [
        'silence on alertname="Busy"', 'silence on alertname="Busy" ended',
    ]  # fmt: skip


def test_events_of_a_daemon_go_on_from_where_the_client_was(daemon: Daemon) -> None:
    rows = daemon.audit()
    with closing(http.client.HTTPConnection("127.0.0.1", daemon.admin_port, timeout=20)) as client:
        client.request("GET", f"{API}/events", headers={"Last-Event-ID": str(rows[0]["id"])})
        answer = client.getresponse()
        lines = (line.decode().strip() for line in answer)
        ids: list[int] = []
        for line in lines:
            if line.startswith("id: "):
                ids.append(int(line[4:]))
            if ids and ids[-1] >= rows[-1]["id"]:
                break
    assert set(ids) >= {it["id"] for it in rows[1:]}


def test_a_command_that_nobody_carries_out_is_refused_and_said_so(daemon: Daemon) -> None:
    token = (daemon.state / "operator.token").read_text(encoding="ascii").strip()
    headers = {"Authorization": f"Bearer {token}"}
    body = {"name": "no-such-action", "why": "a test"}
    asked = ask(daemon.admin_port, f"{API}/actions", body, headers=headers)
    assert asked.status == 202, asked
    path = f"{API}/commands/{asked.json()['id']}"
    until(lambda: ask(daemon.admin_port, path).json()["status"] == "refused", "an outcome")


def test_the_history_is_exported_by_a_process_of_its_own(daemon: Daemon) -> None:
    at = daemon.status()["at"]
    query = f"?start_at={at - 60}&end_at={at}&name=up"
    whole = ask(daemon.admin_port, f"{API}/history/export{query}")
    assert whole.status == 200, whole
    assert whole.body.decode().endswith("# EOF\n")
    assert "up{" in whole.body.decode()
    missing = ask(daemon.admin_port, f"{API}/history/export{query}&target=none")
    assert (missing.status, "nothing is stored of none" in missing.body.decode()) == (422, True)


def test_a_reload_is_asked_for_and_told_in_the_audit(daemon: Daemon) -> None:
    token = (daemon.state / "operator.token").read_text(encoding="ascii").strip()
    headers = {"Authorization": f"Bearer {token}"}
    rules = daemon.folder / "rules.yml"
    good = rules.read_text(encoding="utf-8")
    rules.write_text("nonsense: [", encoding="utf-8")
    asked = ask(daemon.admin_port, f"{API}/reload", {"why": "a test"}, headers=headers)
    assert asked.status == 202, asked
    until(
        lambda: any("reload refused" in it["summary"] for it in daemon.audit("daemon")),
        "a reload that is refused",
    )
    rules.write_text(good, encoding="utf-8")
    assert daemon.audit("command")[-1]["summary"] == "operator asks for a reload: a test"


def test_settings_are_shown_and_tokens_made_meanwhile_are_obeyed(daemon: Daemon) -> None:
    shown = ask(daemon.admin_port, f"{API}/config").json()
    assert shown["admin"]["port"] == daemon.admin_port
    made = daemon.command("tokens", "create", "ann", "--role", "operator", *daemon.options)
    headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
    who = ask(daemon.admin_port, f"{API}/session", headers=headers).json()
    assert who == {"role": "operator", "name": "ann"}
    until(lambda: daemon.audit("access"), "an audit row of the token")
