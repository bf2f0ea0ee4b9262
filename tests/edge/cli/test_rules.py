from __future__ import annotations

import json
from pathlib import Path

from tests.edge.cli.test_commands import ds4watch

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
