"""Speculative decoding together with what vLLM 0.32 refuses beside it, or is known to break on.

The rules are those of `SpeculativeConfig`, `VllmConfig`, `EngineArgs.create_engine_config` and
`build_logitsprocs` of vLLM 0.32.0; where a clash is known from a report only, it is named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ds4watch.config.document import Path
from ds4watch.config.lints.arguments import Argument, Arguments
from ds4watch.config.lints.findings import Advice, warn
from ds4watch.config.profile import Profile

CONFIG: Final = "--speculative-config"
_SHORT: Final = {
    "--spec-method": "method",
    "--spec-model": "model",
    "--spec-tokens": "num_speculative_tokens",
}
_ASYNC: Final = ("eagle", "eagle3", "ngram_gpu", "draft_model", "dspark", "dflash")
_DRAFT_FREE: Final = ("ngram", "ngram_gpu", "suffix")
_OFF: Final = "take one of the two out"


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is asked for, and where the profile says so."""

    path: Path
    config: Mapping[str, Any]

    def text(self, key: str) -> str:
        value = self.config.get(key)
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int | None:
        value = self.config.get(key)
        text = str(value) if not isinstance(value, bool) else ""
        return int(text) if text.removeprefix("-").isdecimal() else None


def lint_speculation(profile: Profile, arguments: Arguments) -> Iterator[Advice]:
    """Yield each clash; nothing if the profile does not speculate."""
    given = [it for it in arguments.given if it.name == CONFIG or it.name in _SHORT]
    if not given:
        return
    config = _config(given)
    if config is None:
        message = f"{CONFIG} is not a JSON object"
        mend = """such as '{"method": "ngram", "num_speculative_tokens": 4}'"""
        yield Advice(given[0].path, message, mend)
        return
    yield from _given_twice(given)
    plan = _Plan(given[0].path, config)
    yield from _own_faults(plan, profile, arguments)
    yield from _beside(plan, arguments)
    yield from _adaptive_faults(plan, arguments)
    yield from _batch_faults(plan, profile, arguments)


def _config(given: list[Argument]) -> dict[str, Any] | None:
    config: dict[str, Any] = {}
    for argument in given:
        if argument.name in _SHORT:
            config[_SHORT[argument.name]] = argument.value
        elif argument.keys:
            told = _json(argument.value)
            config[argument.keys[0].replace("-", "_")] = argument.value if told is None else told
        else:
            whole = _json(argument.value)
            if not isinstance(whole, dict):
                return None
            config |= {key.replace("-", "_"): value for key, value in whole.items()}
    return config


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _given_twice(given: list[Argument]) -> Iterator[Advice]:
    whole = next((it for it in given if it.name == CONFIG), None)
    inside = _config([it for it in given if it.name == CONFIG]) or {}
    for argument in given:
        key = _SHORT.get(argument.name)
        if whole is not None and key in inside:
            message = f"{argument.written} and {key} in {CONFIG} exclude each other"
            yield Advice(argument.path, message, _OFF)


def _own_faults(plan: _Plan, profile: Profile, arguments: Arguments) -> Iterator[Advice]:
    tokens = plan.number("num_speculative_tokens")
    method = plan.text("method")
    if tokens is not None and tokens <= 0:
        message = f"num_speculative_tokens must be over 0, got {tokens}"
        yield Advice(plan.path, message, "3 to 5 are usual")
    elif tokens is None and method not in ("suffix", *_mtp(method)):
        message = "num_speculative_tokens is missing, and vLLM does not start"
        yield Advice(plan.path, message, "3 to 5 are usual")
    if "tensor_parallel_size" in plan.config:
        message = "tensor_parallel_size is no key of a speculative config"
        yield Advice(plan.path, message, "call it draft_tensor_parallel_size")
    draft, target = (
        plan.number("draft_tensor_parallel_size"),
        arguments.count("--tensor-parallel-size"),
    )
    if draft not in (None, 1, target):
        message = f"draft_tensor_parallel_size {draft} is neither 1 nor the model's {target}"
        yield Advice(plan.path, message, f"make it 1 or {target}")
    longest, own = profile.max_model_len, plan.number("max_model_len")
    if own is not None and longest is not None and own > longest:
        message = f"max_model_len {own} of the draft is over that of the model, {longest}"
        yield Advice(plan.path, message, f"at most {longest}")


def _beside(plan: _Plan, arguments: Arguments) -> Iterator[Advice]:
    """Yield what may not stand beside speculation at all, or only with some methods."""
    method = plan.text("method")
    processors = arguments.find("--logits-processors")
    if processors is not None:
        message = "custom logits processors are refused with speculative decoding"
        yield Advice(processors.path, message, _OFF)
    scheduling = arguments.switch("--async-scheduling")
    if scheduling is not None and method not in (*_ASYNC, *_mtp(method)):
        message = f"async scheduling is refused with speculation by {method or 'this method'}"
        yield Advice(scheduling.path, message, "take it out: vLLM decides by itself")
    elif scheduling is not None and plan.config.get("disable_padded_drafter_batch") is True:
        message = "async scheduling is refused with disable_padded_drafter_batch"
        yield Advice(scheduling.path, message, _OFF)
    overlap = arguments.switch("--enable-dbo")
    if overlap is not None:
        message = "dual batch overlap has no speculative decoding in vLLM's second model runner"
        yield warn(overlap.path, message, _OFF)
    replay = arguments.switch("--enable-trace-replay")
    if replay is not None:
        message = "requests that replay a trace are refused with speculative decoding"
        yield warn(replay.path, message, _OFF)
    yield from _reported(plan, arguments)
    yield from _watermark_faults(plan, arguments)


def _reported(plan: _Plan, arguments: Arguments) -> Iterator[Advice]:
    stages = arguments.find("--pipeline-parallel-size")
    if stages is not None and arguments.count("--pipeline-parallel-size") > 1:
        message = (
            "pipeline parallelism with speculative decoding did not start up to vLLM 0.29, or "
            "garbled answers (vllm#57755)"
        )
        yield warn(stages.path, message, "use tensor parallelism, or compare answers first")
    adapters = arguments.switch("--enable-lora")
    if adapters is not None and plan.text("method") in _DRAFT_FREE:
        message = f"LoRA with speculation by {plan.text('method')} has crashed (vllm#20284)"
        yield warn(adapters.path, message, "try it under load first")
    if plan.config.get("num_speculative_tokens_per_batch_size"):
        ranks = arguments.find("--data-parallel-size")
        if ranks is not None and arguments.count("--data-parallel-size") > 1:
            message = "num_speculative_tokens_per_batch_size is ignored with data parallelism"
            yield warn(ranks.path, message, "take it out")


def _watermark_faults(plan: _Plan, arguments: Arguments) -> Iterator[Advice]:
    mark = arguments.find("--watermark-config")
    if mark is None:
        return
    if plan.text("draft_sample_method") != "probabilistic":
        message = "watermarks with speculative decoding need draft_sample_method probabilistic"
        yield Advice(mark.path, message, "set it in the speculative config")
    method = plan.text("method")
    if method not in ("dspark", "eagle", "eagle3", *_mtp(method)):
        message = f"watermarks are refused with speculation by {method or 'this method'}"
        yield Advice(mark.path, message, "use eagle, eagle3, dspark or mtp")


def _adaptive_faults(plan: _Plan, arguments: Arguments) -> Iterator[Advice]:
    if plan.config.get("enable_adaptive_verification") is not True:
        return
    others = {
        "LoRA": arguments.switch("--enable-lora"),
        "--enforce-eager": arguments.switch("--enforce-eager"),
    }
    if arguments.count("--pipeline-parallel-size") > 1:
        others["pipeline parallelism"] = arguments.find("--pipeline-parallel-size")
    for name, argument in others.items():
        if argument is not None:
            message = f"adaptive verification is refused with {name}"
            yield Advice(argument.path, message, _OFF)


def _batch_faults(plan: _Plan, profile: Profile, arguments: Arguments) -> Iterator[Advice]:
    """Yield a batch of tokens that LoRA with drafts does not fit in; vLLM refuses to start."""
    tokens, seqs = plan.number("num_speculative_tokens"), profile.max_num_seqs
    batch = arguments.value("--max-num-batched-tokens")
    if not (arguments.switch("--enable-lora") and tokens and seqs and batch.isdecimal()):
        return
    least = seqs * (tokens + 1)
    if int(batch) < least:
        found = arguments.find("--max-num-batched-tokens")
        message = (
            f"--max-num-batched-tokens {batch} is under max_num_seqs x (num_speculative_tokens + 1)"
            f" = {least}, which LoRA needs"
        )
        yield Advice(found.path if found else plan.path, message, f"at least {least}")


def _mtp(method: str) -> tuple[str, ...]:
    """Return the method if the model drafts by itself: as many tokens as it was trained for."""
    return (method,) if method.endswith("mtp") or method == "extract_hidden_states" else ()
