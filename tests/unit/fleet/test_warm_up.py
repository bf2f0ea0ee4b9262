"""What a new worker answers before it is ready."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.command import can_sleep, worker_command
from ds4watch.fleet.life import Deed, Life, LifeLimits, Seen, started
from ds4watch.fleet.lifecycle import advance, deed
from ds4watch.fleet.warm_up import Kind, Request, has_warm_up, requests, warm_up
from ds4watch.model.errors import EdgeReason, WorkerError
from ds4watch.model.worker import WorkerPhase

LIMITS = LifeLimits(
    start_timeout_seconds=60.0,
    canary_interval_seconds=10.0,
    backoff_seconds=2.0,
    backoff_max_seconds=20.0,
    warms_up=True,
)


def profile(**fields: object) -> Profile:
    return Profile.model_validate(
        {"name": "p", "served_names": ("p",), "model": "org/model"} | fields
    )


def lengths(asked: tuple[Request, ...]) -> list[int]:
    return [len(it.prompt) for it in asked if isinstance(it.prompt, tuple)]


def test_each_length_that_fits_and_each_kind_of_request_is_asked() -> None:
    asked = requests(profile(max_model_len=1024), seed=1)
    assert lengths(asked) == [16, 512]
    assert {it.kind for it in asked} == set(Kind)


def test_system_prompts_are_asked_as_they_are_used() -> None:
    asked = requests(profile(warmup_lengths=(), warmup_prompts=("You are kind.",)), seed=1)
    assert [it.kind for it in asked if it.prompt == "You are kind."] == [Kind.PLAIN, Kind.CHAT]


@given(st.integers(0, 2**40))
def test_no_prompt_is_in_the_prefix_cache_from_another(seed: int) -> None:
    now = [it.prompt[:16] for it in requests(profile(), seed=seed) if isinstance(it.prompt, tuple)]
    later = [
        it.prompt[:16] for it in requests(profile(), seed=seed + 9) if isinstance(it.prompt, tuple)
    ]
    assert len({*now, *later}) == len(now) + len(later)
    assert all(0 <= token < 128 for prompt in now for token in prompt)


@pytest.mark.parametrize(
    ("engine_args", "priority"),
    [
        ((), None),
        (("--scheduling-policy", "fcfs"), None),
        (("--scheduling-policy", "priority"), 1_000_000),
        (("--scheduling-policy=priority",), 1_000_000),
    ],
)
def test_priority_is_low_where_the_engine_takes_one(
    engine_args: tuple[str, ...], priority: int | None
) -> None:
    assert {it.priority for it in requests(profile(engine_args=engine_args), seed=1)} == {priority}


class Answers:
    def __init__(self, *errors: WorkerError | None) -> None:
        self.errors = list(errors)
        self.asked: list[Request] = []

    async def warm_up(self, model: str, request: Request) -> None:
        assert model == "p"
        self.asked.append(request)
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


async def test_what_a_worker_refuses_is_told_and_the_rest_is_asked() -> None:
    refusal = WorkerError("no chat template", reason=EdgeReason.STATUS)
    answers = Answers(refusal)
    assert await warm_up(answers, "p", requests(profile(), seed=1)) == ("no chat template",)
    assert len(answers.asked) == len(requests(profile(), seed=1))


async def test_a_worker_that_does_not_answer_is_not_asked_on() -> None:
    answers = Answers(WorkerError("gone", reason=EdgeReason.GONE))
    with pytest.raises(WorkerError):
        await warm_up(answers, "p", requests(profile(), seed=1))
    assert len(answers.asked) == 1


def warming(*, is_warm: bool = False) -> Life:
    return Life(WorkerPhase.WARMING, since=10.0, started_at=5.0, tried_at=5.0, is_warm=is_warm)


def test_a_new_worker_is_ready_after_its_canary_and_its_warm_up() -> None:
    life = warming()
    assert deed(life, LIMITS, 11.0) is Deed.CANARY
    life = advance(life, Seen(alive=True, canary_ok=True), LIMITS, 11.0)
    assert life.phase is WorkerPhase.WARMING
    assert deed(life, LIMITS, 11.0) is Deed.WARM_UP
    life = advance(life, Seen(alive=True, warmed=True), LIMITS, 30.0)
    assert (life.phase, life.reason) == (WorkerPhase.READY, "answered a canary, warmed up")


def test_who_cannot_be_warmed_up_has_to_answer_a_canary_again_and_is_ready_then() -> None:
    life = advance(warming(), Seen(alive=True, canary_ok=True), LIMITS, 11.0)
    life = advance(life, Seen(alive=True, warmed=False, detail="no answer"), LIMITS, 30.0)
    assert (life.phase, deed(life, LIMITS, 30.0)) == (WorkerPhase.WARMING, Deed.CANARY)
    life = advance(life, Seen(alive=True, canary_ok=True), LIMITS, 31.0)
    assert life.phase is WorkerPhase.READY


def test_a_warm_worker_that_is_wanted_again_needs_no_warm_up_and_a_new_process_does() -> None:
    life = advance(warming(is_warm=True), Seen(alive=True, canary_ok=True), LIMITS, 11.0)
    assert life.phase is WorkerPhase.READY
    assert not started(life, 12.0).is_warm


def test_a_profile_without_lengths_and_prompts_has_no_warm_up() -> None:
    assert has_warm_up(profile())
    assert not has_warm_up(profile(warmup_lengths=()))


def command(*, has_gpu: bool, **fields: object) -> tuple[tuple[str, ...], dict[str, str]]:
    made = worker_command(
        profile(**fields), port=1, python=Path("py"), state_dir=Path("/s"), has_gpu=has_gpu
    )
    return made.argv, dict(made.env)


def test_sleep_adds_the_flag_on_a_gpu_and_the_endpoints_everywhere() -> None:
    for has_gpu in (True, False):
        argv, env = command(has_gpu=has_gpu, sleep=True)
        assert ("--enable-sleep-mode" in argv) is has_gpu, "vLLM refuses it on a CPU"
        assert env["VLLM_SERVER_DEV_MODE"] == "1"
        argv, env = command(has_gpu=has_gpu)
        assert "--enable-sleep-mode" not in argv
        assert "VLLM_SERVER_DEV_MODE" not in env
    argv, _ = command(has_gpu=False, sleep=True, engine=Engine.SIM)
    assert "--dev-mode" in argv
    assert can_sleep(profile(sleep=True))
    assert not can_sleep(profile())


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "gpu-7", "::"])
def test_sleep_off_loopback_is_refused_for_no_key_guards_its_endpoints(host: str) -> None:
    for args in (("--host", host), (f"--host={host}",)):
        with pytest.raises(ValidationError, match=f"no key guards, and `engine_args` bind {host}"):
            profile(sleep=True, engine_args=args)
        developing = {"VLLM_SERVER_DEV_MODE": "1"}
        with pytest.raises(ValidationError, match="no key guards"):
            profile(environment=developing, engine_args=args)
        assert profile(engine_args=args)
    assert profile(sleep=True, engine_args=("--host", "127.0.0.1"))
