"""What a user sees of a compressed prompt. The fillers are a licence and a manual."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.shaping.compress import (
    MAX_RATIO,
    MIN_RATIO,
    changed_fields,
    compress,
    cut,
    estimated_tokens,
    read_body,
)
from ds4watch.shaping.segments import join, segments_of

ROOT = Path(__file__).resolve().parents[3]
LICENSE = (ROOT / "LICENSE").read_text()
MANUAL = (ROOT / "tests/data/texts/manual.txt").read_text()
FACTS = (
    "The pump in hall 7 needs 415 litres of oil a month.",
    "Greta Olsen keeps the key to the archive.",
    "The lease ends on 14 March 2029.",
    "The word that opens the gate is marigold.",
    "the winter coat hangs behind the mirror in the hall.",
    "our neighbour's ladder was lost on the way to the station.",
    "The code of project Falcon is 7731.",
    "The code of project Heron is 9034.",
    "The code of project Osprey is 1288.",
    "The code of project Kestrel is 5570.",
)
_PLACES = re.compile(r"(?<=[a-z][.!?])(?: |\n)(?=\S)")


def planted(text: str, seed: int) -> str:
    dice = random.Random(seed)
    places = sorted(dice.sample([it.start() for it in _PLACES.finditer(text)], len(FACTS)))
    for place, fact in zip(reversed(places), dice.sample(FACTS, len(FACTS)), strict=True):
        text = f"{text[:place]} {fact}{text[place:]}"
    return text


def flat(text: str) -> str:
    return " ".join(text.split())


def shortened(text: str, ratio: float = 0.5, **more: Any) -> str:
    return str(compress({"model": "m", "prompt": text}, ratio=ratio, **more).body["prompt"])


def test_facts_that_nothing_points_to_survive_when_half_of_a_text_goes() -> None:
    lost = [
        fact
        for filler in (LICENSE, MANUAL)
        for seed in range(5)
        for kept in [flat(shortened(planted(filler, seed)))]
        for fact in FACTS
        if fact not in kept
    ]
    assert len(lost) <= 0.08 * 2 * 5 * len(FACTS), lost


@pytest.mark.parametrize("ratio", [0.3, 0.4, 0.5, 0.6, 0.7])
def test_as_much_is_kept_as_was_asked_for(ratio: float) -> None:
    done = compress({"prompt": LICENSE}, ratio=ratio)
    assert done.ratio == pytest.approx(ratio, abs=0.03)
    assert done.tokens_before == estimated_tokens(LICENSE)
    assert done.tokens_after == estimated_tokens(done.body["prompt"])


def test_the_ratio_stays_within_its_bounds_and_one_changes_nothing() -> None:
    body = {"prompt": LICENSE}
    assert shortened(LICENSE, 0.01) == shortened(LICENSE, MIN_RATIO)
    assert shortened(LICENSE, 0.95) == shortened(LICENSE, MAX_RATIO)
    assert compress(body, ratio=1.0).body is body


def test_what_stays_is_in_its_order_and_as_it_was() -> None:
    done = compress({"prompt": LICENSE}, ratio=0.5)
    at = 0
    for segment in segments_of(str(done.body["prompt"])):
        piece = str(done.body["prompt"])[segment.start : segment.end]
        # Cut anew, neighbours may have become one: their lines are still those of the original.
        for line in piece.splitlines():
            found = LICENSE.find(line.strip()[:30], at)
            assert found >= 0, line
    assert all(text in LICENSE for text in done.removed)


def test_the_same_prompt_gives_the_same_and_the_given_body_is_not_touched() -> None:
    text = planted(LICENSE, 3)
    body = {
        "messages": [{"role": "user", "content": text}, *[{"role": "user", "content": "?"}] * 2]
    }
    first, second = compress(body, ratio=0.5), compress(body, ratio=0.5)
    assert first == second
    assert body["messages"][0]["content"] == text


def test_what_is_short_enough_already_is_left_alone() -> None:
    once = compress({"prompt": LICENSE}, ratio=0.5)
    again = compress(once.body, ratio=once.tokens_before * 0.5 / once.tokens_after)
    assert again.ratio > MAX_RATIO - 0.03


def test_one_of_two_copies_stays() -> None:
    fact = "The ferry to the island leaves from the northern pier at dusk."
    text = f"{fact} {LICENSE[:6000]} {fact}"
    assert fact in flat(shortened(text))


CHAT: dict[str, Any] = {
    "model": "m",
    "temperature": 0.1,
    "messages": [
        {"role": "system", "content": LICENSE[:3000]},
        {"role": "user", "content": LICENSE},
        {"role": "assistant", "content": LICENSE[3000:6000]},
        {"role": "user", "content": LICENSE[:2000]},
    ],
}


def test_the_system_prompt_and_the_last_turns_are_kept_whole() -> None:
    done = compress(CHAT, ratio=0.5)
    for kept in (0, 2, 3):
        assert done.body["messages"][kept] == CHAT["messages"][kept]
    assert len(done.body["messages"][1]["content"]) < len(LICENSE)
    assert done.body["temperature"] == 0.1


def test_with_more_turns_kept_nothing_is_left_to_cut() -> None:
    assert compress(CHAT, ratio=0.5, kept_turns=3).body is CHAT
    assert changed_fields(CHAT, compress(CHAT, ratio=0.5, kept_turns=3)) is None


def test_a_single_turn_is_cut_only_where_that_was_asked_for_and_its_ends_stay() -> None:
    question = "What does the licence say of patents?"
    text = f"Answer from the text below.\n\n{LICENSE}\n\n{question}"
    body = {"messages": [{"role": "user", "content": text}]}
    assert compress(body, ratio=0.5).body is body
    content = compress(body, ratio=0.5, cut_last_turns=True).body["messages"][0]["content"]
    assert len(content) < 0.55 * len(text)
    assert content.startswith("Answer from the text below.")
    assert content.endswith(question)


def test_the_beginning_and_the_end_of_a_plain_prompt_stay() -> None:
    kept = shortened(f"Summarise this.\n\n{LICENSE}\n\nIn three sentences:")
    assert kept.startswith("Summarise this.")
    assert kept.endswith("In three sentences:")


FENCED = "```python\ndef area(r):\n    return 3.14 * r * r\n```"
INDENTED = "    for name in names:\n        print(name)\n    total = sum(sizes)"
DATA = '{\n  "host": "127.0.0.1",\n  "ports": [8400, 9464]\n}'
QUOTED = "> Never restart the pump\n> before the valve is shut."
SPOKEN = 'The manual says: "Close the valve before you open the tap."'


@pytest.mark.parametrize("block", [FENCED, INDENTED, DATA, QUOTED, SPOKEN])
def test_code_data_and_quotations_stay_whole_even_if_they_are_there_ten_times(block: str) -> None:
    text = "\n\n".join(f"{LICENSE[at : at + 900]}\n\n{block}" for at in range(0, 9000, 900))
    assert shortened(text, 0.4).count(block) == 10


def test_indented_prose_is_not_taken_for_code() -> None:
    text = "\n".join(f"       {line}" if line.strip() else "" for line in MANUAL.splitlines())
    assert compress({"prompt": text}, ratio=0.5).ratio < 0.65


def test_parts_of_a_message_are_cut_and_pictures_are_passed_on() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    message = {"role": "user", "content": [picture, {"type": "text", "text": LICENSE}]}
    body = {"messages": [message, {"role": "assistant", "content": None}, CHAT["messages"][3]]}
    done = compress(body, ratio=0.5)
    parts = done.body["messages"][0]["content"]
    assert parts[0] == picture
    assert len(parts[1]["text"]) < len(LICENSE)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": [1, 2, 3]},
        {"prompt": ["a", "b"]},
        {"prompt": ""},
        {"messages": []},
        {"messages": "no"},
        {"messages": [{"role": "user"}, 3, {"content": [4, {"text": 5}]}, None]},
    ],
)
def test_what_has_no_text_to_cut_is_passed_on(body: dict[str, Any]) -> None:
    assert compress(body, ratio=0.5).body is body


def test_the_callers_own_count_of_tokens_is_told() -> None:
    done = compress({"prompt": LICENSE}, ratio=0.5, count=lambda text: len(text.split()))
    assert done.tokens_before == len(LICENSE.split())
    assert done.tokens_after == len(str(done.body["prompt"]).split())


def test_a_models_judgement_takes_the_place_of_the_texts_own() -> None:
    body = {"prompt": "\n\n".join(f"Sentence {word} stands here." for word in "abcdefghijkl")}
    body["prompt"] = "x" * 200 + "\n\n" + body["prompt"] + "\n\n" + "y" * 200
    read = read_body(body)
    surprise = [9.0 if "k" in text.split()[1:2] else 1.0 for text in read.texts]
    done = cut(read, ratio=0.3, surprise=surprise)
    assert "Sentence k stands here." in str(done.body["prompt"])
    assert len(done.removed) >= 3


def test_text_in_a_script_without_spaces_is_cut_too() -> None:
    filler = "".join(f"这是第{at}个普通的句子它没有什么内容。" for at in range(200))
    fact = "钥匙藏在老橡树后面的蓝色盒子里。"
    kept = shortened(filler[:2000] + fact + filler[2000:])
    assert fact in kept
    assert len(kept) < 0.6 * len(filler)


@given(st.text(alphabet=st.sampled_from("ab.{}[]\"'`>~ \n\t-#1。"), max_size=300))
def test_segments_and_gaps_are_the_text(text: str) -> None:
    segments = segments_of(text)
    assert join(text, segments, ()) == text
    ends = [0, *(it.end for it in segments)]
    for end, segment in zip(ends, segments, strict=False):
        assert segment.start >= end
        assert not text[end : segment.start].strip()
        assert text[segment.start : segment.end].strip()
    if segments:
        assert not text[segments[-1].end :].strip()


@given(st.text(max_size=400), st.sampled_from([0.3, 0.5, 0.7]))
def test_whatever_the_text_nothing_is_added_to_it(text: str, ratio: float) -> None:
    kept = shortened(text, ratio)
    rest = iter(text)
    assert all(letter in rest for letter in kept)


@pytest.mark.parametrize("text", ["[" * 100_000, "{\n" * 50_000, "a" * 200_000, '"' * 99_999])
def test_hostile_text_is_no_more_work_than_other_text(text: str) -> None:
    """No depth of brackets and no length of word raises; what takes too long would time out."""
    assert len(shortened(text)) <= len(text)
