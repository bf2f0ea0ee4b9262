"""The engine: first come first served, continuous batching, preemption when blocks run out.

Pure: time comes in as an argument. The caller starts a step, lets its seconds pass, and finishes
it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ds4watch.sim.counting import count_finished, count_lookup, count_prompt
from ds4watch.sim.generation import Finish, Generation
from ds4watch.sim.kv_cache import KvCache
from ds4watch.sim.meters import Meters
from ds4watch.sim.settings import SimSettings


@dataclass(frozen=True, slots=True)
class Step:
    """One forward pass: which sequence computes how many tokens, and how long it takes."""

    work: tuple[tuple[Generation, int], ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Output:
    """One token of one sequence; `finish` if it was the last."""

    generation: Generation
    finish: Finish | None


class Engine:
    """Queue, batch and cache of one worker."""

    def __init__(self, settings: SimSettings, meters: Meters) -> None:
        self.cache = KvCache(blocks=settings.kv_blocks, block_size=settings.block_size)
        self.waiting: deque[Generation] = deque()
        self.running: list[Generation] = []
        self.paused = False
        self.stuck: frozenset[Generation] = frozenset()
        self._settings = settings
        self._meters = meters
        self._has_stepped = False

    @property
    def inflight(self) -> int:
        """Sequences accepted and not finished."""
        return len(self.waiting) + len(self.running)

    def add(self, generation: Generation) -> None:
        """Queue a sequence."""
        self.waiting.append(generation)

    def abort(self, generation: Generation) -> None:
        """Drop a sequence, if it is still there; no counter of finished requests moves."""
        if generation in self.waiting:
            self.waiting.remove(generation)
        elif generation in self.running:
            self._leave(generation)

    def finish_all_as_aborted(self, now: float) -> list[Output]:
        """End everything with finish reason `abort`, as a sleep with mode=abort does."""
        gone = [*self.running, *self.waiting]
        for generation in gone:
            self.abort(generation)
            count_finished(self._meters, generation, Finish.ABORT, now=now)
        return [Output(generation, Finish.ABORT) for generation in gone]

    def start_step(self, now: float) -> Step | None:
        """Schedule the next forward pass; None if there is nothing to do, or while paused."""
        if self.paused:
            return None
        budget = self._settings.max_num_batched_tokens
        work: list[tuple[Generation, int]] = []
        preempted = self._schedule_running(work, budget)
        if not preempted:
            self._schedule_waiting(work, budget - sum(tokens for _, tokens in work), now)
        if not work:
            return None
        return Step(tuple(work), self._seconds(work))

    def _schedule_running(self, work: list[tuple[Generation, int]], budget: int) -> bool:
        preempted = False
        for generation in [it for it in self.running if it not in self.stuck]:
            tokens = min(generation.known - generation.computed, budget)
            while generation in self.running and not self._grow(generation, tokens):
                self._preempt(self.running[-1])
                preempted = True
            if generation in self.running and tokens > 0:
                work.append((generation, tokens))
                budget -= tokens
        return preempted

    def _schedule_waiting(
        self, work: list[tuple[Generation, int]], budget: int, now: float
    ) -> None:
        while self.waiting and budget > 0 and len(self.running) < self._settings.max_num_seqs:
            generation = self.waiting[0]
            tokens = self._admit(generation, budget)
            if not tokens:
                return
            self.running.append(self.waiting.popleft())
            work.append((generation, tokens))
            budget -= tokens
            if generation.scheduled_at is None:
                generation.scheduled_at = now
                count_lookup(self._meters, generation)

    def _admit(self, generation: Generation, budget: int) -> int:
        """Hold the blocks of a first chunk; return its tokens, 0 if there is no room."""
        size = self.cache.block_size
        # The last token is always computed: its logits are what the next one is drawn from.
        reusable = (generation.known - 1) // size if generation.reads_cache else 0
        reused = self.cache.lookup(generation.block_hashes(size, reusable))
        cached = len(reused) * size
        tokens = min(generation.known - cached, budget)
        needed = -(-(cached + tokens) // size) - len(reused)
        if self.cache.free_after_reuse(reused) < needed:
            return 0
        self.cache.hold(reused)
        generation.blocks = [*reused, *(self.cache.allocate(needed) or [])]
        generation.computed = cached
        if generation.scheduled_at is None:
            generation.cached = cached
        return tokens

    def _grow(self, generation: Generation, tokens: int) -> bool:
        needed = -(-(generation.computed + tokens) // self.cache.block_size)
        more = self.cache.allocate(max(0, needed - len(generation.blocks)))
        if more is None:
            return False
        generation.blocks += more
        return True

    def _preempt(self, generation: Generation) -> None:
        self._leave(generation)
        generation.computed = 0
        generation.preemptions += 1
        self.waiting.appendleft(generation)
        self._meters.add("vllm:num_preemptions_total")

    def _leave(self, generation: Generation) -> None:
        self.running.remove(generation)
        self.cache.release(generation.blocks)
        generation.blocks = []

    def _seconds(self, work: Sequence[tuple[Generation, int]]) -> float:
        decoding = sum(1 for generation, _ in work if _is_decoding(generation))
        prefill = sum(tokens for generation, tokens in work if not _is_decoding(generation))
        seconds = prefill / self._settings.prefill_tokens_per_second
        if decoding:
            seconds += 1.0 / self._settings.decode_tokens_per_second
        if not self._has_stepped:
            self._has_stepped = True
            seconds += self._settings.first_request_seconds
        return seconds

    def finish_step(self, step: Step, now: float) -> list[Output]:
        """Book a forward pass and return the tokens it made."""
        outputs: list[Output] = []
        step_tokens = 0
        for generation, tokens in step.work:
            if generation not in self.running:
                continue  # aborted meanwhile
            self._store(generation, tokens)
            if generation.computed == generation.known:
                step_tokens += self._emit(generation, now)
                outputs.append(self._output(generation, now))
        if outputs:
            self._meters.observe("vllm:iteration_tokens_total", step_tokens)
        return outputs

    def _store(self, generation: Generation, tokens: int) -> None:
        size = self.cache.block_size
        before = generation.computed // size
        generation.computed += tokens
        full = generation.computed // size
        for index, digest in enumerate(generation.block_hashes(size, full)[before:], start=before):
            self.cache.register(generation.blocks[index], digest)

    def _emit(self, generation: Generation, now: float) -> int:
        """Count one token; return the tokens that this step computed for the sequence."""
        tokens = 1
        if generation.first_token_at is None:
            generation.first_token_at = now
            tokens += count_prompt(self._meters, generation, now)
        else:
            self._meters.observe("vllm:inter_token_latency_seconds", now - generation.last_token_at)
        generation.last_token_at = now
        generation.generated += 1
        self._meters.add("vllm:generation_tokens_total")
        return tokens

    def _output(self, generation: Generation, now: float) -> Output:
        if generation.generated < len(generation.answer):
            return Output(generation, None)
        self._leave(generation)
        count_finished(self._meters, generation, generation.finish, now=now)
        return Output(generation, generation.finish)

    def publish(self) -> None:
        """Set the gauges, as a step's statistics do; a hung engine no longer sets them."""
        meters, waiting = self._meters, float(len(self.waiting))
        meters.put("vllm:num_requests_running", float(len(self.running)))
        meters.put("vllm:num_requests_waiting", waiting)
        meters.put('vllm:num_requests_waiting_by_reason{reason="capacity"}', waiting)
        meters.put("vllm:kv_cache_usage_perc", self.cache.usage_ratio)


def _is_decoding(generation: Generation) -> bool:
    return generation.known - generation.computed == 1 and generation.generated > 0
