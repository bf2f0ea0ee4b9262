"""Before simulated vLLM workers, as processes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import openai

from benchmarks.support.sim_workers import sim_workers
from ds4watch.model.usage import RequestOutcome, RetryReason, Usage
from tests.edge.gateway.support import board_of, front_of, records

LONG: dict[str, Any] = {
    "model": "sim",
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 4000,
    "ignore_eos": True,
}


async def running_at(url: str, http: aiohttp.ClientSession) -> float:
    async with http.get(url + "/metrics") as response:
        page = await response.text()
    lines = [it for it in page.splitlines() if it.startswith("vllm:num_requests_running{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


async def test_streamed_and_plain_answers_are_booked_alike(tmp_path: Path) -> None:
    async with (
        sim_workers(1) as workers,
        front_of(tmp_path, board_of(*workers)) as front,
        openai.AsyncOpenAI(base_url=front.url + "/v1", api_key="none", max_retries=0) as client,
    ):
        messages: Any = LONG["messages"]
        extra = {"max_tokens": 5, "ignore_eos": True}
        create = client.chat.completions.create
        whole = await create(model="sim", messages=messages, extra_body=extra)
        stream = await create(model="sim", messages=messages, extra_body=extra, stream=True)
        chunks = [chunk async for chunk in stream]
        assert all(chunk.usage is None for chunk in chunks)
        assert all(chunk.choices for chunk in chunks)
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert text == whole.choices[0].message.content
        one, two = await records(front, 2)
    assert whole.usage is not None
    assert isinstance(one.usage, Usage)
    assert isinstance(two.usage, Usage)
    assert one.usage.prompt == two.usage.prompt == whole.usage.prompt_tokens
    assert one.usage.completion == two.usage.completion == whole.usage.completion_tokens == 5


async def test_case_12_a_client_that_leaves_stops_the_generation_and_is_on_record(
    tmp_path: Path,
) -> None:
    async with sim_workers(1) as workers, front_of(tmp_path, board_of(*workers)) as front:
        url = workers[0].url
        response = await front.post(LONG | {"stream": True})
        for _ in range(5):
            await response.content.readuntil(b"\n\n")
        assert await running_at(url, front.http) == 1
        response.close()
        async with asyncio.timeout(1):
            while await running_at(url, front.http):
                await asyncio.sleep(0.05)
        (record,) = await records(front)
    assert record.outcome is RequestOutcome.CLIENT_GONE
    assert record.usage is not None
    assert record.usage.completion >= 1
    assert record.estimated


async def test_prompts_near_the_limit_are_counted_by_the_worker_and_the_estimate_learns(
    tmp_path: Path,
) -> None:
    def prompt(tokens: int) -> dict[str, Any]:  # a token of the simulated worker is a byte
        return {"model": "sim", "prompt": "x" * tokens, "max_tokens": 1}

    async with sim_workers(2) as (short, long):
        board = board_of(short, replace(long, is_for_long=True))
        async with front_of(tmp_path, board) as front:
            taken = []
            for tokens in (1000, 1600, 2100, 3000, 2000):
                async with front.post(prompt(tokens), path="/v1/completions") as response:
                    assert response.status == 200, await response.text()
                    taken.append(response.headers["x-ds4-worker"])
    # By 3.5 bytes a token, as it is taken to be at first, all of them would be short.
    assert taken == ["w0", "w0", "w1", "w1", "w0"]


async def test_a_worker_with_500s_costs_the_clients_nothing(tmp_path: Path) -> None:
    async with sim_workers(2) as workers, front_of(tmp_path, board_of(*workers)) as front:
        fault = {"fault": "http_500", "on": True, "value": 1.0}
        async with front.http.post(workers[0].url + "/sim/fault", json=fault) as response:
            assert response.status == 200
        for _ in range(8):
            async with front.post(LONG | {"max_tokens": 1}) as response:
                assert response.status == 200
                assert response.headers["x-ds4-worker"] == "w1"
        booked = await records(front, 8)
    retried = [record.retries for record in booked if record.retries]
    assert all(one == (("w0", RetryReason.STATUS_5XX),) for one in retried)
