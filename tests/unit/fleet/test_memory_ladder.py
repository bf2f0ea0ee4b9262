"""The ladder: it only goes down, it ends, and it never goes below what the profile declares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.config.profile import Engine, Profile
from ds4watch.fleet.memory_ladder import (
    Ladder,
    Lever,
    Step,
    all_stepped,
    context,
    eased,
    gone_down,
    is_step_back_due,
    next_step,
    sequences,
    stepped,
    utilization,
)
from ds4watch.fleet.oom import Oom, OomKind

HOUR = 3600.0


def profile(
    seqs: int | None = 8,
    length: int | None = 8192,
    shortest: int | None = None,
    args: tuple[str, ...] = (),
    engine: Engine = Engine.VLLM,
) -> Profile:
    return Profile(
        name="p",
        engine=engine,
        served_names=("m",),
        model="m",
        max_num_seqs=seqs,
        max_model_len=length,
        min_model_len=shortest,
        engine_args=args,
    )


def walk(own: Profile, *ooms: Oom) -> list[Step | None]:
    steps: list[Step] = []
    told: list[Step | None] = []
    for oom in ooms:
        step = next_step(own, oom, steps)
        told.append(step)
        steps += [step] if step else []
    return told


def words(own: Profile, kind: OomKind, count: int) -> list[str]:
    return [str(step) for step in walk(own, *[Oom(kind, "")] * count)]


def test_a_gpu_that_runs_full_takes_fewer_sequences_then_a_smaller_share_then_less_context() -> (
    None
):
    assert words(profile(shortest=4096), OomKind.GPU_RUN, 10) == [
        "max_num_seqs 4",
        "gpu_memory_utilization 0.82",
        "max_model_len 4096",
        "max_num_seqs 2",
        "gpu_memory_utilization 0.73",
        "max_num_seqs 1",
        "gpu_memory_utilization 0.65",
        "gpu_memory_utilization 0.64",
        "None",
        "None",
    ]


def test_without_a_declared_minimum_the_context_is_left_alone() -> None:
    assert words(profile(), OomKind.KV_START, 4) == [
        "max_num_seqs 4",
        "max_num_seqs 2",
        "max_num_seqs 1",
        "None",
    ]


def test_a_cache_that_does_not_fit_is_not_made_smaller_yet() -> None:
    told = words(profile(shortest=1024), OomKind.KV_START, 10)
    assert told[0] == "max_model_len 4096"
    assert not any("utilization" in step for step in told)


def test_what_the_message_says_would_fit_is_taken_at_its_word() -> None:
    long = Oom(OomKind.KV_START, "", fits_model_len=2343)
    assert walk(profile(shortest=1024), long) == [Step(Lever.CONTEXT, 2336)]
    assert walk(profile(shortest=4096), long) == [Step(Lever.CONTEXT, 4096)]
    taken = Oom(OomKind.GPU_TAKEN, "", fits_utilization=0.83)
    assert walk(profile(), taken) == [Step(Lever.UTILIZATION, 0.83)]


def test_a_device_that_others_hold_nearly_whole_is_not_shared_below_the_floor() -> None:
    taken = Oom(OomKind.GPU_TAKEN, "", fits_utilization=0.1)
    assert walk(profile(), taken, taken) == [Step(Lever.UTILIZATION, 0.64), None]


def test_a_simulated_worker_has_no_share_of_a_gpu() -> None:
    assert "utilization" not in "".join(words(profile(engine=Engine.SIM), OomKind.GPU_RUN, 9))


def test_a_cache_of_a_fixed_size_takes_no_share() -> None:
    fixed = profile(args=("--kv-cache-memory-bytes", "1000000"))
    assert "utilization" not in "".join(words(fixed, OomKind.GPU_RUN, 9))


@pytest.mark.parametrize(
    ("args", "step", "expected"),
    [
        (
            ("--dtype", "half", "--gpu-memory-utilization", "0.9", "--enforce-eager"),
            Step(Lever.UTILIZATION, 0.8),
            ("--dtype", "half", "--enforce-eager", "--gpu-memory-utilization", "0.8"),
        ),
        (
            ("--gpu_memory_utilization=0.9",),
            Step(Lever.UTILIZATION, 0.8),
            ("--gpu-memory-utilization", "0.8"),
        ),
        (
            ("--gpu-memory-utilization", "0.3"),
            Step(Lever.UTILIZATION, 0.8),
            ("--gpu-memory-utilization", "0.3"),
        ),
        (("--max-num-seqs=4", "--x"), Step(Lever.SEQUENCES, 2), ("--x",)),
        (("--max_model_len", "100"), Step(Lever.CONTEXT, 64), ()),
    ],
)
def test_arguments_are_replaced_where_they_stand_and_never_raised(
    args: tuple[str, ...], step: Step, expected: tuple[str, ...]
) -> None:
    bare = profile(seqs=None, length=None, args=args)
    assert stepped(bare, step).engine_args == expected


def test_a_limit_given_as_an_argument_is_lowered_too() -> None:
    lowered = stepped(profile(seqs=None, args=("--max-num-seqs", "64")), Step(Lever.SEQUENCES, 32))
    assert (lowered.max_num_seqs, lowered.engine_args) == (32, ())
    assert words(profile(seqs=None, args=("--max-num-seqs", "64")), OomKind.HOST, 1) == [
        "max_num_seqs 32"
    ]


def test_a_profile_that_was_lowered_by_hand_is_not_raised_by_an_old_step() -> None:
    assert stepped(profile(seqs=2), Step(Lever.SEQUENCES, 4)).max_num_seqs == 2


OOMS = st.builds(
    Oom,
    st.sampled_from(OomKind),
    st.just(""),
    st.none() | st.integers(1, 300_000),
    st.none() | st.floats(0, 1),
)
PROFILES = st.builds(
    profile,
    st.none() | st.integers(1, 2048),
    st.none() | st.integers(16, 200_000),
    st.none() | st.integers(16, 200_000),
    st.sampled_from(
        [
            (),
            ("--gpu-memory-utilization", "0.3"),
            ("--gpu-memory-utilization=0.95", "--x"),
            ("--gpu_memory_utilization", "1"),
            ("--gpu-memory-utilization",),
            ("--gpu-memory-utilization", "much"),
        ]
    ),
    st.sampled_from(Engine),
)


def measures(own: Profile) -> tuple[float, float, float]:
    length = context(own)
    return sequences(own), float("inf") if length is None else length, utilization(own)


@given(PROFILES, st.lists(OOMS, min_size=1, max_size=60))
def test_each_step_lowers_one_setting_and_raises_none_and_the_ladder_ends(
    own: Profile, ooms: list[Oom]
) -> None:
    steps: list[Step] = []
    for oom in ooms:
        before = measures(all_stepped(own, steps))
        step = next_step(own, oom, steps)
        if step is None:
            continue
        steps.append(step)
        after = measures(all_stepped(own, steps))
        assert sum(new < old for new, old in zip(after, before, strict=True)) == 1
        assert all(new <= old for new, old in zip(after, before, strict=True))
    assert measures(all_stepped(own, steps))[0] >= 1


@given(PROFILES, st.sampled_from(OomKind))
def test_the_end_is_near(own: Profile, kind: OomKind) -> None:
    assert walk(own, *[Oom(kind, "")] * 40)[-1] is None


@given(PROFILES, st.lists(OOMS, max_size=30))
def test_the_context_never_goes_below_the_declared_minimum(own: Profile, ooms: list[Oom]) -> None:
    steps = [step for step in walk(own, *ooms) if step]
    lowered, shortest = context(all_stepped(own, steps)), own.min_model_len
    if lowered != context(own):
        assert shortest is not None
        assert lowered is not None
        assert lowered >= shortest


@given(PROFILES, st.lists(OOMS, max_size=10), st.floats(0, 1e9), st.integers(0, 5))
def test_a_ladder_is_kept_word_for_word(
    own: Profile, ooms: list[Oom], at: float, relapses: int
) -> None:
    ladder = Ladder(tuple(step for step in walk(own, *ooms) if step), at, at, relapses)
    assert Ladder.from_json(ladder.as_json()) == ladder


def test_a_step_is_taken_back_after_a_long_good_time_and_later_after_each_relapse() -> None:
    step, good = Step(Lever.SEQUENCES, 4), 24 * HOUR
    ladder = gone_down(Ladder(), step, 0.0, good)
    waits = []
    now = 0.0
    for _ in range(3):
        wait = next(
            hours for hours in range(1000) if is_step_back_due(ladder, now + hours * HOUR, good)
        )
        waits.append(wait)
        now += wait * HOUR
        ladder = eased(ladder, now)
        assert ladder.steps == ()
        assert not is_step_back_due(ladder, now + 1000 * HOUR, good)
        now += HOUR
        ladder = gone_down(ladder, step, now, good)
    assert waits == [24, 48, 96]


def test_a_death_long_after_a_step_was_taken_back_is_no_relapse() -> None:
    step = Step(Lever.SEQUENCES, 4)
    ladder = eased(gone_down(Ladder(), step, 0.0, HOUR), HOUR)
    assert gone_down(ladder, step, 3 * HOUR, HOUR).relapses == 0
