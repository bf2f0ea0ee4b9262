"""Two pools on one daemon: the load of one model degrades its requests and nobody else's."""

from __future__ import annotations

from tests.flow.daemon import Daemon, Stream, ask, new_daemon, until

RULES = """\
groups:
  - name: flow
    rules:
      - alert: Busy
        expr: sum by (profile) (ds4_running_requests) > 1
        for: 1s
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
"""
POLICY = """\
pools:
  default:
    settle_seconds: 1
    clear_hold_seconds: 1
    ladder:
      - {name: short, max_tokens_cap: 8}
  full:
    profiles: [sim-full]
    settle_seconds: 1
    clear_hold_seconds: 1
    ladder:
      - {name: brief, max_tokens_cap: 32}
      - {name: briefest, max_tokens_cap: 16}
bindings:
  - {match: {alertname: Busy}, level: 1}
  - {match: {alertname: Busy}, pool: full, level: 2}
"""


def told(daemon: Daemon, model: str) -> str:
    answer = daemon.complete(model=model, max_tokens=40)
    assert answer.status == 200
    return answer.headers.get("x-ds4-degraded", "")


def levels(daemon: Daemon) -> dict[str, int]:
    policy = daemon.status()["policy"]
    own = {it["pool"]: int(it["level"]) for it in policy["pools"]}
    return {"default": int(policy["level"])} | own


def cli(daemon: Daemon, *arguments: str, fails: bool = False) -> str:
    done = daemon.command(*arguments, *daemon.options)
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_load_of_one_pool_degrades_its_requests_only_and_the_level_comes_down_again() -> None:
    with new_daemon(rules=RULES, policy=POLICY) as daemon:
        daemon.up()
        assert levels(daemon) == {"default": 0, "full": 0}
        assert told(daemon, "sim-full") == told(daemon, "sim-quantized") == ""

        streams = [Stream(daemon, max_tokens=1500) for _ in range(2)]
        until(lambda: levels(daemon)["full"] == 2, "the second level of the pool")
        assert told(daemon, "sim-full") == "level=2;max_tokens=16"
        assert told(daemon, "sim-quantized") == ""
        assert levels(daemon)["default"] == 0
        until(lambda: daemon.metric('ds4_degradation_level{pool="full"}') == 2, "its metric")
        assert daemon.metric('ds4_degradation_level{pool="default"}') == 0
        assert "level 2 (briefest) of full" in cli(daemon, "status")

        for stream in streams:
            stream.join(60)
        until(lambda: levels(daemon) == {"default": 0, "full": 0}, "normal service again")
        assert told(daemon, "sim-full") == ""
        changes = daemon.rows("SELECT target, status FROM actions WHERE kind = 'set_level'")
        assert {target for target, _ in changes} == {"full"}
        assert len(changes) == 4
        assert {status for _, status in changes} <= {"applied", "undone"}
        assert {it["target"] for it in daemon.audit("plan")} == {"full"}


def test_persons_hold_and_set_the_level_of_one_pool_and_it_outlives_the_daemon() -> None:
    with new_daemon(rules=RULES, policy=POLICY) as daemon:
        daemon.up()
        cli(daemon, "act", "brief", "--pool", "full", "--why", "a test")
        until(lambda: levels(daemon) == {"default": 0, "full": 1}, "a level by hand")
        assert told(daemon, "sim-full") == "level=1;max_tokens=32"
        cli(daemon, "hold", "--pool", "full", "--for", "5m", "--why", "a test")
        held = cli(daemon, "act", "normal", "--pool", "full", "--why", "a test", fails=True)
        assert "hold" in held
        cli(daemon, "act", "short", "--why", "a test")
        until(lambda: levels(daemon) == {"default": 1, "full": 1}, "the level of all others")
        assert told(daemon, "sim-quantized") == "level=1;max_tokens=8"

        assert daemon.process is not None
        daemon.process.kill()
        daemon.process.wait()
        assert told(daemon, "sim-full") == "level=1;max_tokens=32"
        daemon.up()
        assert levels(daemon) == {"default": 1, "full": 1}
        cli(daemon, "resume", "--pool", "full")
        cli(daemon, "act", "normal", "--pool", "full", "--why", "a test")
        until(lambda: levels(daemon) == {"default": 1, "full": 0}, "one pool back to normal")
        health = ask(daemon.gateway_port, "/health").json()
        assert health["levels"] == {"default": 1, "full": 0}
