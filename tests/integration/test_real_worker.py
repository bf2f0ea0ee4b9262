"""The worker client, the tiny model and the divergence, on a real vLLM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest

from ds4watch.config.shipped import shipped
from ds4watch.engine.quality_run import LIKELIEST
from ds4watch.fleet.client import WorkerClient
from ds4watch.fleet.start_answers import TOKENS, start_answers
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.quality.distributions import Distance, Metric, Position, distance
from ds4watch.quality.divergence import Divergence, divergence
from ds4watch.quality.fingerprint import unlike
from tests.conftest import profile_of, start_maker
from tests.integration.workers import RealWorker, running

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

GOLDEN = shipped("serving/golden/divergence-8.jsonl")


def golden() -> list[str]:
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    return [str(json.loads(line)["prompt"]) for line in lines]


async def scores(session: aiohttp.ClientSession, worker: RealWorker) -> list[list[float]]:
    client = WorkerClient(session, worker.url, generation_timeout_seconds=120)
    return [await client.prompt_logprobs(worker.name, prompt) for prompt in golden()]


async def positions(session: aiohttp.ClientSession, worker: RealWorker) -> list[list[Position]]:
    client = WorkerClient(session, worker.url, generation_timeout_seconds=120)
    return [await client.prompt_positions(worker.name, prompt, LIKELIEST) for prompt in golden()]


def far(
    reference: list[list[Position]], other: list[list[Position]]
) -> tuple[dict[Metric, float], dict[Metric, float]]:
    """Return the lower ends of the intervals, and the values."""
    found = distance(reference, other, seed=0)
    assert isinstance(found, Distance), found
    lows = {it: estimate.low for it, estimate in found.estimates.items()}
    return lows, {it: estimate.value for it, estimate in found.estimates.items()}


def mean(reference: list[list[float]], other: list[list[float]]) -> float:
    result = divergence(reference, other)
    assert isinstance(result, Divergence), result
    return result.mean_abs_delta_logp


async def test_the_client_gets_true_answers(
    real_workers: Mapping[str, RealWorker], session: aiohttp.ClientSession
) -> None:
    for name, worker in real_workers.items():
        client = WorkerClient(session, worker.url)
        assert await client.health()
        assert await client.models() == (name, "tiny")
        assert (await client.version()).startswith("0.32")
        assert await client.tokenize(name, "héllo") == 6
        canary = await client.canary("tiny")
        assert (canary.completion_tokens, len(canary.text)) == (4, 4)
        assert canary.took_seconds > 0


async def test_a_model_that_the_worker_does_not_serve_is_an_error_with_its_words(
    real_workers: Mapping[str, RealWorker], session: aiohttp.ClientSession
) -> None:
    client = WorkerClient(session, real_workers["tiny-full"].url)
    with pytest.raises(WorkerError, match="does not exist") as caught:
        await client.canary("other")
    assert caught.value.reason is EdgeReason.STATUS
    assert not caught.value.retryable


async def test_a_worker_without_sleep_says_so_and_is_not_broken_by_the_question(
    real_workers: Mapping[str, RealWorker], session: aiohttp.ClientSession
) -> None:
    client = WorkerClient(session, real_workers["tiny-full"].url)
    with pytest.raises(WorkerError, match="404"):
        await client.is_sleeping()
    assert (await client.canary("tiny-full")).completion_tokens == 4


async def test_a_prompts_log_probabilities_are_one_for_each_token_after_the_first(
    real_workers: Mapping[str, RealWorker], session: aiohttp.ClientSession
) -> None:
    client = WorkerClient(session, real_workers["tiny-full"].url)
    for prompt in golden():
        logprobs = await client.prompt_logprobs("tiny", prompt)
        assert len(logprobs) == await client.tokenize("tiny", prompt) - 1
        assert all(value < 0 for value in logprobs)


@pytest.mark.slow
async def test_the_divergence_is_nothing_from_itself_and_grows_as_bits_are_taken_away(
    real_workers: Mapping[str, RealWorker],
    session: aiohttp.ClientSession,
    vllm_python: Path,
    tiny_models: Path,
) -> None:
    full = await scores(session, real_workers["tiny-full"])
    eight_bits = await scores(session, real_workers["tiny-quantized"])
    wide = await positions(session, real_workers["tiny-full"])
    eight_wide = await positions(session, real_workers["tiny-quantized"])
    four = profile_of("tiny-quantized").model_copy(
        update={
            "name": "tiny-four",
            "served_names": ("tiny-four",),
            "model": "models/tiny-four",
            "prepare_args": ("--bits", "4"),
        }
    )
    output, _ = start_maker(four, vllm_python, tiny_models).communicate(timeout=120)
    with running([four], python=vllm_python, state_dir=tiny_models) as workers:
        assert "4 bits" in output
        four_bits = await scores(session, workers["tiny-four"])
        four_wide = await positions(session, workers["tiny-four"])

    assert mean(full, await scores(session, real_workers["tiny-full"])) == 0
    assert 0 < mean(full, eight_bits) < 0.1 < mean(full, four_bits)

    lows, copy = far(wide, await positions(session, real_workers["tiny-full"]))
    assert (lows[Metric.MEAN_KL], copy[Metric.MEAN_KL]) == (0, 0)
    assert (copy[Metric.TOP1_AGREEMENT], copy[Metric.PERPLEXITY]) == (1, 1)
    (_, eight), (low, four_metrics) = far(wide, eight_wide), far(wide, four_wide)
    assert eight[Metric.MEAN_ABS_DELTA_LOGP] == pytest.approx(mean(full, eight_bits), rel=1e-6)
    assert 0 < eight[Metric.MEAN_KL] < low[Metric.MEAN_KL] <= four_metrics[Metric.MEAN_KL]
    assert 1 > eight[Metric.TOP1_AGREEMENT] > four_metrics[Metric.TOP1_AGREEMENT]


async def test_questions_are_answered_as_streams_and_the_start_check_is_steady(
    real_workers: Mapping[str, RealWorker], session: aiohttp.ClientSession
) -> None:
    client = WorkerClient(session, real_workers["tiny-full"].url, generation_timeout_seconds=120)
    for chat in (True, False):
        answer = await client.answer("tiny", "2 + 2 =", max_tokens=5, priority=None, chat=chat)
        assert answer.usage.completion == 5
        assert answer.usage.prompt >= 7
        assert len(answer.text) == 5
        assert answer.first_token_seconds is not None
        assert 0 < answer.first_token_seconds <= answer.took_seconds
    before = await start_answers(client, "tiny")
    assert [len(it) for it in before] == [TOKENS, TOKENS]
    assert unlike(before, await start_answers(client, "tiny")) is None
    other = WorkerClient(session, real_workers["tiny-quantized"].url)
    assert unlike(before, await start_answers(other, "tiny")) is None  # 8 bits: the same by sight
    spoilt = await start_answers(other, "tiny")
    swapped = (spoilt[1], spoilt[0])
    assert unlike(before, swapped) is not None


def test_the_maker_says_one_line_and_leaves_a_finished_model_alone(
    vllm_python: Path, tiny_models: Path
) -> None:
    folder = tiny_models / "models/tiny-full"
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    output, _ = start_maker(profile_of("tiny-full"), vllm_python, tiny_models).communicate()
    assert output == f"{folder} is there already (16 bits, seed 0)\n"
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_two_makers_of_one_folder_at_once_both_succeed_and_replace_what_is_outdated(
    vllm_python: Path, tiny_models: Path, tmp_path: Path
) -> None:
    outdated = tmp_path / "models/tiny-quantized"
    outdated.mkdir(parents=True)
    (outdated / "leftover").touch()
    profile = profile_of("tiny-quantized")
    makers = [start_maker(profile, vllm_python, tmp_path) for _ in range(2)]
    outputs = [maker.communicate(timeout=120)[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0], outputs
    assert [len(output.splitlines()) for output in outputs] == [1, 1]
    reference = tiny_models / "models/tiny-quantized"
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["tiny-quantized"]
    assert {path.name: path.read_bytes() for path in outdated.iterdir()} == {
        path.name: path.read_bytes() for path in reference.iterdir()
    }
