from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ds4watch.sim.engine import Engine
from ds4watch.sim.generation import Finish, Generation
from ds4watch.sim.meters import Meters
from ds4watch.sim.page import histogram_edges, template
from ds4watch.sim.settings import SimSettings

COMPUTED = 'vllm:prompt_tokens_by_source_total{source="local_compute"}'
HIT = 'vllm:prompt_tokens_by_source_total{source="local_cache_hit"}'
EDGES = histogram_edges(template(), max_model_len=8192)


class Bench:
    """An engine whose steps take exactly their own time."""

    def __init__(self, config: SimSettings) -> None:
        self.meters = Meters(EDGES)
        self.engine = Engine(config, self.meters)
        self.now = 0.0

    def submit(self, prompt: bytes, tokens: int, *, reads_cache: bool = True) -> Generation:
        generation = Generation(
            prompt=prompt,
            answer=bytes(65 + index % 26 for index in range(tokens)),
            finish=Finish.LENGTH,
            arrived_at=self.now,
            max_tokens=tokens,
            reads_cache=reads_cache,
        )
        self.engine.add(generation)
        return generation

    def step(self) -> bool:
        step = self.engine.start_step(self.now)
        if step is None:
            return False
        self.now += step.seconds
        self.engine.finish_step(step, self.now)
        self.engine.publish()
        return True

    def drain(self) -> int:
        steps = 0
        while self.step():
            steps += 1
        return steps

    def value(self, name: str) -> float:
        return self.meters.values[name]


def test_a_request_takes_its_prefill_time_and_then_a_step_for_each_further_token() -> None:
    bench = Bench(SimSettings(prefill_tokens_per_second=100, decode_tokens_per_second=10))
    bench.submit(b"x" * 50, 4)
    assert bench.drain() == 4
    assert bench.now == pytest.approx(0.5 + 3 * 0.1)
    ttft = bench.meters.histograms["vllm:time_to_first_token_seconds"]
    assert ttft.count == 1
    assert ttft.total == pytest.approx(0.5)
    decode = bench.meters.histograms["vllm:request_decode_time_seconds"]
    assert decode.total == pytest.approx(0.3)


def test_the_first_step_of_all_takes_the_first_request_penalty() -> None:
    bench = Bench(SimSettings(prefill_tokens_per_second=100, first_request_seconds=5))
    bench.submit(b"x" * 100, 1)
    bench.drain()
    bench.submit(b"y" * 100, 1)
    bench.drain()
    assert bench.now == pytest.approx(1 + 5 + 1)


def test_what_exceeds_the_batch_waits_in_order() -> None:
    bench = Bench(SimSettings(max_num_seqs=2))
    first, second, third = (bench.submit(name * 20, 3) for name in (b"a", b"b", b"c"))
    bench.step()
    assert bench.value("vllm:num_requests_running") == 2
    assert bench.value("vllm:num_requests_waiting") == 1
    bench.drain()
    assert first.last_token_at == second.last_token_at < third.last_token_at
    assert bench.value("vllm:num_requests_running") == 0
    assert bench.value("vllm:kv_cache_usage_perc") == 0


def test_a_long_prompt_is_computed_in_several_steps_without_stopping_the_others() -> None:
    bench = Bench(SimSettings(max_num_batched_tokens=100))
    short = bench.submit(b"s" * 10, 10)
    bench.step()
    long = bench.submit(b"l" * 350, 1)
    bench.step()
    assert (short.generated, long.generated) == (2, 0)
    bench.drain()
    assert (short.generated, long.generated) == (10, 1)


@pytest.mark.parametrize(
    ("length", "cached"),
    [(15, 0), (16, 0), (17, 16), (32, 16), (33, 32), (100, 96)],
)
def test_a_repeated_prompt_is_cached_in_full_blocks_and_never_to_its_last_token(
    length: int, cached: int
) -> None:
    bench = Bench(SimSettings(block_size=16))
    bench.submit(b"x" * length, 1)
    bench.drain()
    again = bench.submit(b"x" * length, 1)
    bench.drain()
    assert again.cached == cached
    assert bench.value("vllm:prefix_cache_hits_total") == cached
    assert bench.value("vllm:prefix_cache_queries_total") == 2 * length


def test_the_next_turn_of_a_chat_reuses_the_answer_of_the_turn_before() -> None:
    bench = Bench(SimSettings(block_size=16))
    turn = bench.submit(b"q" * 32, 33)
    bench.drain()
    following = bench.submit(turn.prompt + turn.answer + b" and then?", 1)
    bench.drain()
    assert following.cached == 64


def test_prompt_logprobs_read_no_cache_and_count_no_query() -> None:
    bench = Bench(SimSettings())
    bench.submit(b"x" * 64, 1)
    bench.drain()
    before = bench.value("vllm:prefix_cache_queries_total")
    scored = bench.submit(b"x" * 64, 1, reads_cache=False)
    bench.drain()
    assert scored.cached == 0
    assert bench.value("vllm:prefix_cache_queries_total") == before
    assert bench.value(COMPUTED) == 128


def test_a_full_cache_preempts_the_youngest_which_still_ends_whole() -> None:
    config = SimSettings(kv_blocks=6, block_size=4, max_model_len=24)
    bench = Bench(config)
    old, young = bench.submit(b"a" * 10, 10), bench.submit(b"b" * 10, 10)
    bench.drain()
    assert (old.generated, young.generated) == (10, 10)
    assert (old.preemptions, young.preemptions) == (0, 1)
    assert bench.value("vllm:num_preemptions_total") == 1
    assert bench.value("vllm:generation_tokens_total") == 20
    assert bench.value("vllm:prompt_tokens_total") == 20
    assert bench.engine.cache.free == 6


def test_an_aborted_request_is_in_no_count_of_finished_ones() -> None:
    bench = Bench(SimSettings())
    gone = bench.submit(b"x" * 40, 50)
    bench.step()
    bench.step()
    bench.engine.abort(gone)
    assert not bench.step()
    assert bench.value("vllm:prompt_tokens_total") == 40
    assert bench.value("vllm:generation_tokens_total") == 2
    assert bench.meters.histograms["vllm:e2e_request_latency_seconds"].count == 0
    assert not any(bench.value(name) for name in bench.meters.values if "success" in name)
    assert bench.engine.cache.free == bench.engine.cache.blocks


def test_an_abort_in_the_middle_of_a_step_makes_no_token() -> None:
    bench = Bench(SimSettings())
    gone = bench.submit(b"x" * 40, 50)
    step = bench.engine.start_step(0.0)
    assert step is not None
    bench.engine.abort(gone)
    assert bench.engine.finish_step(step, 1.0) == []


def test_while_paused_nothing_is_scheduled_and_nothing_is_lost() -> None:
    bench = Bench(SimSettings())
    kept = bench.submit(b"x" * 40, 5)
    bench.step()
    bench.engine.paused = True
    assert not bench.step()
    bench.engine.paused = False
    bench.drain()
    assert kept.generated == 5


REQUESTS = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=3),  # a repeated pattern, so that prefixes meet
        st.integers(1, 60),  # times
        st.integers(1, 20),  # tokens
        st.integers(0, 4),  # steps before the next request
        st.booleans(),  # leaves early
    ),
    min_size=1,
    max_size=15,
)


def _play(bench: Bench, requests: Sequence[tuple[bytes, int, int, int, bool]]) -> list[Generation]:
    made = []
    for pattern, times, tokens, steps, leaves in requests:
        generation = bench.submit((pattern * times)[:100], tokens)
        made.append(generation)
        for _ in range(steps):
            bench.step()
        if leaves:
            bench.engine.abort(generation)
    bench.drain()
    return made


@settings(max_examples=60, deadline=None)
@given(REQUESTS, st.integers(16, 64))
def test_the_books_balance_whatever_comes(
    requests: list[tuple[bytes, int, int, int, bool]], blocks: int
) -> None:
    config = SimSettings(kv_blocks=blocks, block_size=8, max_model_len=128, max_num_seqs=3)
    bench = Bench(config)
    made = _play(bench, requests)
    started = [item for item in made if item.first_token_at is not None]
    looked_up = [item for item in made if item.scheduled_at is not None]
    assert bench.value("vllm:prompt_tokens_total") == bench.value(COMPUTED) + bench.value(HIT)
    assert bench.value("vllm:prompt_tokens_cached_total") == bench.value(HIT)
    assert bench.value("vllm:prompt_tokens_total") == sum(len(item.prompt) for item in started)
    queries, hits = (bench.value(f"vllm:prefix_cache_{kind}_total") for kind in ("queries", "hits"))
    assert queries == sum(len(item.prompt) for item in looked_up)
    assert queries == hits + sum(len(item.prompt) - item.cached for item in looked_up)
    assert bench.value("vllm:generation_tokens_total") == sum(item.generated for item in made)
    steps = bench.meters.histograms["vllm:iteration_tokens_total"]
    assert steps.total == bench.value(COMPUTED) + bench.value("vllm:generation_tokens_total")
    finished = [item for item in made if item.generated == len(item.answer)]
    name = 'vllm:request_success_total{finished_reason="length"}'
    assert bench.value(name) == len(finished)
    assert bench.engine.cache.free == blocks
    assert bench.engine.inflight == 0
