"""`source`: what does not go together is told with its line."""

from __future__ import annotations

import pytest

from ds4watch.config.loader import load_settings
from ds4watch.config.source import RecordedSeries, SourceKind
from ds4watch.model.errors import ConfigError

HEAD = "source:\n  kind: prometheus\n  url: http://prom:9090\n"
FAULTS = [
    # text, the one line that a person reads, without the file
    ("source:\n  kind: prometheus\n", "1: source.url: is missing (name the server, as http://"),
    ("source:\n  url: http://x\n", "2: source.url: is not used by an embedded source (add kind:"),
    ("source:\n  kind: thanos\n", "2: source.kind: must be one of 'embedded' or 'prometheus', got"),
    (HEAD.replace("http:", "ftp:"), "3: source.url: must "),
    (HEAD.replace("prom:", "u:p@prom:"), "3: source.url: must not hold user and password (put th"),
    (HEAD.replace("9090", "9090/?a=b"), "3: source.url: must have nothing behind ? or #"),
    (HEAD.replace("9090", "9090/api/v1"), "3: source.url: must end before /api/v1"),
    (HEAD.replace("9090", "port"), "3: source.url: must name a host, and a port that is a number"),
    (HEAD.replace("//prom", "//"), "3: source.url: must name a host"),
    (HEAD + "  timeout_seconds: 20\n", "4: source.timeout_seconds: must be at most source.interv"),
    (HEAD + "  interval_seconds: 0\n", "4: source.interval_seconds: must be greater than 0"),
    (
        HEAD + "  timeout_seconds: 0.5\n  interval_seconds: 0.5\n",
        "5: source.interval_seconds: must be at least 1, got 0.5",
    ),
    (HEAD + "  retries: -1\n", "4: source.retries: must be at least 0"),
    (HEAD + "  max_age_seconds: -1\n", "4: source.max_age_seconds: must be at least 0"),
    (HEAD + "  only: job=x\n", "4: source.only: must be matchers in braces (as {job=~"),
    (HEAD + "  recorded: remote\n", "4: source.recorded: must be one of 'inline' or 'server', got"),
    (HEAD + "  headers: {Authorization: x}\n", "4: source.headers.Authorization: is not to be set"),
    (HEAD + "  headers: {Host: x}\n", "4: source.headers.Host: is not to be set here"),
    (HEAD + '  headers: {"a b": x}\n', "4: source.headers.a b: is no name of a header"),
    (
        HEAD + '  headers: {X-A: "x\\ny"}\n',
        "4: source.headers.X-A: must be plain text without line",
    ),
    (HEAD + "  basic_auth: {password: x}\n", "4: source.basic_auth.username: is missing"),
    (
        HEAD + "  authorization: {}\n",
        "4: source.authorization: has no token (add credentials_file)",
    ),
    (
        HEAD + "  tls_config: {server_name: x}\n",
        "4: source.tls_config.server_name: is not supported here (name the server in url",
    ),
    (HEAD + "  tls_config: {cert_file: x}\n", "4: source.tls_config.cert_file: needs key_file too"),
    (
        HEAD + "  interval: 15s\n",
        "4: source.interval: unknown key (did you mean `interval_seconds`",
    ),
]


@pytest.mark.parametrize(("text", "line"), FAULTS)
def test_a_fault_is_told_with_its_line(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(text, "ds4watch.yml")
    (finding,) = caught.value.findings
    assert str(finding).startswith(f"ds4watch.yml:{line}")


def test_rules_are_evaluated_here_unless_said_otherwise() -> None:
    assert load_settings("", "x.yml").source.kind is SourceKind.EMBEDDED


def test_a_source_in_full_is_taken() -> None:
    source = load_settings(
        HEAD
        + "  headers: {X-Scope-OrgID: team-a}\n  basic_auth: {username: u, password_file: p}\n"
        + "  only: '{job=~\"ds4watch|vllm\"}'\n  recorded: server\n  max_age_seconds: 0\n",
        "x.yml",
    ).source
    assert source.recorded is RecordedSeries.SERVER
    assert source.headers == {"X-Scope-OrgID": "team-a"}


def test_no_secret_is_in_a_repr() -> None:
    text = HEAD + "  headers: {X-Key: hushhush}\n  authorization: {credentials: hushhush}\n"
    assert "hushhush" not in repr(load_settings(text, "x.yml"))
