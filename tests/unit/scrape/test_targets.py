from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.scrape import RelabelConfig
from ds4watch.model.errors import ScrapeError
from ds4watch.model.scrape import Target
from ds4watch.scrape.listing import Listing, read_json, read_yaml
from ds4watch.scrape.relabel import compile_rules
from ds4watch.scrape.targets import (
    Refusal,
    Refused,
    Resolved,
    TargetRules,
    resolve,
    target_of,
    without_duplicates,
)


def rules(*steps: dict[str, Any], **fields: Any) -> TargetRules:
    compiled = compile_rules(RelabelConfig(**step) for step in steps)
    return TargetRules(name="pool", rules=compiled, **fields)


def found(made: Target | Refusal | None) -> Target:
    assert isinstance(made, Target), made
    return made


def shown(target: Target) -> dict[str, str]:
    return dict(target.labels)


def test_a_bare_address_becomes_a_target_with_job_instance_worker_and_profile() -> None:
    target = found(target_of(rules(), "10.0.0.1:8000", {}))
    assert target.name == "pool/10.0.0.1:8000"
    assert target.url == "http://10.0.0.1:8000/metrics"
    assert target.group == "pool"
    assert shown(target) == {
        "job": "pool",
        "instance": "10.0.0.1:8000",
        "worker": "10.0.0.1:8000",
        "profile": "external",
    }


def test_labels_of_the_list_beat_those_of_the_group() -> None:
    labels = {
        "job": "other",
        "__scheme__": "https",
        "__metrics_path__": "/m",
        "__param_module": "x y",
        "worker": "w1",
        "profile": "llama",
    }
    target = found(target_of(rules(params=(("module", ("a", "b")),)), "h:1", labels))
    assert target.url == "https://h:1/m?module=x+y&module=b"
    assert target.name == "other/h:1"
    assert shown(target)["worker"] == "w1"
    assert shown(target)["profile"] == "llama"


@pytest.mark.parametrize(
    ("path", "params", "url"),
    [
        ("/metrics", (), "http://h:1/metrics"),
        ("/a b/ü", (), "http://h:1/a%20b/%C3%BC"),
        ("/a?b#c", (), "http://h:1/a%3Fb%23c"),
        ("/", (("b", ("2",)), ("a", ("1", "&="))), "http://h:1/?a=1&a=%26%3D&b=2"),
    ],
)
def test_the_address_is_written_as_go_writes_it(path: str, params: Any, url: str) -> None:
    assert found(target_of(rules(metrics_path=path, params=params), "h:1", {})).url == url


def test_relabelling_can_change_where_the_page_is() -> None:
    steps = (
        {"source_labels": ("__address__",), "target_label": "__param_target"},
        {"source_labels": ("__param_target",), "target_label": "instance"},
        {"target_label": "__address__", "replacement": "probe:9115"},
        {"target_label": "__metrics_path__", "replacement": "probe"},
        {"target_label": "__tmp_seen", "replacement": "1"},
    )
    target = found(target_of(rules(*steps), "far:80", {"__meta_rack": "r1"}))
    assert target.url == "http://probe:9115/probe?target=far%3A80"
    assert shown(target) == {
        "job": "pool",
        "instance": "far:80",
        "worker": "far:80",
        "profile": "external",
    }


@pytest.mark.parametrize(
    ("steps", "address", "told"),
    [
        (({"target_label": "__address__", "replacement": ""},), "h:1", "left no address"),
        (({"target_label": "__scheme__", "replacement": "ftp"},), "h:1", "__scheme__ must be http"),
        ((), "http://h:1", "must be host:port, without http://"),
        ((), "user:secret@h:1", "must be host:port"),
        ((), "h:port", "must be host:port"),
        (
            ({"target_label": "__scrape_interval__", "replacement": "9s"},),
            "h:1",
            "cannot be set for one target",
        ),
        (({"target_label": "instance", "replacement": "x" * 300},), "h:1", "longer than 255"),
    ],
)
def test_what_cannot_be_scraped_is_refused_with_the_reason(
    steps: Any, address: str, told: str
) -> None:
    made = target_of(rules(*steps), address, {})
    assert isinstance(made, Refusal)
    assert made.kind is Refused.INVALID
    assert told in made.message


def test_a_group_takes_no_more_targets_than_its_limit() -> None:
    listing = Listing(tuple(f"h:{port}" for port in range(1, 8)))
    resolved = resolve(rules(target_limit=5), [listing])
    assert [it.name for it in resolved.targets] == [f"pool/h:{port}" for port in range(1, 6)]
    assert [it.kind for it in resolved.refusals] == [Refused.LIMIT] * 2
    assert resolved.refusals[0].message == "2 targets are over target_limit (5)"


def test_what_is_listed_as_before_is_the_same_target() -> None:
    before = resolve(rules(), [Listing(("h:1", "h:2"), (("zone", "a"),))])
    after = resolve(rules(), [Listing(("h:2",), (("zone", "a"),)), Listing(("h:1",))], before)
    assert after.targets[0] is before.targets[1]
    assert dict(after.targets[1].labels).get("zone") is None


def test_of_two_targets_with_one_name_the_first_is_kept() -> None:
    first = resolve(rules(), [Listing(("h:1",), (("zone", "a"),))])
    second = resolve(rules(), [Listing(("h:1", "h:2"))])
    both = without_duplicates([first, second])
    assert [it.name for it in both.targets] == ["pool/h:1", "pool/h:2"]
    assert dict(both.targets[0].labels)["zone"] == "a"
    assert [it.kind for it in both.refusals] == [Refused.DUPLICATE]


@given(st.lists(st.sampled_from(["a:1", "b:1", "c:2", "bad/", ""]), max_size=12))
def test_each_address_is_scraped_or_refused_and_no_name_appears_twice(
    addresses: list[str],
) -> None:
    resolved = resolve(rules(target_limit=4), [Listing(tuple(addresses))])
    assert len(resolved.targets) + len(resolved.refusals) == len(addresses)
    names = [it.name for it in without_duplicates([resolved, Resolved()]).targets]
    assert len(set(names)) == len(names)


def test_json_and_yaml_lists_say_the_same() -> None:
    json = b'[{"targets": ["a:1", "b:2"], "labels": {"zone": "x", "port": "80"}}, {"targets": []}]'
    yaml = b"- targets: ['a:1', b:2]\n  labels: {zone: x, port: 80}\n- targets:\n"
    meta = {"__meta_filepath": "f"}
    wanted = (("__meta_filepath", "f"), ("port", "80"), ("zone", "x"))
    for read, text in ((read_json, json), (read_yaml, yaml)):
        first, second = read(text, meta)
        assert first == Listing(("a:1", "b:2"), wanted)
        assert second.addresses == ()
    assert read_yaml(b"", {}) == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "is not JSON"),
        (b"{}", "must be a list of {targets, labels}"),
        (b"[null]", "[0]: must be a mapping"),
        (b'[{"targets": "a:1"}]', "[0].targets: must be a list"),
        (b'[{"targets": [1]}]', "[0].targets[0]: must be text"),
        (b'[{"target": ["a:1"]}]', "[0]: unknown key 'target' (known: targets, labels)"),
        (b'[{"targets": [], "labels": {"a-b": "x"}}]', "'a-b' is not the name of a label"),
        (b'[{"targets": [], "labels": {"a": 1}}]', "[0].labels.a: must be text"),
        (b'[{"targets": ["\\ud800"]}]', "[0].targets[0]: is not text"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff", "is not JSON"),
    ],
)
def test_a_broken_list_says_where_it_is_broken(text: bytes, told: str) -> None:
    with pytest.raises(ScrapeError) as raised:
        read_json(text, {})
    assert told in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"- targets: [a:1\n- b\n", "is not YAML: "),
        (b"- {targets: [{a: 1}]}", "[0].targets[0]: must be text"),
        (b"\x00", "is not YAML"),
        (b"- !!python/object/apply:os.system [x]", "[0]: must be a mapping"),
    ],
)
def test_a_broken_yaml_list_says_so(text: bytes, told: str) -> None:
    with pytest.raises(ScrapeError) as raised:
        read_yaml(text, {})
    assert told in str(raised.value)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_list_or_a_scrape_error(text: bytes) -> None:
    for read in (read_json, read_yaml):
        with suppress(ScrapeError):
            assert isinstance(read(text, {}), tuple)
