from __future__ import annotations

import json
from typing import Any

import pytest

from ds4watch.sim.api_errors import ApiError
from ds4watch.sim.asks import ChatBody, CompletionBody, chat_ask, completion_ask, parse
from ds4watch.sim.generation import Finish
from ds4watch.sim.planning import plan
from ds4watch.sim.settings import SimSettings

SETTINGS = SimSettings(served_names=("sim-full", "sim"), max_model_len=128)


def _chat(**fields: Any) -> dict[str, Any]:
    return {"model": "sim", "messages": [{"role": "user", "content": "Hello"}], **fields}


def _completion(**fields: Any) -> Any:
    body = parse(CompletionBody, json.dumps({"prompt": "Hello", **fields}).encode())
    return completion_ask(body, SETTINGS)


@pytest.mark.parametrize(
    ("fields", "status", "kind", "param"),
    [
        ({"model": "gone"}, 404, "NotFoundError", "model"),
        ({"max_tokens": 129}, 400, "BadRequestError", "max_tokens"),
        ({"max_completion_tokens": 129}, 400, "BadRequestError", "max_completion_tokens"),
        ({"max_tokens": 0}, 400, "BadRequestError", "max_tokens"),
        ({"n": 0}, 400, "BadRequestError", "n"),
        ({"logprobs": True, "top_logprobs": 21}, 400, "BadRequestError", "logprobs"),
        ({"stream": True, "prompt_logprobs": 1}, 400, "BadRequestError", "prompt_logprobs"),
        ({"stream_options": {"include_usage": True}}, 400, "BadRequestError", "stream_options"),
        ({"messages": []}, 400, "Bad Request", "body.messages"),
        ({"max_tokens": "many"}, 400, "Bad Request", "body.max_tokens"),
        (
            {"messages": [{"role": "user", "content": "x" * 200}]},
            400,
            "BadRequestError",
            "input_tokens",
        ),
    ],
)
def test_a_bad_request_is_refused_in_the_shape_of_vllm(
    fields: dict[str, Any], status: int, kind: str, param: str
) -> None:
    with pytest.raises(ApiError) as caught:
        chat_ask(parse(ChatBody, json.dumps(_chat(**fields)).encode()), SETTINGS)
    error = caught.value.as_json()["error"]
    assert (error["code"], error["type"], error["param"]) == (status, kind, param)
    assert error["message"]


def test_a_body_that_is_no_json_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match="JSON decode error"):
        parse(ChatBody, b"{")


def test_without_max_tokens_a_chat_may_fill_the_context_and_a_completion_gets_16() -> None:
    ask = chat_ask(parse(ChatBody, json.dumps(_chat()).encode()), SETTINGS)
    assert ask.max_tokens == (128 - len(ask.prompts[0]),)
    assert _completion().max_tokens == (16,)


def test_prompts_come_as_text_tokens_or_lists_of_either() -> None:
    assert _completion(prompt="ab").prompts == (b"ab",)
    assert _completion(prompt=[97, 98]).prompts == (b"ab",)
    assert _completion(prompt=["a", "b"]).prompts == (b"a", b"b")
    assert _completion(prompt=[[97], [98]]).prompts == (b"a", b"b")
    for empty in ("", [], [""]):
        with pytest.raises(ApiError, match="empty"):
            _completion(prompt=empty)


def test_the_answer_depends_on_prompt_seeds_and_choice_and_on_nothing_else() -> None:
    def answers(worker_seed: int = 1, **fields: Any) -> list[bytes]:
        generations = plan(_completion(**fields), seed=worker_seed, arrived_at=0.0)
        return [generation.answer for generation in generations]

    assert answers() == answers()
    assert answers() != answers(worker_seed=2)
    assert answers() != answers(seed=5)
    assert answers() != answers(prompt="Other")
    first, second = answers(n=2)
    assert first != second


def test_a_stop_string_ends_the_answer_within_the_tokens_that_make_it_up() -> None:
    whole = plan(_completion(max_tokens=60, ignore_eos=True), seed=1, arrived_at=0.0)[0]
    assert whole.finish is Finish.LENGTH
    stop = whole.answer[20:24].decode()
    cut = plan(_completion(max_tokens=60, ignore_eos=True, stop=[stop]), seed=1, arrived_at=0.0)[0]
    assert cut.finish is Finish.STOP
    assert cut.answer.endswith(stop.encode())
    assert len(cut.answer) <= 24


def test_left_alone_an_answer_stops_by_itself_unless_told_to_go_on() -> None:
    wide = SimSettings(max_model_len=4096)
    body = {"prompt": "Hello", "max_tokens": 1000}
    stops = plan(completion_ask(CompletionBody.model_validate(body), wide), seed=1, arrived_at=0)
    assert (stops[0].finish, len(stops[0].answer) < 600) == (Finish.STOP, True)
    body["ignore_eos"] = True
    goes_on = plan(completion_ask(CompletionBody.model_validate(body), wide), seed=1, arrived_at=0)
    assert (goes_on[0].finish, len(goes_on[0].answer)) == (Finish.LENGTH, 1000)
