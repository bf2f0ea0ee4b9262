"""Settings of admission: who waits, for how long, and how much each may ask for."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ds4watch.config.section import Section

Name = Annotated[str, Field(min_length=1, max_length=256)]


class QuotaSettings(Section):
    """What a model or a class of work may use, over all gateway processes."""

    requests_per_minute: int | None = Field(None, ge=1, description="Requests a minute.")
    tokens_per_minute: int | None = Field(
        None, ge=1, description="Tokens a minute, prompts and answers."
    )
    concurrency: int | None = Field(None, ge=1, description="Requests under way at once.")


class ClassSettings(QuotaSettings):
    """A class of work: what it may use, and how urgent it is."""

    priority: int | None = Field(
        None, ge=0, le=9, description="Priority of its requests if they tell none."
    )


class AbnormalSettings(Section):
    """From where on a single request is out of the ordinary and is degraded by itself."""

    overlong_tokens: int | None = Field(
        131_072, ge=1, description="Estimated tokens of a prompt; then priority 0."
    )
    repeats_per_minute: int | None = Field(
        600, ge=1, description="The same body by the same key; then priority 0."
    )
    early_retries_per_minute: int | None = Field(
        60,
        ge=1,
        description="Requests of a key before its `Retry-After` is over; then 429 until it is.",
    )
    costly_tokens: int | None = Field(
        1_048_576,
        ge=1,
        description="Answers (`n`, prompts) times `max_tokens` times (1 + `logprobs`); then a cap "
        "of its own.",
    )


class AdmissionSettings(Section):
    """Who comes in, who waits, who is turned away."""

    queue_length: int = Field(
        256,
        ge=0,
        description="Requests that wait for a place before each model's workers, in each gateway "
        "process; 0: nobody waits, all are turned away with 503.",
    )
    queue_wait_seconds: float = Field(1.0, ge=0, description="Longest wait there; then 503.")
    long_over_tokens: int = Field(
        2048, ge=1, description="Estimated tokens from which on a prompt is long."
    )
    answer_tokens: int = Field(
        256, ge=0, description="Tokens charged for an answer without `max_tokens`, until it ends."
    )
    models: dict[Name, QuotaSettings] = Field(
        default_factory=dict, description="Quotas by model asked for."
    )
    classes: dict[Name, ClassSettings] = Field(
        default_factory=dict, description="Quotas and priorities by class of work (`x-ds4-class`)."
    )
    abnormal: AbnormalSettings = AbnormalSettings()
