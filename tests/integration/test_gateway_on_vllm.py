"""OpenAI's own client, through the gateway, on a real vLLM."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from ds4watch.model.usage import RequestOutcome
from ds4watch.model.worker import WorkerPhase, WorkerView
from tests.edge.gateway.support import Front, board_of, front_of, records
from tests.integration.workers import RealWorker

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

MESSAGES: Any = [{"role": "user", "content": "Hello there"}]


@asynccontextmanager
async def client_of(
    state: Path, workers: Mapping[str, RealWorker]
) -> AsyncIterator[tuple[openai.AsyncOpenAI, Front]]:
    url = workers["tiny-full"].url
    worker = WorkerView("w1", "tiny-full", ("tiny-full", "tiny"), url, WorkerPhase.READY, since=1.0)
    async with (
        front_of(state, board_of(worker), request_timeout_seconds=120.0) as front,
        openai.AsyncOpenAI(base_url=front.url + "/v1", api_key="none", max_retries=0) as client,
    ):
        yield client, front


async def test_completions_whole_and_streamed_are_the_same_and_booked_as_told(
    tmp_path: Path, real_workers: Mapping[str, RealWorker]
) -> None:
    async with client_of(tmp_path, real_workers) as (client, front):
        chat: dict[str, Any] = {"model": "tiny", "messages": MESSAGES, "max_tokens": 8}
        chat |= {"temperature": 0, "seed": 1, "extra_body": {"ignore_eos": True}}
        whole = await client.chat.completions.create(**chat)
        stream = await client.chat.completions.create(
            **chat, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert text == whole.choices[0].message.content
        assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage] == [8]
        bare = await client.chat.completions.create(**chat, stream=True)
        assert all([chunk.usage is None and chunk.choices async for chunk in bare])
        prompt = await client.completions.create(model="tiny", prompt="Hello", max_tokens=3)
        assert prompt.usage is not None
        booked = await records(front, 4)
    assert whole.usage is not None
    told = (whole.usage.prompt_tokens, 8)
    assert [(r.usage.prompt, r.usage.completion) for r in booked[:3] if r.usage] == [told] * 3
    assert booked[3].usage is not None
    assert booked[3].usage.completion == prompt.usage.completion_tokens
    assert all(r.outcome is RequestOutcome.OK and not r.estimated for r in booked)


async def test_responses_whole_and_streamed(
    tmp_path: Path, real_workers: Mapping[str, RealWorker]
) -> None:
    async with client_of(tmp_path, real_workers) as (client, front):
        ask: dict[str, Any] = {"model": "tiny", "input": "Hello there", "max_output_tokens": 8}
        whole = await client.responses.create(**ask, temperature=0)
        assert whole.usage is not None
        stream = await client.responses.create(**ask, temperature=0, stream=True)
        kinds = [event.type async for event in stream]
        assert kinds[0] == "response.created"
        assert kinds[-1] in ("response.completed", "response.incomplete")
        booked = await records(front, 2)
    told = (whole.usage.input_tokens, whole.usage.output_tokens)
    assert [(r.usage.prompt, r.usage.completion) for r in booked if r.usage] == [told] * 2
    assert all(r.outcome is RequestOutcome.OK and not r.estimated for r in booked)


async def test_what_the_model_cannot_do_is_refused_in_the_workers_words(
    tmp_path: Path, real_workers: Mapping[str, RealWorker]
) -> None:
    async with client_of(tmp_path, real_workers) as (client, front):
        with pytest.raises(openai.APIStatusError) as refused:
            await client.embeddings.create(model="tiny", input="Hello")
        assert refused.value.status_code < 500
        assert refused.value.response.headers["x-request-id"]
        async with front.post({"model": "tiny", "prompt": "Hello"}, "/tokenize") as response:
            assert (await response.json())["count"] > 0
        assert {model.id async for model in client.models.list()} == {"tiny", "tiny-full"}
        assert (await client.models.retrieve("tiny")).id == "tiny"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("other")
