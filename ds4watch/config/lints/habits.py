"""Keys that must be set, and switches that cost more than they seem to."""

from __future__ import annotations

from collections.abc import Iterator

from ds4watch.config.lints.arguments import Arguments
from ds4watch.config.lints.findings import Advice, warn
from ds4watch.config.profile import Profile, WorkClass

_KEY_VARIABLE = "VLLM_API_KEY"


def lint_habits(profile: Profile, arguments: Arguments) -> Iterator[Advice]:
    """Yield what is missing or switched off to the worker's harm."""
    if profile.max_model_len is None and arguments.find("--max-model-len") is None:
        message = (
            "is missing: vLLM takes the model's longest context, and does not start where the KV "
            "cache cannot hold one such request"
        )
        yield Advice(("max_model_len",), message, "set it to the longest request that you serve")
    longest, usual = profile.max_model_len, profile.expected_tokens
    if longest is not None and usual is not None and usual > longest:
        message = f"is {usual}, but no request is longer than max_model_len, {longest}"
        yield Advice(("expected_tokens",), message, f"at most {longest}")
    if _KEY_VARIABLE in profile.environment | profile.cpu_environment:
        message = f"{_KEY_VARIABLE} stands in the profile, and ds4watch asks without it"
        yield Advice(("environment",), message, "write the key into a file, and give api_key_file")
    yield from _switches(profile, arguments)


def _switches(profile: Profile, arguments: Arguments) -> Iterator[Advice]:
    caching = arguments.find("--enable-prefix-caching")
    if caching is not None and caching.written.startswith("--no-"):
        message = "the prefix cache is off: each turn of a conversation is computed from its start"
        yield warn(caching.path, message, "take it out")
    eager = arguments.switch("--enforce-eager")
    if eager is not None:
        message = "without CUDA graphs a GPU waits for the CPU at each token"
        yield warn(eager.path, message, "take it out, or move it to cpu_args")
    asleep = arguments.switch("--enable-sleep-mode")
    if asleep is not None and not profile.has_dev_mode:
        message = "sleep mode has no endpoints without VLLM_SERVER_DEV_MODE, and is never used"
        yield warn(asleep.path, message, "say `sleep: true`, which adds both")
    mode = arguments.find("--performance-mode")
    clash = {WorkClass.INTERACTIVE: "throughput", WorkClass.BATCH: "interactivity"}
    if mode is not None and clash.get(profile.work) == mode.value:
        message = f"--performance-mode {mode.value} is not for work: {profile.work.value}"
        yield warn(mode.path, message, "take it out, or change work")
