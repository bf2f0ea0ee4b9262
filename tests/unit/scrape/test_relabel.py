"""Relabelling, by what Prometheus documents and what its own cases say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.scrape import RelabelConfig
from ds4watch.scrape.relabel import compile_rules, relabel


def step(**fields: Any) -> dict[str, Any]:
    return fields


def run(labels: dict[str, str], *steps: dict[str, Any]) -> dict[str, str] | None:
    return relabel(labels, compile_rules(RelabelConfig(**it) for it in steps))


GREEK = "\u03a3\u0391\u03a3 \u00df"
GREEK_LOW = "\u03c3\u03b1\u03c3 \u00df"
ABC = {"a": "foo", "b": "bar", "c": "baz"}
FROM_A = {"source_labels": ("a",)}

CASES: list[tuple[str, dict[str, str], list[dict[str, Any]], dict[str, str] | None]] = [
    (
        "a part of a value is written to another label",
        ABC,
        [step(**FROM_A, regex="f(.*)", target_label="d", replacement="ch${1}-ch${1}")],
        ABC | {"d": "choo-choo"},
    ),
    (
        "steps see what steps before them wrote",
        ABC,
        [
            step(
                source_labels=("a", "b"),
                regex="f(.*);(.*)r",
                target_label="a",
                replacement="b${1}${2}m",
            ),
            step(
                source_labels=("c", "a"),
                regex="(b).*b(.*)ba(.*)",
                target_label="d",
                replacement="$1$2$2$3",
            ),
        ],
        {"a": "boobam", "b": "bar", "c": "baz", "d": "boooom"},
    ),
    ("drop by a match", {"a": "foo"}, [step(**FROM_A, regex=".*o.*", action="drop")], None),
    (
        "a part is no match",
        {"a": "foo"},
        [step(**FROM_A, regex="f|o", action="drop")],
        {"a": "foo"},
    ),
    ("keep without a match drops", {"a": "foo"}, [step(**FROM_A, regex="no", action="keep")], None),
    ("keep with a match", {"a": "foo"}, [step(**FROM_A, regex="f.*", action="keep")], {"a": "foo"}),
    (
        "an alternative is anchored as a whole",
        {"a": "xfoo"},
        [step(**FROM_A, regex="foo|bar", action="keep")],
        None,
    ),
    (
        "no match, no replacement",
        {"a": "foo"},
        [step(**FROM_A, regex="bar", target_label="d", replacement="x")],
        {"a": "foo"},
    ),
    (
        "a label that is not there is empty, and the default matches that",
        {"a": "foo"},
        [step(source_labels=("z",), target_label="d", replacement="x")],
        {"a": "foo", "d": "x"},
    ),
    (
        "an empty replacement removes the label",
        {"a": "foo", "f": "baz"},
        [step(**FROM_A, regex="(f).*", target_label="$1", replacement="$2")],
        {"a": "foo"},
    ),
    (
        "without source labels a fixed value is set",
        {"a": "foo"},
        [step(target_label="d", replacement="fixed")],
        {"a": "foo", "d": "fixed"},
    ),
    (
        "a target label is a template too",
        {"__meta_sd_tags": "path:/secret,job:some-job,label:foo=bar"},
        [
            step(
                source_labels=("__meta_sd_tags",),
                regex=r"(?:.+,|^)path:(/[^,]+).*",
                target_label="__metrics_path__",
            ),
            step(
                source_labels=("__meta_sd_tags",),
                regex=r"(?:.+,|^)job:([^,]+).*",
                target_label="job",
            ),
            step(
                source_labels=("__meta_sd_tags",),
                regex=r"(?:.+,|^)label:([^=]+)=([^,]+).*",
                target_label="${1}",
                replacement="${2}",
            ),
        ],
        {
            "__meta_sd_tags": "path:/secret,job:some-job,label:foo=bar",
            "__metrics_path__": "/secret",
            "job": "some-job",
            "foo": "bar",
        },
    ),
    (
        "a target label that comes out wrong writes nothing",
        {"a": "some-name"},
        [
            step(**FROM_A, regex="some-(.+)", target_label="${3}"),
            step(**FROM_A, regex="(.+)", target_label="${1}"),
        ],
        {"a": "some-name"},
    ),
    (
        "templates: $$ is $, $1x is the group 1x, a lone $ stays",
        {"a": "foo"},
        [
            step(**FROM_A, target_label="b", replacement="$$1"),
            step(**FROM_A, target_label="c", replacement="[$1x]"),
            step(**FROM_A, target_label="d", replacement="${1}x $ ${ $-"),
            step(**FROM_A, regex="(?P<all>.*)", target_label="e", replacement="${all}$01"),
        ],
        {"a": "foo", "b": "$1", "c": "[]", "d": "foox $ ${ $-", "e": "foo"},
    ),
    (
        "a dot matches a newline, as in Prometheus 3",
        {"a": "fo\no"},
        [step(**FROM_A, regex="f(.*)o", target_label="b")],
        {"a": "fo\no", "b": "o\n"},
    ),
    (
        "a separator may be empty",
        ABC,
        [step(source_labels=("a", "b"), separator="", target_label="d")],
        ABC | {"d": "foobar"},
    ),
    (
        "hashmod takes the last eight bytes of MD5",
        ABC,
        [step(source_labels=("c",), target_label="d", action="hashmod", modulus=1000)],
        ABC | {"d": "976"},
    ),
    (
        "hashmod of a text with a newline",
        {"a": "foo\nbar"},
        [step(**FROM_A, target_label="b", action="hashmod", modulus=1000)],
        {"a": "foo\nbar", "b": "734"},
    ),
    (
        "labelmap copies",
        {"a": "foo", "b1": "bar", "b2": "baz"},
        [step(regex="b(.*)", replacement="bar_${1}", action="labelmap")],
        {"a": "foo", "b1": "bar", "b2": "baz", "bar_1": "bar", "bar_2": "baz"},
    ),
    (
        "labelmap takes a prefix off",
        {"a": "foo", "__meta_my_bar": "aaa", "__meta_my_baz": "bbb", "__meta_other": "ccc"},
        [step(regex="__meta_(my.*)", action="labelmap")],
        {
            "a": "foo",
            "__meta_my_bar": "aaa",
            "__meta_my_baz": "bbb",
            "__meta_other": "ccc",
            "my_bar": "aaa",
            "my_baz": "bbb",
        },
    ),
    (
        "labeldrop",
        {"a": "foo", "b1": "bar", "b2": "baz"},
        [step(regex="b.*", action="labeldrop")],
        {"a": "foo"},
    ),
    (
        "labelkeep",
        {"a": "foo", "b1": "bar", "b2": "baz"},
        [step(regex="b.*", action="labelkeep")],
        {"b1": "bar", "b2": "baz"},
    ),
    (
        "upper and lower case, letter by letter",
        {"foo": "bAr123Foo", "g": GREEK},
        [
            step(source_labels=("foo",), action="uppercase", target_label="up"),
            step(source_labels=("foo",), action="lowercase", target_label="low"),
            step(source_labels=("g",), action="lowercase", target_label="glow"),
            step(source_labels=("g",), action="uppercase", target_label="gup"),
        ],
        {
            "foo": "bAr123Foo",
            "g": GREEK,
            "up": "BAR123FOO",
            "low": "bar123foo",
            "glow": GREEK_LOW,
            "gup": GREEK,
        },
    ),
    (
        "keepequal",
        {"__tmp_port": "1234", "__port1": "1234", "__port2": "5678"},
        [step(source_labels=("__tmp_port",), target_label="__port1", action="keepequal")],
        {"__tmp_port": "1234", "__port1": "1234", "__port2": "5678"},
    ),
    (
        "keepequal drops the unequal",
        {"__tmp_port": "1234", "__port1": "1234", "__port2": "5678"},
        [step(source_labels=("__tmp_port",), target_label="__port2", action="keepequal")],
        None,
    ),
    (
        "dropequal",
        {"__tmp_port": "1234", "__port1": "1234", "__port2": "5678"},
        [step(source_labels=("__tmp_port",), target_label="__port1", action="dropequal")],
        None,
    ),
    (
        "dropequal keeps the unequal",
        {"a": "1", "b": "2"},
        [step(source_labels=("a",), target_label="b", action="dropequal")],
        {"a": "1", "b": "2"},
    ),
]


@pytest.mark.parametrize(
    ("labels", "steps", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_labels_come_out_as_prometheus_has_them(
    labels: dict[str, str], steps: list[dict[str, Any]], wanted: dict[str, str] | None
) -> None:
    given_labels = dict(labels)
    assert run(labels, *steps) == wanted
    assert labels == given_labels, "what is given is left alone"


NAMES = st.sampled_from(["a", "b", "c", "__address__", "__tmp_x"])
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
LABELS = st.dictionaries(NAMES, VALUES, max_size=5)
TEMPLATES = st.text(st.sampled_from(list("$1{}ax_ ")), max_size=8)
REGEXES = st.sampled_from(["(.*)", "a", "(a)|(b)", "", ".+", "[a-c_]*", r"(\w)(.*)"])
STEPS: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(
        dict,
        source_labels=st.lists(NAMES, max_size=3).map(tuple),
        separator=st.sampled_from(["", ";", "$"]),
        regex=REGEXES,
        replacement=TEMPLATES,
        target_label=st.sampled_from(["a", "b", "d_$1", "${2}"]),
        action=st.sampled_from(["replace", "keep", "drop", "lowercase", "uppercase"]),
    ),
    st.builds(dict, regex=REGEXES, action=st.sampled_from(["labeldrop", "labelkeep", "labelmap"])),
)


@given(LABELS, st.lists(STEPS, max_size=4))
def test_any_steps_end_in_labels_without_empty_ones_or_in_a_drop(
    labels: dict[str, str], steps: list[dict[str, Any]]
) -> None:
    found = run(labels, *steps)
    if found is not None:
        assert all(found.values())
        assert run(labels, *steps) == found


@given(LABELS, LABELS)
def test_keep_and_drop_of_one_match_are_opposites(
    labels: dict[str, str], others: dict[str, str]
) -> None:
    for mine in (labels, others):
        kept = run(mine, step(source_labels=("a", "b"), regex="[a-m].*", action="keep"))
        dropped = run(mine, step(source_labels=("a", "b"), regex="[a-m].*", action="drop"))
        assert (kept is None) != (dropped is None)


@given(VALUES, VALUES)
def test_a_template_without_dollars_is_written_as_it_is(value: str, written: str) -> None:
    found = run({"a": value}, step(target_label="d", replacement=written.replace("$", "$$")))
    assert found is not None
    assert found.get("d", "") == written
