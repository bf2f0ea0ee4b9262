"""A good profile, ways to spoil it, and what the lints then print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds4watch.config.lints.check import lint_profiles
from ds4watch.config.lints.findings import Lint
from ds4watch.config.lints.geometry import ModelFacts
from ds4watch.config.lints.gpus import GpuFacts
from ds4watch.config.loader import read_profile
from ds4watch.config.settings import Settings

GOOD = """\
name: w
model: org/llama-8b
served_names: [w, llama]
precision: bf16
max_model_len: 8192
max_num_seqs: 16
expected_tokens: 2048
gpus: 1
gpu_kind: L4
price_gpu_hour: 0.7
geometry: {layers: 32, kv_heads: 8, head_dim: 128, weights_mib: 5000}
"""
"""On an L4: 23034 MiB x 0.92 - 5000 - 2048 = 14143 MiB for KV; 16 x 2048 x 128 KiB are 4096 MiB."""

NO_GPU = GpuFacts()


def spoilt(changes: Mapping[str, Any]) -> str:
    """Return the good profile with some keys as `changes` has them, null for none.

    `args` are `engine_args`, one a line, the first in line 13 if nothing else was added.
    """
    keys = dict(changes)
    arguments = "".join(f"  - '{it}'\n" for it in keys.pop("args", ()))
    lines = []
    for line in GOOD.splitlines():
        key, _, value = line.partition(": ")
        lines.append((key, keys.pop(key, value)))
    text = "".join(f"{key}: {value}\n" for key, value in lines if value is not None)
    if arguments:
        text += f"engine_args:\n{arguments}"
    return text + "".join(f"{key}: {value}\n" for key, value in keys.items())


def changed(**keys: str | None) -> str:
    """Return the good profile with keys written otherwise; None takes one out."""
    return spoilt(keys)


def with_args(*arguments: str) -> str:
    """Return the good profile with arguments."""
    return spoilt({"args": arguments})


def lints_of(
    text: str,
    *others: str,
    facts: Mapping[str, ModelFacts] | None = None,
    gpus: GpuFacts = NO_GPU,
    settings: Settings | None = None,
    examples: frozenset[str] = frozenset(),
) -> tuple[Lint, ...]:
    """Return what is said of a profile among others; each file is named by its profile."""
    texts = (text, *others)
    names = [it.partition("name: ")[2].partition("\n")[0] for it in texts]
    files = [read_profile(it, f"{name}.yml") for it, name in zip(texts, names, strict=True)]
    settings = settings or Settings()
    found = lint_profiles(files, facts or {}, gpus, settings, examples=examples)
    return tuple(it for it in found if it.found.file == f"{names[0]}.yml")


def printed(text: str, *others: str, **known: Any) -> list[str]:
    """Return the lines that a person sees."""
    return [f"{it.severity.value} {it.found}" for it in lints_of(text, *others, **known)]


def messages(text: str, *others: str, **known: Any) -> list[str]:
    """Return what is said, without the place and the way to mend it."""
    return [it.found.message for it in lints_of(text, *others, **known)]
