"""`ds4watch rules replay` on histories of its own, as a person runs it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from ds4watch.history.samples import SampleStore
from tests.edge.cli.test_commands import Ended
from tests.edge.cli.test_history import run_here
from tests.edge.history.folding import open_store
from tests.edge.history.helpers import AB, W1, W2, failed, scrape

NOW = 1_739_998_800.0
"""21:00 UTC on a day that is over."""
RULES = """\
groups:
  - name: g
    rules:
      - record: total
        expr: sum(a)
      - alert: Deep
        expr: total > 10
        for: 30s
        labels: {severity: warning}
        annotations: {ds4_on_no_data: hold}
      - alert: Deep
        expr: total > 100
        labels: {severity: critical}
      - alert: Short
        expr: a == 7
        for: 1m
        labels: {severity: info}
      - alert: Elsewhere
        expr: nobody_has_this > 1
      - alert: Twice
        expr: a * on (job) group_left () a
"""
POLICY = """\
pools: {default: {ladder: [{name: less}, {name: least}], settle_seconds: 60}}
bindings:
  - {match: {alertname: Deep, severity: warning}, level: 2}
"""


async def fill(store: SampleStore, *, until: int = 900) -> None:
    """A queue of 60 from 21:05 to 21:10; at 21:07 nobody answers for a minute."""
    store.intern(AB)
    for target in (W1, W2):
        for at in range(0, until, 15):
            value = 30.0 if 300 <= at < 600 else 7.0 if at == 60 else 0.0
            good = scrape(NOW + at, [value, 0.0], target=target)
            await store.append([failed(NOW + at, target=target) if 420 <= at < 480 else good])
    await store.close()


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    await fill(open_store(tmp_path / "samples.db"))
    (tmp_path / "rules.yml").write_text(RULES)
    (tmp_path / "policy.yml").write_text(POLICY)
    return tmp_path


async def replay(folder: Path, *arguments: str, store: bool = True) -> Ended:
    where = ("--store", str(folder / "samples.db")) if store else ()
    return await asyncio.to_thread(
        run_here,
        *("rules", "replay", str(folder / "rules.yml")),
        *("--policy", str(folder / "policy.yml"), *where, *arguments),
    )


async def test_it_tells_what_would_have_fired_and_been_done(folder: Path) -> None:
    ended = await replay(folder)
    assert (ended.code, ended.err) == (0, "")
    told = " ".join(ended.out.split())
    assert "2025-02-19 21:00:00 to 2025-02-19 21:14:45 (UTC)" in told
    assert "6 rules and policy.yml, evaluated 60 times, 15s apart" in told
    assert "Deep warning 1 4m30s 4m30s 0 1" in told
    assert "Short info 0 - - - 2" in told
    assert "2025-02-19 21:05:30 Deep warning fires at 60 for 4m30s" in told
    assert "21:05:30 → level 0 to 1 (less): Deep (warning) is firing at 60" in told
    assert "21:05:45 → refused: settling, level 1 has 60 s to take effect" in told
    assert "21:06:30 → level 1 to 2 (least)" in told
    assert "Twice could not be evaluated 56 times" in told
    assert "nothing they select is in this history: Elsewhere" in told
    assert "quiet: Deep critical, Elsewhere, Twice" in told


async def test_programs_get_all_of_it_as_json(folder: Path) -> None:
    ended = await replay(folder, "--json", "--from", str(int(NOW)), "--step", "30s")
    found = json.loads(ended.out)
    assert (found["from"], found["to"], found["step_seconds"]) == (NOW, NOW + 885, 30.0)
    (alert,) = (it for it in found["alerts"] if it["name"] == "Deep")
    assert (alert["pending_at"], alert["fired_at"]) == (NOW + 300, NOW + 330)
    assert (alert["resolved_at"], alert["value"]) == (NOW + 600, "60")
    assert [it["to_level"] for it in found["actions"]][:2] == [1, 2]
    assert found["unseen"] == ["Elsewhere"]
    rules = {(it["name"], it["severity"]): it for it in found["rules"]}
    assert rules["Deep", "critical"]["fired"] == 0
    assert rules["Short", "info"]["pending_only"] == 2


async def test_one_alert_may_be_looked_at_alone(folder: Path) -> None:
    ended = await replay(folder, "--only", "Short")
    assert "Short" in ended.out
    assert "Deep" not in ended.out

    ended = await replay(folder, "--only", "Sort")
    assert ended == Ended(2, "", "ds4watch: --only: there is no alert Sort (did you mean Short?)\n")


async def test_an_export_of_ours_is_replayed_as_the_store_itself(folder: Path) -> None:
    state = ("--state", str(folder))
    out = str(folder / "history.om")
    exported = await asyncio.to_thread(run_here, "history", "export", *state, "-o", out)
    assert exported.code == 0
    own = json.loads((await replay(folder, "--json")).out)
    ended = await replay(folder, "--json", "--import", out, store=False)
    found = json.loads(ended.out)
    for part in ("alerts", "actions", "refusals", "rules", "failures"):
        assert found[part] == own[part], part


async def test_a_dump_of_promtool_is_read(folder: Path) -> None:
    series = '{__name__="a", job="vllm", worker="w1"}'
    lines = [
        f"{series} {50 if at > 300 else 0} {int((NOW + at) * 1000)}" for at in range(0, 900, 15)
    ]
    dump = folder / "dump.txt"
    dump.write_text("\n".join(lines) + "\n")
    ended = await replay(folder, "--json", "--import", str(dump), store=False)
    (alert,) = (it for it in json.loads(ended.out)["alerts"] if it["name"] == "Deep")
    assert (alert["fired_at"], alert["resolved_at"]) == (NOW + 345, None)


async def test_a_time_without_scrapes_is_left_out(tmp_path: Path) -> None:
    store = open_store(tmp_path / "samples.db")
    store.intern(AB)
    for at in (*range(0, 300, 15), *range(3000, 3300, 15)):
        await store.append([scrape(NOW + at, [30.0, 0.0])])
    await store.close()
    rules = RULES.replace("for: 30s", "for: 12m")
    (tmp_path / "rules.yml").write_text(rules + "      - {alert: Gone, expr: absent(up)}\n")
    (tmp_path / "policy.yml").write_text(POLICY)
    ended = await replay(tmp_path)
    assert "left out: 40m15s in which nothing was scraped" in ended.out
    assert "quiet: Deep critical, Short, Elsewhere, Gone" in ended.out
    # What was pending before goes on waiting after: the gap does not count.
    assert "21:52:30  Deep warning fires at 30" in ended.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--step", "fast"], "--step: must be a duration such as 30s, 5m or 1h30m, got 'fast'"),
        (["--step", "0"], "--step: must be 0.001 s or more, got '0'"),
        (["--from", "noon"], "--from: must be a time such as"),
        (["--from", "2020-01-01", "--to", "2020-01-02"], "has nothing of that time (it goes from "),
        (["--to", "2025-02-19T20:00Z", "--from", "2025-02-19T21:00Z"], "is after the end"),
        (["--plot", "out.gif"], "--plot: out.gif must end in .png or .svg"),
        (["--import", "x.om"], "--import: is a history of its own (leave out --store and --state)"),
        (["--policy", "/nowhere.yml"], "/nowhere.yml"),
    ],
)
async def test_bad_input_gets_one_clear_line(folder: Path, arguments: list[str], told: str) -> None:
    ended = await replay(folder, *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a 1\n", "bad.om:1: is not `series value time`: 'a 1' "),
        ("a{b=c} 1 2\n", "bad.om:1: is not `series value time`"),
        ("other 1 1739998800\n", "bad.om: holds no sample of what the rules select"),
        ("", "bad.om: holds no sample"),
    ],
)
async def test_a_file_that_cannot_be_read_is_named_with_its_line(
    folder: Path, text: str, told: str
) -> None:
    bad = folder / "bad.om"
    bad.write_text(text)
    ended = await replay(folder, "--import", str(bad), store=False)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err


async def test_no_store_is_told(tmp_path: Path, folder: Path) -> None:
    ended = await asyncio.to_thread(
        run_here, "rules", "replay", "--store", str(tmp_path / "none" / "samples.db")
    )
    assert ended.code == 2
    assert "nothing is stored yet" in ended.err
    ended = await replay(folder, "--import", str(tmp_path / "none.om"), store=False)
    assert "none.om: cannot be read: no such file or directory" in ended.err


async def test_a_prometheus_that_is_not_there_is_told_without_its_password(folder: Path) -> None:
    url = "http://me:secret@127.0.0.1:1"
    ended = await replay(folder, "--import", url, "--from", "5m", store=False)
    assert ended.code == 1
    assert "secret" not in ended.err
    assert (
        "127.0.0.1:1/: cannot be asked" in ended.err or "127.0.0.1:1: cannot be asked" in ended.err
    )


async def test_a_picture_is_drawn(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    ended = await replay(folder, "--plot", str(folder / "out.png"))
    assert (ended.code, ended.err) == (0, "")
    assert (folder / "out.png").read_bytes().startswith(b"\x89PNG")
