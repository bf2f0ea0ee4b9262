from __future__ import annotations

import json
from pathlib import Path

from tests.edge.cli.test_commands import ds4watch
from tests.edge.web.fake_daemon import FakeDaemon
from tests.edge.web.fakes import serving

RULES = """\
groups:
  - name: g
    rules:
      - alert: A
        expr: ds4_kv_usage_ratio > 50
        annotations: {runbook_url: docs/a.md}
"""


async def test_check_points_out_what_would_be_silent(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(RULES)
    (tmp_path / "b.yml").write_text(RULES.replace("> 50", "> 0.5"))
    ended = await ds4watch("rules", "check", "a.yml", "b.yml", cwd=tmp_path)
    assert (ended.code, ended.err) == (1, "")
    said, good = ended.out.splitlines()
    assert said == (
        "a.yml:5: A: `ds4_kv_usage_ratio > 50` compares a share, from 0 to 1, with 50: "
        "it is never so (0.5 is 50 percent) [unit]"
    )
    assert good == "ok  b.yml: 1 rules"

    asked = await ds4watch("rules", "check", "a.yml", "--json", cwd=tmp_path)
    assert asked.code == 1
    (finding,) = json.loads(asked.out)["findings"]
    assert (finding["file"], finding["line"], finding["rule"]) == ("a.yml", 5, "A")
    assert (finding["check"], finding["mend"]) == ("unit", "0.5 is 50 percent")


async def test_check_exits_with_two_for_a_file_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(RULES)
    (tmp_path / "b.yml").write_text(RULES.replace("> 50", "> > 50"))
    ended = await ds4watch("rules", "check", "a.yml", "b.yml", cwd=tmp_path)
    assert ended.code == 2
    assert "[unit]" in ended.out
    assert ended.err.startswith("ds4watch: b.yml:5: groups[0].rules[0].expr: A: ")


async def test_the_shipped_rules_are_checked_where_nothing_is_said(tmp_path: Path) -> None:
    ended = await ds4watch("rules", "check", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "ds4watch.yml: " in ended.out


UNITS = """\
rule_files: [a.yml]
tests:
  - name: a full cache
    interval: 1m
    input_series: [{series: ds4_kv_usage_ratio, values: 60x3}]
    alert_rule_test:
      - eval_time: 1m
        alertname: A
        exp_alerts: [{exp_annotations: {runbook_url: docs/a.md}}]
"""


async def test_test_runs_unit_tests_and_shows_what_differs(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(RULES)
    (tmp_path / "good.yml").write_text(UNITS)
    (tmp_path / "bad.yml").write_text(UNITS.replace("docs/a.md", "docs/b.md"))
    ended = await ds4watch("rules", "test", "good.yml", cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "Unit Testing:  good.yml\n  SUCCESS\n\n")

    ended = await ds4watch("rules", "test", "good.yml", "bad.yml", cwd=tmp_path)
    assert ended.code == 1
    assert "    name: a full cache,\n    alertname: A, time: 1m,\n" in ended.out
    assert '- Labels:{alertname="A"} Annotations:{runbook_url="docs/b.md"}' in ended.out
    assert '+ Labels:{alertname="A"} Annotations:{runbook_url="docs/a.md"}' in ended.out

    asked = await ds4watch("rules", "test", "bad.yml", "--json", cwd=tmp_path)
    (file,) = json.loads(asked.out)["files"]
    assert (asked.code, file["ok"]) == (1, False)
    assert file["tests"][0]["failures"][0]["at_seconds"] == 60.0


async def test_test_exits_with_two_for_a_file_that_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "t.yml").write_text(UNITS)
    ended = await ds4watch("rules", "test", "t.yml", "gone.yml", cwd=tmp_path)
    assert ended.code == 2
    assert "    t.yml: rule_files[0]: no file matches a.yml (patterns start from " in ended.out
    assert "    gone.yml: there is no such file" in ended.out


async def test_explain_shows_parts_and_distances(tmp_path: Path) -> None:
    async with serving(FakeDaemon()) as server:
        ended = await ds4watch(
            "rules", "explain", "QueueDepthHigh", "--admin", server.url, cwd=tmp_path
        )
        asked = await ds4watch(
            "rules", "explain", "QueueDepthHigh", "--json", "--admin", server.url, cwd=tmp_path
        )
        unknown = await ds4watch(
            "rules", "explain", "QueDepth", "--admin", server.url, cwd=tmp_path
        )
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0] == "QueueDepthHigh warning (group load, for 3s): does not hold"
    assert lines[1] == "  sum(ds4_queue_depth) > 50"
    assert lines[2].startswith("  pending since ")
    assert lines[3:5] == [
        "  wants sum(ds4_queue_depth) > 50",
        "    23: not so, 27 short, 46% of it",
    ]
    assert lines[5:] == [
        "  parts now:",
        "    sum(ds4_queue_depth): 23",
        '      ds4_queue_depth: {worker="a"} 20, {worker="b"} 3',
    ]
    assert json.loads(asked.out)[0]["conditions"][0]["threshold"] == 50.0
    assert unknown.code == 1
    assert "there is no rule QueDepth (did you mean QueueDepthHigh?)" in unknown.err
