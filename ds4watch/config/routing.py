"""How the gateway chooses among workers: `gateway.routing` of the settings."""

from __future__ import annotations

from pydantic import Field

from ds4watch.config.section import Seconds, Section


class RoutingSettings(Section):
    """Who answers a request, who is set aside, which requests are kept apart."""

    slow_start_seconds: float = Field(
        30.0,
        ge=0,
        description="For so long after it became ready a worker's share of the requests grows to "
        "the full one; 0: full at once.",
    )
    slow_start_ratio: float = Field(
        0.1, gt=0, le=1, description="Share of the full one with which it begins."
    )
    window_seconds: Seconds = Field(
        30.0, description="Time over which a worker's answers are judged."
    )
    min_requests: int = Field(
        20,
        ge=1,
        description="A worker is not judged by fewer requests in that time, unless half of them "
        "failed.",
    )
    min_bad: int = Field(3, ge=1, description="Nor by fewer bad ones.")
    slow_seconds: Seconds = Field(
        1.2,
        description="p95 over which a worker is set aside: time to the first byte of a stream, or "
        "to a whole answer less its tokens' allowance. Long prompts do not count.",
    )
    token_seconds: float = Field(
        0.1, ge=0, description="Allowance for each token of an answer that is not streamed."
    )
    error_ratio: float = Field(
        0.01,
        ge=0,
        lt=1,
        description="Share of failures over which it is set aside; 4xx and 503 are none.",
    )
    aside_seconds: Seconds = Field(10.0, description="First time aside; it doubles.")
    aside_max_seconds: Seconds = Field(300.0, description="Longest time aside.")
    probe_ratio: float = Field(
        0.05,
        gt=0,
        le=1,
        description="Share of the requests that may try one who is due back, one at a time.",
    )
    probes: int = Field(3, ge=1, description="Good answers in a row that bring it back.")
    max_aside_ratio: float = Field(
        0.5,
        ge=0,
        le=1,
        description="If more than this share of a model's workers were out, none is set aside.",
    )
    long_tokens: int | None = Field(
        2048,
        ge=1,
        description="Prompts of more tokens have their own queue and workers; null: no such split.",
    )
    long_doubt_ratio: float = Field(
        0.25,
        ge=0,
        lt=1,
        description="Within this share of that limit a worker's tokenizer counts; elsewhere tokens "
        "are estimated from bytes.",
    )
    long_worker_ratio: float = Field(
        0.75,
        gt=0,
        le=1,
        description="Share of a model's workers that take long prompts, if none of them has a "
        "profile with `work: long`; one is left to the short ones, unless it is 1.",
    )
    long_inflight: int = Field(
        16,
        ge=1,
        description="Long prompts that all gateways have open at one worker at most; never more "
        "than half of what it may have open.",
    )
    long_wait_seconds: float = Field(
        30.0, ge=0, description="Time for which a long prompt waits for its turn; then 503."
    )
    long_waiting: int = Field(256, ge=0, description="Long prompts that wait in one process.")
    tokenize_seconds: Seconds = Field(
        1.0, description="Time for that count; without an answer a prompt is long."
    )
    sessions: bool = Field(
        default=True,
        description="Requests of one conversation go to the worker that has its beginning cached.",
    )
    session_load_ratio: float = Field(
        1.25,
        ge=1,
        description="A worker with more than so many times the mean of open requests is passed "
        "over: the next in the session's order is taken.",
    )
    session_free_inflight: int = Field(
        16,
        ge=1,
        description="Requests that all gateways have open at a worker that are never too many for "
        "that; half of what it may have open, if that is less.",
    )
    retry_within_seconds: Seconds = Field(
        120.0, description="A request older than that is not tried anew."
    )
