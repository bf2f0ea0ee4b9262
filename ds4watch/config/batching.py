"""`gateway.batching`: requests that begin alike wait a moment for the first of them."""

from __future__ import annotations

from pydantic import Field

from ds4watch.config.section import Section


class BatchingSettings(Section):
    """How requests with a shared prefix are grouped (docs/gateway.md)."""

    always: bool = Field(
        default=False,
        description="Group on every level; else only on those with `group_prefixes` in the policy.",
    )
    answering_seconds: float = Field(
        0.075,
        ge=0,
        le=1,
        description="Longest wait where at most 256 tokens are asked for; 0: none waits.",
    )
    generation_seconds: float = Field(
        0.15, ge=0, le=1, description="Longest wait of all other requests; 0: none waits."
    )
    prefix_chars: int = Field(
        2000,
        ge=64,
        le=1 << 20,
        description="Prompts of a group have their first so many characters in common.",
    )
