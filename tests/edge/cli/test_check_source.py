"""`ds4watch check` on a source of rules, with the server and without it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.edge.cli.test_commands import ds4watch
from tests.edge.scrape.servers import Handler, Site, answer, serving

RULES = """\
groups:
  - name: g
    rules:
      - {record: depth, expr: sum(ds4_queue_depth)}
      - {alert: A, expr: depth > 5}
      - {alert: B, expr: "rate(odd[1m]) > 5"}
"""


def settings(folder: Path, url: str, rules: str = RULES) -> None:
    source = f"source: {{kind: prometheus, url: '{url}', retries: 0, timeout_seconds: 2}}\n"
    (folder / "ds4watch.yml").write_text(f"rules: [a.yml]\n{source}")
    (folder / "a.yml").write_text(rules)


def asked_of(request: str) -> str:
    return parse_qs(urlsplit(unquote(request.split()[1])).query).get("query", [""])[0]


def server(refused: str, absent: str, age: str = "3") -> tuple[Handler, list[Site]]:
    """Answer as a Prometheus that refuses one function, and lacks one metric."""
    sites: list[Site] = []

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = sites[0].requests[-1]
        text, status = asked_of(request), 200
        found: object = {"resultType": "vector", "result": [{"metric": {}, "value": [0, age]}]}
        if "buildinfo" in request:
            found = {"version": "2.42.0"}
        elif f"last_over_time({absent}[1h])" in text:
            found = {"resultType": "vector", "result": []}
        body: dict[str, object] = {"status": "success", "data": found}
        if refused in text and "last_over_time" not in text:
            status, body = 400, {"status": "error", "error": "unknown function"}
        writer.write(answer(json.dumps(body).encode(), status))

    return handler, sites


async def test_what_the_server_refuses_and_lacks_is_told(tmp_path: Path) -> None:
    handler, sites = server(refused="odd", absent="ds4_queue_depth")
    async with serving(default=handler) as site:
        sites.append(site)
        settings(tmp_path, site.url(""))
        ended = await ds4watch("check", "--online", cwd=tmp_path)
        assert ended.code == 2
        assert (
            ended.err == "ds4watch: a.yml: g: B: the server refuses the query: unknown function\n"
        )
        assert "note  the server has had no ds4_queue_depth for 1h: read by depth, A" in ended.out
        found = json.loads((await ds4watch("check", "--online", "--json", cwd=tmp_path)).out)
        assert "source: 2 of 3 rules can be evaluated there" in found["ok"]
        assert len(found["findings"]) == len(found["notes"]) == 1


async def test_a_good_server_is_told_with_its_version(tmp_path: Path) -> None:
    handler, sites = server(refused="nothing", absent="nothing", age="500")
    async with serving(default=handler) as site:
        sites.append(site)
        settings(tmp_path, site.url(""))
        ended = await ds4watch("check", "--online", cwd=tmp_path)
        assert (ended.code, ended.err) == (0, "")
        assert f"ok  source: {site.url('')} answers (version 2.42.0)" in ended.out
        assert "newest `up` is 500 s old" in ended.out


async def test_without_asking_only_what_is_written_is_checked(tmp_path: Path) -> None:
    settings(tmp_path, "http://127.0.0.1:1")
    ended = await ds4watch("check", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert "ok  source: prometheus at http://127.0.0.1:1" in ended.out
    asked = await ds4watch("check", "--online", cwd=tmp_path)
    assert asked.code == 2
    assert asked.err.count("\n") == 1
    assert "ds4watch.yml: source.url: cannot reach the server: connection refused" in asked.err


async def test_a_rule_that_cannot_be_put_to_a_server_is_a_fault(tmp_path: Path) -> None:
    settings(tmp_path, "http://127.0.0.1:1", RULES.replace("sum(ds4_queue_depth)", "depth + 1"))
    ended = await ds4watch("check", cwd=tmp_path)
    assert ended.code == 2
    assert "a.yml: g: depth: depth is recorded from itself" in ended.err


async def test_an_embedded_source_has_nobody_to_ask(tmp_path: Path) -> None:
    (tmp_path / "ds4watch.yml").write_text("rules: [a.yml]\n")
    (tmp_path / "a.yml").write_text(RULES)
    ended = await ds4watch("check", "--online", cwd=tmp_path)
    assert ended.code == 0
    assert "note  source: rules are evaluated here" in ended.out
