from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.loader import load_section, load_settings, read_profile
from ds4watch.config.profile import Engine
from ds4watch.config.section import Section
from ds4watch.config.settings import Settings
from ds4watch.model.errors import ConfigError, Located

FAULTS = [
    # text, the one line that a person reads
    (
        "scrape:\n  interval_seconds: -1\n",
        "f.yml:2: scrape.interval_seconds: must be greater than 0, got -1",
    ),
    (
        "scrape:\n  timout_seconds: 3\n",
        "f.yml:2: scrape.timout_seconds: unknown key (did you mean `timeout_seconds`?)",
    ),
    ("scrap:\n", "f.yml:1: scrap: unknown key (did you mean `scrape`?)"),
    ("store: {x: 1}", "f.yml:1: store.x: unknown key (nearest here: "),
    (
        "fleet:\n  workers:\n    - profile: a\n      cuont: 2\n",
        "f.yml:4: fleet.workers[0].cuont: unknown key (did you mean `count`?)",
    ),
    ("admin:\n  port: true\n", "f.yml:2: admin.port: must be a whole number, got true"),
    ("admin:\n  port: '80'\n", 'f.yml:2: admin.port: must be a whole number, got "80"'),
    ("admin:\n  port: 70000\n", "f.yml:2: admin.port: must be at most 65535, got 70000"),
    ("admin:\n  port: 0\n", "f.yml:2: admin.port: must be at least 1, got 0"),
    ("admin:\n  host: 1\n", "f.yml:2: admin.host: must be text, got 1 (put it in quotes)"),
    ("admin: 3\n", "f.yml:1: admin: must be a mapping (lines of `key: value`), got 3"),
    ("admin:\n", "f.yml:1: admin: must be a mapping (lines of `key: value`), got nothing (give"),
    ("rules: a.yml\n", 'f.yml:1: rules: must be a list, got "a.yml"'),
    ("scrape:\n  interval_seconds: .inf", "f.yml:2: scrape.interval_seconds: must be a finite nu"),
    (
        "scrape:\n  interval_seconds: 60",
        "f.yml:2: scrape.interval_seconds: must be at most 30, got 60",
    ),
    ("scrape:\n  interval_seconds: 0.001", "f.yml:2: scrape.interval_seconds: must be at least 0"),
    ("scrape: {timeout_seconds: 999}", "f.yml:1: scrape.timeout_seconds: must be at most 120, go"),
    ("store: {live_window_seconds: 1}", "f.yml:1: store.live_window_seconds: must be at least tw"),
    (
        "gateway:\n  connect_timeout_seconds: 700",
        "f.yml:2: gateway.connect_timeout_seconds: must be at most gateway.request_timeout_second",
    ),
    (
        "gateway:\n  port: 9464\n",
        "f.yml:2: gateway.port: 9464 is admin.port too (choose another port)",
    ),
    (
        "admin:\n  port: 8400\n",
        "f.yml:2: admin.port: 8400 is gateway.port too (choose another port)",
    ),
    (
        "fleet:\n  first_port: 8400\n",
        "f.yml:2: fleet.first_port: 8400 is gateway.port too (choose another port)",
    ),
    ("fleet:\n  workers:\n    - count: 1\n", "f.yml:3: fleet.workers[0].profile: is missing"),
    (
        "fleet:\n  workers:\n    - profile: a\n    - profile: a\n",
        "f.yml:4: fleet.workers[1].profile: a is given twice, first in line 3 (raise its count",
    ),
    (
        "fleet:\n  external:\n    - {name: a, url: 'http://x'}\n    - {name: a, url: 'http://y'}\n",
        "f.yml:4: fleet.external[1].name: a is given twice, first in line 3",
    ),
    ("fleet: {external: [{name: A_, url: 'http://x'}]}", "f.yml:1: fleet.external[0].name: must b"),
    (
        "cost:\n  currency: usd",
        "f.yml:2: cost.currency: must be three capital letters, such as USD",
    ),
    (
        "cost:\n  prices:\n    - valid_from: 2026-01-01 00:00:00\n",
        "f.yml:3: cost.prices[0].valid_from: must name its time zone (add Z for UTC)",
    ),
    (
        "cost:\n  prices:\n    - valid_from: 2026-01-01\n",
        "f.yml:3: cost.prices[0].valid_from: must be an instant such as 2026-01-31T00:00:00Z",
    ),
    ("cost: {prices: [{per_hour: -1}]}", "f.yml:1: cost.prices[0].per_hour: must be at least 0, g"),
    (
        "cost:\n  budgets:\n    - {limit: 5}\n    - {limit: 6, period: month}\n",
        "f.yml:4: cost.budgets[1]: the budget of all by month is given twice, first in line 3 (lea",
    ),
    ("cost:\n  budgets: [{limit: 0}]", "f.yml:2: cost.budgets[0].limit: must be greater than 0"),
    ("cost:\n  budgets: [{key: a}]", "f.yml:2: cost.budgets[0].limit: is missing"),
    (
        "cost:\n  budgets: [{limit: 1, key: a, model: b}]",
        "f.yml:2: cost.budgets[0]: a budget is for a key or for a model; write two",
    ),
    (
        "cost: {prices: [{}, {}]}",
        "f.yml:1: cost.prices[1]: * from 1970-01-01T00:00:00+00:00 is giv",
    ),
    (
        "admin:\n  port: 1\n  port: 2\n",
        "f.yml:3: admin.port: given twice, first in line 2 (take on",
    ),
    ("a: [\n", "f.yml:2: not valid YAML: expected the node content, but found '<stream end>'"),
    ("a: b\n\tc: d\n", "f.yml:2: not valid YAML: found character '\\t' that cannot start any tok"),
    ("a: 1\n\x01", "f.yml:2: not valid YAML: a control character"),
    ("- 1\n", "f.yml:1: must be a mapping (lines of `key: value`)"),
    ("a: 1\n---\nb: 2\n", "f.yml:2: not valid YAML: but found another document"),
    ("3: 4\n", "f.yml:1: a key must be text (put it in quotes)"),
    ("<<: {admin: {}}\n", "f.yml:1: merge keys (<<) are not supported (write the keys out)"),
    ("a: !!python/object:os.system x", "f.yml:1: a: cannot be read as a value: 'x'"),
    ("a: &x [*x]\n", "f.yml:1: a[0]: too large or nested too deeply"),
    ("[" * 5000, "f.yml: nested too deeply"),
    ("#" * (1 << 20) + "\n", "f.yml: larger than 1 MiB (is this the right file?)"),
]


@pytest.mark.parametrize(("text", "line"), FAULTS, ids=[fault[1][:60] for fault in FAULTS])
def test_a_fault_gives_one_line_with_file_line_and_field(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings(text, "f.yml")
    assert str(raised.value.findings[0]).startswith(line)
    assert "pydantic" not in str(raised.value)


def test_every_fault_of_a_file_is_named_in_the_order_of_its_lines() -> None:
    text = (
        "cost:\n  currency: usd\nadmin:\n  port: 0\n  port: 1\nscrape:\n  x: 1\n"
        "  interval_seconds: .nan\n"
    )
    with pytest.raises(ConfigError) as raised:
        load_settings(text, "f.yml")
    assert [(found.line, found.field) for found in raised.value.findings] == [
        (2, "cost.currency"),
        (4, "admin.port"),
        (5, "admin.port"),
        (7, "scrape.x"),
        (8, "scrape.interval_seconds"),
    ]


def test_a_refused_webhook_address_is_not_shown_for_it_may_hold_a_secret() -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings("notify: {webhook_url: 'ftp://hooks/SECRET'}", "f.yml")
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}"])
def test_an_empty_file_gives_the_defaults(text: str) -> None:
    assert load_settings(text, "f.yml") == Settings()


def test_values_arrive_with_their_types() -> None:
    text = (
        "cost:\n  currency: EUR\n  prices:\n"
        "    - {profile: a, per_hour: 0.1, valid_from: 2026-01-01T00:00:00Z}\n"
        "    - {profile: a, per_hour: 2, valid_from: 2026-02-01T00:00:00+01:00}\n"
        "scrape: {interval_seconds: 2}\nrules: [a.yml, 'b/*.yml']\n"
    )
    settings = load_settings(text, "f.yml")
    assert [price.per_hour for price in settings.cost.prices] == [Decimal("0.1"), Decimal(2)]
    assert settings.cost.prices[1].valid_from.utcoffset() is not None
    assert settings.scrape.interval_seconds == 2.0
    assert settings.rules == ("a.yml", "b/*.yml")


@given(st.text(alphabet=st.sampled_from(list("ab:{}[]-\n \t&*!|>'\"#,0.~%@`\x00é")), max_size=60))
def test_any_text_gives_settings_or_located_findings(text: str) -> None:
    findings = findings_in(text)
    assert all(finding.file == "f.yml" for finding in findings)
    assert all("\n" not in str(finding) for finding in findings)


def findings_in(text: str) -> tuple[Located, ...]:
    try:
        load_settings(text, "f.yml")
    except ConfigError as error:
        return error.findings
    return ()


class Leaf(Section):
    length: int = 1


class Tree(Section):
    leaves: dict[str, Leaf]


def test_a_key_is_guessed_within_a_mapping_of_sections_too() -> None:
    with pytest.raises(ConfigError, match=r"leaves\.a\.lenght: unknown key .did you mean"):
        load_section("leaves: {a: {lenght: 2}}", "f.yml", Tree)


PROFILE = "name: a\nengine: sim\nserved_names: [a, b]\n"


def test_a_profile_is_read() -> None:
    profile = read_profile(PROFILE, "dir/a.yml").profile
    assert (profile.engine, profile.served_names) == (Engine.SIM, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PROFILE, "b.yml:1: name: must be the file's name without .yml, got a (call it b, or the"),
        ("name: b\nserved_names: [b]\n", "b.yml:1: a vllm profile needs `model`"),
        ("name: b\nengine: tgi\nserved_names: [b]\n", "b.yml:2: engine: must be one of 'vllm' or"),
        ("name: b\nengine: sim\nserved_names: []\n", "b.yml:3: served_names: must have at least 1"),
        (
            "name: b\nengine: sim\nserved_names:\n  - b\n  - b\n",
            "b.yml:5: served_names[1]: b is given twice, first in line 4",
        ),
        (
            "name: b\nmodel: ./m\nserved_names: [b]\n",
            "b.yml:2: model: must be a full path or a hub name, got ./m",
        ),
        (
            "name: b\nengine: sim\nserved_names: [b]\nreference: b\n",
            "b.yml:4: reference: must be another profile",
        ),
        (
            "name: b\nengine: sim\nserved_names: [b]\nengine_args: [--x, 5]\n",
            "b.yml:4: engine_args[1]: must be text, got 5 (put it in quotes)",
        ),
        (
            "name: b\nengine: sim\nserved_names: [b]\nenvironment:\n  OMP: 2\n",
            "b.yml:5: environment.OMP: must be text, got 2 (put it in quotes)",
        ),
    ],
)
def test_a_faulty_profile_gives_one_line(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_profile(text, "b.yml")
    assert str(raised.value.findings[0]).startswith(line)
