from __future__ import annotations

import pytest

from ds4watch.config.loader import load_settings
from ds4watch.config.scrape import RelabelAction, Scheme
from ds4watch.model.errors import ConfigError

HEAD = "scrape:\n  groups:\n    - name: pool\n"
STATIC = HEAD + "      static_configs: [{targets: ['a:1']}]\n"


def group(text: str) -> str:
    """Return settings with one group; the text's first line is line 5 of the file."""
    return STATIC + "".join(f"      {line}\n" for line in text.splitlines())


FAULTS = [
    # text, the one line that a person reads, without what is before the group
    (HEAD, "3: has no targets (add static_configs, file_sd_configs or http_sd_configs)"),
    (HEAD + "      job_name: x\n", "4: .job_name: unknown key (did you mean `name`?)"),
    (
        HEAD + "      scrape_interval: 5s\n",
        "4: .scrape_interval: unknown key (did you mean `interv",
    ),
    (HEAD + "      file_sd: []\n", "4: .file_sd: unknown key (did you mean `file_sd_configs`?)"),
    (
        HEAD + "      body_size_limit: 1MB\n",
        "4: .body_size_limit: unknown key (did you mean `max_b",
    ),
    (
        STATIC.replace("pool", "a/b"),
        "3: .name: must be 1 to 63 letters, digits, dots, dashes and _",
    ),
    (
        STATIC.replace("pool", "fleet"),
        "3: .name: fleet is the group of the daemon's own workers (r",
    ),
    (
        STATIC.replace("a:1", "http://a:1"),
        "4: .static_configs[0].targets[0]: must be host:port, without http:// and path (see scheme",
    ),
    (STATIC.replace("a:1", "a:b"), "4: .static_configs[0].targets[0]: must be host:port"),
    (
        STATIC.replace("]}]", "], labels: {a-b: x}}]"),
        "4: .static_configs[0].labels.a-b: must be letters, digits and _, and not begin with a dig",
    ),
    (
        STATIC.replace("]}]", "], labels: {port: 80}}]"),
        "4: .static_configs[0].labels.port: must be text, got 80 (put it in quotes)",
    ),
    (
        group("interval_seconds: 5s"),
        '5: .interval_seconds: must be a number, got "5s" (a plain number of seconds: 5)',
    ),
    (
        group("interval_seconds: 0.5"),
        "5: .interval_seconds: must be at least scrape.interval_secon",
    ),
    (
        group("interval_seconds: 600"),
        "5: .interval_seconds: must be at most half of store.live_wind",
    ),
    (group("timeout_seconds: 600"), "5: .timeout_seconds: must be at most 120, got 600"),
    (group("scheme: ftp"), "5: .scheme: must be one of 'http' or 'https', got \"ftp\""),
    (
        group("metrics_path: m"),
        "5: .metrics_path: must begin with / and have no ? (see params), got",
    ),
    (
        group("metrics_path: /m?a=1"),
        "5: .metrics_path: must begin with / and have no ? (see params)",
    ),
    (group("params: {a: b}"), '5: .params.a: must be a list, got "b"'),
    (
        group("file_sd_configs: [{files: ['a.txt']}]"),
        '5: .file_sd_configs[0].files[0]: must end in .json, .yml or .yaml, got "a.txt"',
    ),
    (
        group("file_sd_configs:\n  - files: [a.yml]\n    refresh_seconds: 0.001"),
        "7: .file_sd_configs[0].refresh_seconds: must be at least 0.05, got 0.001",
    ),
    (
        group("file_sd_configs: [{files: [a.yml], refresh_interval: 5}]"),
        "5: .file_sd_configs[0].refresh_interval: unknown key (did you mean `refresh_seconds`?)",
    ),
    (
        group("http_sd_configs: [{url: 'ftp://x'}]"),
        "5: .http_sd_configs[0].url: must start with ht",
    ),
    (
        group("http_sd_configs: [{url: 'http:///x'}]"),
        "5: .http_sd_configs[0].url: must name a host",
    ),
    (
        group("http_sd_configs: [{url: 'http://ann:hunter2@h/'}]"),
        "5: .http_sd_configs[0].url: must not hold user and password (put them under basic_auth)",
    ),
    (
        group("relabel_configs:\n  - {target_label: a}\n  - regex: '('\n    target_label: b"),
        "7: .relabel_configs[1].regex: is not a regular expression of RE2: missing ): ",
    ),
    (
        group("relabel_configs: [{action: keep, source_labels: [a-b]}]"),
        "5: .relabel_configs[0].source_labels[0]: must be letters, digits and _, and not begin wit",
    ),
    (
        group("relabel_configs: [{target_label: a-b}]"),
        "5: .relabel_configs[0].target_label: must be letters, digits and _, and not begin with a",
    ),
    (group("relabel_configs: [{}]"), "5: .relabel_configs[0].target_label: replace needs one"),
    (
        group("relabel_configs: [{action: labeldrop, regex: a, target_label: b}]"),
        "5: .relabel_configs[0].target_label: is not used by labeldrop",
    ),
    (
        group("basic_auth: {username: a}\nauthorization: {credentials: hunter2}"),
        "6: .authorization: stands beside basic_auth (take one of them out)",
    ),
    (group("basic_auth: {password: hunter2}"), "5: .basic_auth.username: is missing"),
    (
        group("basic_auth: {username: a, password: hunter2, password_file: b}"),
        "5: .basic_auth.password: stands beside password_file (take one of them out)",
    ),
    (group("basic_auth: ann:hunter2"), "5: .basic_auth: must be a mapping (lines of `key: value`)"),
    (
        group("basic_auth: [{password: hunter2}]"),
        "5: .basic_auth: must be a mapping (lines of `key",
    ),
    (
        group("authorization: {credentials: [hunter2]}"),
        "5: .authorization.credentials: must be text",
    ),
    (group("authorization: {}"), "5: .authorization: has no token (add credentials_file)"),
    (
        group("authorization: {type: basic, credentials: hunter2}"),
        "5: .authorization.type: must not be Basic (use basic_auth instead)",
    ),
    (group("tls_config: {cert_file: c}"), "5: .tls_config.cert_file: needs key_file too"),
    (group("target_limit: 0"), "5: .target_limit: must be at least 1, got 0"),
]


@pytest.mark.parametrize(("text", "line"), FAULTS, ids=[fault[1][:60] for fault in FAULTS])
def test_a_fault_of_a_group_gives_one_line_with_its_place(text: str, line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_settings(text, "f.yml")
    number, _, rest = line.partition(": ")
    told = str(raised.value.findings[0])
    start = f"f.yml:{number}: scrape.groups[0]"
    assert told.startswith(start + (rest if rest.startswith(".") else f": {rest}"))
    assert "hunter2" not in str(raised.value)


def test_groups_that_hold_a_secret_are_not_quoted_when_they_are_of_the_wrong_kind() -> None:
    with pytest.raises(ConfigError, match="groups: must be a list, got a mapping") as raised:
        load_settings("scrape: {groups: {basic_auth: {password: hunter2}}}", "f.yml")
    assert "hunter2" not in str(raised.value)


def test_two_groups_of_one_name_are_refused() -> None:
    text = STATIC + "    - name: pool\n      static_configs: [{targets: ['b:1']}]\n"
    with pytest.raises(ConfigError, match="pool is given twice, first in line 3"):
        load_settings(text, "f.yml")


def test_a_group_is_read_with_prometheus_words_and_defaults() -> None:
    text = group(
        "scheme: https\nparams: {'match[]': [a, b]}\n"
        "relabel_configs: [{source_labels: [__address__], target_label: x}]"
    )
    (found,) = load_settings(text, "f.yml").scrape.groups
    assert found.scheme is Scheme.HTTPS
    assert found.params == {"match[]": ("a", "b")}
    (step,) = found.relabel_configs
    assert (step.action, step.regex, step.separator) == (RelabelAction.REPLACE, "(.*)", ";")
    assert (step.replacement, found.target_limit, found.interval_seconds) == ("$1", 5000, None)
