from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ds4watch.config.filter_file import FilterFile, FilterPlace
from ds4watch.model.errors import ConfigError
from ds4watch.shaping.filter_regex import beginnings, compile_re2
from ds4watch.shaping.filter_rules import RuleSet, compile_filter
from ds4watch.shaping.output_filter import Found, TextFilter


def rules_of(*rules: dict[str, Any], **more: Any) -> RuleSet:
    named = [{"name": f"r{at}"} | rule for at, rule in enumerate(rules)]
    book = compile_filter(FilterFile(rules=named, **more), "f.yml")
    return book.sets(key="", models=())[FilterPlace.CHAT]


def filtered(rules: RuleSet, *pieces: str) -> tuple[str, Found]:
    found: Found = Counter()
    one = TextFilter(rules, found)
    return "".join([*(one.feed(piece) for piece in pieces), one.finish()]), found


@pytest.mark.parametrize(
    ("rule", "text", "wanted"),
    [
        ({"words": ["secret"]}, "a Secret, no secretary: secret", "a ***, no secretary: ***"),
        ({"words": ["secret"], "ignore_case": False}, "Secret secret", "Secret ***"),
        ({"words": ["secret"], "whole_words": False}, "secretary", "***ary"),
        ({"words": ["foo", "foo bar"]}, "foo barx foo bar", "*** barx ***"),
        ({"words": ["été"]}, "L'ÉTÉ, étés", "L'***, étés"),
        ({"words": ["秘密"], "whole_words": False}, "这是秘密吗", "这是***吗"),
        ({"regex": r"\d{4}-\d{4}"}, "1234-5678-9", "***-9"),
        ({"regex": r"\bkey\b"}, "key keyx xkey (key)", "*** keyx xkey (***)"),
        ({"regex": "a+"}, "baaab", "b***b"),
        ({"regex": "a+?"}, "baab", "b******b"),
        ({"regex": "x(?:y|yz|[q-s]{2,3})w"}, "xyw xyzw xqrw xqw", "*** *** *** xqw"),
        ({"regex": r"\x{1F600}|[\]a]b"}, "😀]b ab", "****** ***"),
        ({"regex": "ab", "action": "stop"}, "1ab2", "1"),
        ({"regex": "ab", "action": "flag"}, "1ab2", "1ab2"),
    ],
)
def test_what_is_found_is_dealt_with_wherever_it_is_cut(
    rule: dict[str, Any], text: str, wanted: str
) -> None:
    rules = rules_of(rule)
    assert filtered(rules, text)[0] == wanted
    assert filtered(rules, *text)[0] == wanted
    for at in range(len(text)):
        assert filtered(rules, text[:at], text[at:])[0] == wanted


def test_only_what_could_still_match_is_held_back() -> None:
    rules = rules_of({"regex": "secret"}, {"words": ["hush"]})
    one = TextFilter(rules, Counter())
    assert one.feed("a plain text.") == "a plain text."
    assert one.feed(" the sec") == " the "
    assert one.feed("ond hu") == "second "
    assert one.is_holding
    assert one.feed("t") == "hut"
    assert not one.is_holding


def test_what_is_found_is_counted_by_rule_and_action() -> None:
    rules = rules_of({"words": ["a"]}, {"regex": "b", "action": "flag"})
    assert filtered(rules, "a b b")[1] == {("r0", "mask"): 1, ("r1", "flag"): 2}


def test_after_a_stop_nothing_comes() -> None:
    rules = rules_of({"words": ["end"], "action": "stop"})
    one = TextFilter(rules, Counter())
    assert one.feed("the end is") == "the "
    assert one.is_stopped
    assert one.feed("near") + one.finish() == ""


def test_a_match_that_would_never_end_holds_back_no_more_than_said() -> None:
    rules = rules_of({"regex": "<.*>"}, hold_chars=16)
    one = TextFilter(rules, Counter())
    out = one.feed("<" + "x" * 100)
    assert len(out) >= 101 - 16
    assert filtered(rules, "<" + "x" * 14 + ">")[0] == "***"
    assert filtered(rules, "<" + "x" * 15 + ">") == ("<" + "x" * 15 + ">", Counter())


RULES: list[dict[str, Any]] = [
    {"words": ["ab", "abba", "a b", "ba"]},
    {"words": ["ab", "bab"], "whole_words": False},
    {"regex": "a+b"},
    {"regex": "a.*b"},
    {"regex": r"\bab?\b"},
    {"regex": r"a\b.{1,9}"},
    {"regex": "(?:ab|a)(?:ba|c)"},
    {"regex": "b{2,3}?", "action": "flag"},
    {"regex": "[^a]é|[[:space:]]+b"},
    {"regex": "cab", "action": "stop"},
    {"regex": "(?i:A)(?P<x>b|c)+", "ignore_case": False},
]


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from(RULES), min_size=1, max_size=3),
    st.lists(st.text("abcé B\n", max_size=9), max_size=12),
)
@example([{"regex": r"a\b.{1,9}"}], ["a" * 30, " b"])
@example([{"regex": "a.*b"}], ["a" * 40, "b" * 3])
def test_a_text_in_pieces_is_filtered_as_it_is_whole(
    chosen: list[dict[str, Any]], pieces: list[str]
) -> None:
    rules = rules_of(*chosen, hold_chars=16)
    assert filtered(rules, *pieces) == filtered(rules, "".join(pieces))


@settings(max_examples=400)
@given(
    st.lists(st.sampled_from(RULES), min_size=1, max_size=3),
    st.lists(st.text("abcAé B\n_", max_size=9), max_size=12),
)
@example([{"words": ["ab", "a b"]}], ["_", "ab", " c_ab", "c", " a", " b"])
@example([{"words": ["_a", "-b", "K"]}], ["b_", "a", "c-b k", "\u212a k"])
def test_one_look_for_all_rules_lets_the_same_pass(
    chosen: list[dict[str, Any]], pieces: list[str]
) -> None:
    rules = rules_of(*chosen, hold_chars=16)
    assert rules.quick is not None
    one, other = TextFilter(rules, Counter()), TextFilter(replace(rules, quick=None), Counter())
    assert [one.feed(piece) for piece in pieces] == [other.feed(piece) for piece in pieces]
    assert filtered(rules, *pieces) == filtered(replace(rules, quick=None), *pieces)


def test_a_long_list_of_words_is_asked_by_itself() -> None:
    rules = rules_of({"words": [f"word{at}" for at in range(2000)]})
    assert rules.quick is None
    assert filtered(rules, "a wor", "d77 b") == ("a *** b", Counter({("r0", "mask"): 1}))


@given(st.sampled_from([rule["regex"] for rule in RULES if "regex" in rule]), st.data())
def test_each_beginning_of_a_match_is_a_beginning(regex: Any, data: st.DataObject) -> None:
    text = data.draw(st.text("abc é", max_size=12))
    match = compile_re2(regex).search(text)
    begun = compile_re2(beginnings(regex))
    if match is not None:
        for end in range(match.start(), match.end() + 1):
            # Edges look at what stands beside: the text before stays.
            assert compile_re2(f"(?:{beginnings(regex)})\\z").search(text[:end], match.start())
    assert begun.fullmatch("") is not None


@pytest.mark.parametrize(
    ("regex", "told"),
    [
        ("a*", "must not match the empty text"),
        (r"\b", "must not match the empty text"),
        ("a|", "must not match the empty text"),
        ("^a", "ends of a text"),
        ("a$", "ends of a text"),
        (r"a\z", "ends of a text"),
        ("(a", "not a regular expression of RE2"),
        (r"(a)\1", "not a regular expression of RE2"),
        ("a(?=b)", "not a regular expression of RE2"),
        ("a{2000}", "not a regular expression of RE2"),
        ("a(?i)b", "not understood from"),
        (r"\Qa\E", "ends of a text"),
        ("a**", "not"),
        ("(" * 30 + "a" + ")" * 30, "nested deeper"),
    ],
)
def test_an_expression_that_a_stream_cannot_have_is_refused(regex: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        rules_of({"regex": regex})
    assert caught.value.findings[0].field == "rules[0].regex"


def test_rules_are_for_their_models_and_keys() -> None:
    file = FilterFile(
        rules=[
            {"name": "all", "words": ["a"]},
            {"name": "some", "words": ["b"], "models": ["m"], "keys": ["team"], "where": ["text"]},
        ]
    )
    book = compile_filter(file, "f.yml")
    assert set(book.sets(key="", models=("m",))) == {
        FilterPlace.CHAT,
        FilterPlace.TEXT,
        FilterPlace.REASONING,
    }
    mine = book.sets(key="team", models=("x", "m"))
    assert [rule.name for rule in mine[FilterPlace.TEXT].rules] == ["all", "some"]
    assert [rule.name for rule in mine[FilterPlace.CHAT].rules] == ["all"]
    assert compile_filter(FilterFile(), "f.yml").sets(key="", models=()) == {}
