from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.edge.sim.conftest import Client, StartSim


async def _events(client: Client, path: str, body: dict[str, Any]) -> list[Any]:
    async with client.session.post(client.url + path, json=body) as response:
        assert response.headers["Content-Type"].startswith("text/event-stream")
        text = await response.text()
    events = text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


async def test_models_version_health_and_load(sim: StartSim) -> None:
    client = await sim()
    models = (await client.get("/v1/models"))["data"]
    assert [card["id"] for card in models] == ["sim-full", "sim"]
    assert models[0]["max_model_len"] == 8192
    assert await client.get("/version") == {"version": "0.32.0"}
    assert await client.get("/load") == {"server_load": 0}
    for path in ("/health", "/ping"):
        async with client.session.get(client.url + path) as response:
            assert (response.status, await response.read()) == (200, b"")


async def test_the_answer_names_the_model_asked_for_and_the_page_the_first_served(
    sim: StartSim,
) -> None:
    client = await sim()
    assert (await client.chat())["model"] == "sim"
    assert (await client.chat(model=None))["model"] == "sim-full"
    page = await client.page()
    assert b'model_name="sim-full"' in page
    assert b'model_name="sim"' not in page


async def test_equal_questions_get_equal_answers(sim: StartSim) -> None:
    one, other = await sim(), await sim()
    first, second = await one.chat(max_tokens=30), await other.chat(max_tokens=30)
    assert first["choices"] == second["choices"]
    assert len(first["choices"][0]["message"]["content"]) == 30
    assert first["choices"][0]["finish_reason"] == "length"


async def test_tokenize_counts_what_usage_counts(sim: StartSim) -> None:
    client = await sim()
    messages = [{"role": "user", "content": "Grüße"}]
    counted = await client.post("/tokenize", {"model": "sim", "messages": messages})
    usage = (await client.chat("Grüße"))["usage"]
    assert counted["count"] == len(counted["tokens"]) == usage["prompt_tokens"]
    assert counted["max_model_len"] == 8192
    text = await client.post("/detokenize", {"tokens": counted["tokens"]})
    assert "Grüße" in text["prompt"]
    assert (await client.post("/tokenize", {"prompt": "ü"}))["tokens"] == [195, 188]


async def test_usage_adds_up_to_the_counters(sim: StartSim) -> None:
    client = await sim(block_size=16)
    usages = [(await client.chat("The same long question. " * n))["usage"] for n in (4, 4, 8, 2)]
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert cached[0] == 0
    assert cached[1] > 80
    values = await client.values()
    assert values["vllm:prompt_tokens_total"] == sum(usage["prompt_tokens"] for usage in usages)
    assert values["vllm:prompt_tokens_cached_total"] == sum(cached)
    assert values["vllm:prefix_cache_hits_total"] == sum(cached)
    assert values["vllm:generation_tokens_total"] == 16
    assert values["vllm:request_success_total length"] == 4
    assert values["vllm:num_requests_running"] == values["vllm:num_requests_waiting"] == 0
    assert values["http_requests_total /v1/chat/completions POST 2xx"] == 4
    assert values["http_request_duration_highr_seconds_count"] == 4


async def test_a_stream_ends_with_usage_only_if_asked(sim: StartSim) -> None:
    client = await sim()
    body = {
        "model": "sim",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 3,
        "stream": True,
    }
    plain = await _events(client, "/v1/chat/completions", body)
    assert len(plain) == 4
    assert not any("usage" in event for event in plain)
    assert plain[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert plain[-1]["choices"][0]["finish_reason"] == "length"
    body["stream_options"] = {"include_usage": True}
    counted = await _events(client, "/v1/chat/completions", body)
    assert counted[-1]["choices"] == []
    assert counted[-1]["usage"]["completion_tokens"] == 3
    assert counted[-1]["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    running = await _events(client, "/v1/chat/completions", body)
    assert [event["usage"]["completion_tokens"] for event in running] == [0, 1, 2, 3, 3]


async def test_streamed_and_whole_completions_say_the_same(sim: StartSim) -> None:
    client = await sim()
    body: dict[str, Any] = {"model": "sim", "prompt": "Once", "max_tokens": 40, "n": 2}
    body["stop"] = ["th", "on"]
    whole = await client.post("/v1/completions", body)
    events = await _events(client, "/v1/completions", body | {"stream": True})
    texts = ["", ""]
    for event in events:
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == [choice["text"] for choice in whole["choices"]]
    for choice in whole["choices"]:
        assert not choice["text"].endswith(("th", "on"))
        assert choice["stop_reason"] in {"th", "on", None}


async def test_prompt_logprobs_skip_the_cache_and_differ_a_bit_on_a_noisy_sibling(
    sim: StartSim,
) -> None:
    full, noisy = await sim(), await sim(precision_noise=0.05)
    body = {"prompt": "The quality of a model is measured on text.", "max_tokens": 1}
    scored = []
    for client in (full, noisy):
        await client.post("/v1/completions", body)
        answer = await client.post("/v1/completions", body | {"prompt_logprobs": 0})
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
        rows = answer["choices"][0]["prompt_logprobs"]
        assert len(rows) == len(body["prompt"].encode())  # type: ignore[attr-defined]
        assert rows[0] is None
        scored.append([next(iter(row.values()))["logprob"] for row in rows[1:]])
    deltas = [abs(a - b) for a, b in zip(*scored, strict=True)]
    assert 0 < sum(deltas) / len(deltas) < 0.1


async def test_chat_logprobs_have_the_tokens_of_the_answer(sim: StartSim) -> None:
    client = await sim()
    choice = (await client.chat(logprobs=True, top_logprobs=2))["choices"][0]
    content = choice["logprobs"]["content"]
    assert "".join(item["token"] for item in content) == choice["message"]["content"]
    assert all(len(item["top_logprobs"]) == 2 for item in content)


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("/v1/chat/completions", {"model": "x", "messages": [{}]}, 404, "NotFoundError"),
        ("/v1/completions", {"prompt": "a", "max_tokens": 9000}, 400, "BadRequestError"),
        ("/v1/completions", {"prompt": ""}, 400, "BadRequestError"),
        ("/v1/nothing", {}, 404, "Not Found"),
        ("/health", {}, 405, "Method Not Allowed"),
        ("/sleep", {}, 404, "Not Found"),  # without dev mode
        ("/sim/fault", {"fault": "gremlin"}, 400, "BadRequestError"),
    ],
)
async def test_errors_have_the_shape_of_vllm(
    sim: StartSim, path: str, body: dict[str, Any], status: int, kind: str
) -> None:
    client = await sim()
    error = (await client.post(path, body, status=status))["error"]
    assert (error["code"], error["type"]) == (status, kind)


async def test_the_openai_client_works_against_it(sim: StartSim) -> None:
    client = await sim()
    async with openai.AsyncOpenAI(base_url=f"{client.url}/v1", api_key="none") as api:
        models = [model.id async for model in api.models.list()]
        assert models == ["sim-full", "sim"]
        messages: Any = [{"role": "user", "content": "Hello"}]
        answer = await api.chat.completions.create(model="sim", messages=messages, max_tokens=6)
        text = ""
        stream = await api.chat.completions.create(
            model="sim",
            messages=messages,
            max_tokens=6,
            stream=True,
            stream_options={"include_usage": True},
        )
        async for chunk in stream:
            text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        assert text == answer.choices[0].message.content
        assert chunk.usage is not None
        assert chunk.usage.completion_tokens == 6
        completion = await api.completions.create(model="sim", prompt="Hello", logprobs=1)
        assert completion.choices[0].logprobs is not None
        with pytest.raises(openai.NotFoundError):
            await api.chat.completions.create(model="gone", messages=messages)
        with pytest.raises(openai.BadRequestError):
            await api.chat.completions.create(model="sim", messages=messages, max_tokens=10_000)
