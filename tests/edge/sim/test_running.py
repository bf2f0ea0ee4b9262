from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from ds4watch.sim.page import CONTENT_TYPE
from tests.edge.sim.conftest import Client, StartSim, values_of

HELLO: dict[str, Any] = {"model": "sim", "messages": [{"role": "user", "content": "Hello"}]}


async def test_a_full_batch_makes_a_visible_queue(sim: StartSim) -> None:
    client = await sim(decode_tokens_per_second=50.0, max_num_seqs=2)
    chats = [asyncio.create_task(client.chat(f"{n}", max_tokens=30)) for n in range(6)]
    values = await client.until(lambda page: page["vllm:num_requests_waiting"] == 4)
    assert values["vllm:num_requests_running"] == 2
    assert values["vllm:num_requests_waiting_by_reason capacity"] == 4
    assert values["vllm:kv_cache_usage_perc"] > 0
    assert await client.get("/load") == {"server_load": 6}
    for chat in chats:
        chat.cancel()
    await client.until(lambda page: page["vllm:num_requests_running"] == 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_aborts_its_request(sim: StartSim, stream: bool) -> None:
    client = await sim(decode_tokens_per_second=50.0)
    body = HELLO | {"stream": stream, "max_tokens": 1000, "ignore_eos": True}
    request = asyncio.create_task(client.post("/v1/chat/completions", body))
    await client.until(lambda page: page["vllm:generation_tokens_total"] > 0)
    request.cancel()
    values = await client.until(lambda page: page["vllm:num_requests_running"] == 0)
    assert values["vllm:prompt_tokens_total"] > 0
    assert values["vllm:request_success_total abort"] == 0
    assert values["vllm:e2e_request_latency_seconds_count"] == 0
    assert values["vllm:kv_cache_usage_perc"] == 0


async def test_the_page_is_the_same_while_nothing_happens_and_cheap(sim: StartSim) -> None:
    client = await sim()
    await client.chat()
    first = await client.page()
    assert await client.page() == first
    async with client.session.get(client.url + "/metrics") as response:
        assert response.headers["Content-Type"] == CONTENT_TYPE
    worker = client.running.worker
    started_at = time.perf_counter()
    for _ in range(100):
        worker.page()
    assert (time.perf_counter() - started_at) / 100 < 0.001


async def test_a_hang_stops_tokens_but_not_health_and_ends_when_switched_off(
    sim: StartSim,
) -> None:
    client = await sim()
    await client.fault("hang")
    chat = asyncio.create_task(client.chat())
    before = await client.until(lambda page: page["vllm:num_requests_running"] == 1)
    async with client.session.get(client.url + "/health") as response:
        assert response.status == 200
    after = await client.values()
    for name in ("vllm:generation_tokens_total", "vllm:iteration_tokens_total_count"):
        assert before[name] == after[name] == 0
    assert not chat.done()
    await client.fault("hang", on=False)
    assert (await chat)["usage"]["completion_tokens"] == 4


async def test_a_hung_worker_goes_on_showing_requests_whose_clients_left(sim: StartSim) -> None:
    client = await sim()
    await client.fault("hang")
    chat = asyncio.create_task(client.chat())
    await client.until(lambda page: page["vllm:num_requests_running"] == 1)
    chat.cancel()
    while (await client.get("/load"))["server_load"]:
        await asyncio.sleep(0.005)
    assert (await client.values())["vllm:num_requests_running"] == 1
    await client.fault("hang", on=False)
    await client.until(lambda page: page["vllm:num_requests_running"] == 0)


async def test_http_500_fails_the_share_asked_for(sim: StartSim) -> None:
    client = await sim()
    await client.fault("http_500", value=0.5)
    statuses = []
    for _ in range(4):
        async with client.session.post(
            client.url + "/v1/chat/completions", json=HELLO | {"max_tokens": 1}
        ) as response:
            statuses.append(response.status)
    assert sorted(statuses) == [200, 200, 500, 500]
    values = await client.values()
    assert values["http_requests_total /v1/chat/completions POST 5xx"] == 2


async def test_slow_stretches_each_step(sim: StartSim) -> None:
    client = await sim()
    await client.fault("slow", value=50)
    started_at = time.monotonic()
    await client.chat(max_tokens=3)
    assert time.monotonic() - started_at >= 2 * 0.05


async def test_counters_start_anew_and_the_process_start_moves(sim: StartSim) -> None:
    client = await sim()
    await client.chat()
    before = await client.values()
    await client.fault("counters_reset")
    after = await client.values()
    assert after["vllm:generation_tokens_total"] == 0 < before["vllm:generation_tokens_total"]
    assert after["process_start_time_seconds"] > before["process_start_time_seconds"]
    assert after["vllm:engine_sleep_state awake"] == 1


async def test_the_page_can_be_broken_in_four_ways(sim: StartSim) -> None:
    client = await sim()
    whole = await client.page()
    await client.fault("metrics_empty")
    assert await client.page() == b""
    await client.fault("metrics_empty", on=False)
    await client.fault("half_metrics")
    assert await client.page() == whole[: len(whole) // 2]
    await client.fault("half_metrics", on=False)
    await client.fault("malformed_metrics")
    with pytest.raises(ValueError, match=r"not a number|utf-8|metric|label"):
        values_of((await client.page()).decode())
    await client.fault("malformed_metrics", on=False)
    await client.fault("metrics_500")
    async with client.session.get(client.url + "/metrics") as response:
        assert response.status == 500
    assert (await client.chat())["choices"]
    listed = await client.get("/sim/fault")
    assert [item["fault"] for item in listed["faults"] if item["on"]] == ["metrics_500"]


async def test_a_stuck_request_stands_still_while_later_ones_are_served(sim: StartSim) -> None:
    client = await sim()
    first = asyncio.create_task(client.chat(max_tokens=1000, ignore_eos=True))
    await client.until(lambda page: page["vllm:generation_tokens_total"] > 0)
    await client.fault("stuck")
    assert (await client.chat())["choices"]
    assert not first.done()
    assert (await client.values())["vllm:num_requests_running"] == 1
    await client.fault("stuck", on=False)
    assert (await first)["usage"]["completion_tokens"] == 1000


async def test_a_page_may_lack_the_engine_and_take_its_time(sim: StartSim) -> None:
    client = await sim()
    await client.fault("metrics_no_engine")
    values = await client.values()
    assert "process_start_time_seconds" in values
    assert not [name for name in values if name.startswith("vllm")]
    await client.fault("slow_metrics", value=0.05)
    began = time.monotonic()
    await client.page()
    assert time.monotonic() - began >= 0.05


async def _sleep_states(client: Client) -> tuple[float, float, float]:
    values = await client.values()
    names = ("awake", "weights_offloaded", "discard_all")
    awake, offloaded, discarded = (values[f"vllm:engine_sleep_state {name}"] for name in names)
    return awake, offloaded, discarded


async def test_sleep_clears_the_cache_and_holds_requests_until_it_wakes(sim: StartSim) -> None:
    client = await sim(dev_mode=True)
    await client.chat("The same long question, asked twice.")
    assert await client.post("/sleep?level=1") == {"status": "sleeping", "level": 1}
    assert await client.get("/is_sleeping") == {"is_sleeping": True}
    assert await _sleep_states(client) == (0, 1, 0)
    chat = asyncio.create_task(client.chat("The same long question, asked twice."))
    while (await client.get("/load"))["server_load"] == 0:
        await asyncio.sleep(0.005)
    assert (await client.post("/wake_up"))["status"] == "awake"
    assert (await chat)["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert await _sleep_states(client) == (1, 0, 0)


async def test_sleep_aborts_what_runs_unless_told_to_wait(sim: StartSim) -> None:
    client = await sim(dev_mode=True, decode_tokens_per_second=100.0)
    chat = asyncio.create_task(client.chat(max_tokens=1000, ignore_eos=True))
    await client.until(lambda page: page["vllm:generation_tokens_total"] > 2)
    await client.post("/sleep?level=0")
    assert (await chat)["choices"][0]["finish_reason"] == "abort"
    assert (await client.values())["vllm:request_success_total abort"] == 1
    await client.post("/wake_up")
    chat = asyncio.create_task(client.chat(max_tokens=20))
    await client.until(lambda page: page["vllm:num_requests_running"] == 1)
    await client.post("/sleep?level=1&mode=wait")
    assert (await chat)["choices"][0]["finish_reason"] == "length"


async def test_after_level_2_answers_are_garbage_until_the_weights_are_reloaded(
    sim: StartSim,
) -> None:
    client = await sim(dev_mode=True)
    good = (await client.chat())["choices"]
    await client.post("/sleep?level=2")
    assert (await client.post("/wake_up?tags=weights"))["status"] == "sleeping"
    assert (await client.post("/wake_up?tags=kv_cache"))["status"] == "awake"
    assert (await client.chat())["choices"] != good
    await client.post("/collective_rpc", {"method": "reload_weights"})
    assert (await client.chat())["choices"] == good


async def test_the_prefix_cache_can_be_reset(sim: StartSim) -> None:
    client = await sim(dev_mode=True)
    await client.chat("A question of some length.")
    assert await client.post("/reset_prefix_cache") == {"success": True}
    usage = (await client.chat("A question of some length."))["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
