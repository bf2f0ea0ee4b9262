"""`gateway.compression`: how long prompts are made shorter, where the policy's level says so."""

from __future__ import annotations

from pydantic import Field

from ds4watch.config.section import Seconds, Section


class CompressionSettings(Section):
    """How prompts are compressed on a level with `compress_ratio` (docs/gateway.md)."""

    kept_turns: int = Field(
        2, ge=1, le=1000, description="Messages at the end of a chat that stay as they are."
    )
    cut_last_turns: bool = Field(
        default=False,
        description="Those may be cut too, but for 200 characters at each end: for prompts of one "
        "turn that hold a document and the question about it.",
    )
    max_bytes: int = Field(
        1 << 20, ge=1024, description="Larger prompts are passed on as they are: 0.5 s for 1 MiB."
    )
    max_waiting: int = Field(
        16, ge=1, le=1024, description="Beyond so many, prompts are passed on as they are."
    )
    timeout_seconds: Seconds = Field(
        2.0, description="A prompt that is not compressed in this time is passed on as it is."
    )
    scorer_model: str | None = Field(
        None,
        max_length=256,
        description="A small model of the fleet that judges by its `prompt_logprobs` what can be "
        "left out; the prompt's own word statistics do if not given, or if it fails.",
    )
