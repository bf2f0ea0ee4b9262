"""`gateway.intake` and what goes with keys: what requests may hold, and who may send them."""

from __future__ import annotations

from pydantic import Field

from ds4watch.config.section import Seconds, Section


class IntakeSettings(Section):
    """What a request may hold. Fields that are not named here pass to the worker unchecked."""

    messages: int = Field(4096, ge=1, description="Messages of one chat.")
    content_parts: int = Field(1024, ge=1, description="Parts of one message.")
    prompts: int = Field(1024, ge=1, description="Prompts of one text completion.")
    choices: int = Field(128, ge=1, description="Answers to one request: `n` and `best_of`.")
    max_tokens: int = Field(1_000_000, ge=1, description="Tokens that may be asked for.")
    logprobs: int = Field(20, ge=0, description="Log-probabilities by token.")
    stops: int = Field(64, ge=0, description="Texts that end an answer.")
    tools: int = Field(256, ge=0, description="Tools that a model may call.")
    regex_chars: int = Field(
        2048, ge=0, description="Length of a regular expression that answers must match."
    )
    grammar_chars: int = Field(16_384, ge=0, description="Length of a grammar or schema as text.")
    schema_nodes: int = Field(10_000, ge=0, description="Values in all JSON schemas of a request.")
    allow_fields: tuple[str, ...] = Field(
        (),
        description="Fields that reach into the worker and are refused otherwise, such as "
        "`prompt_embeds`, `mm_processor_kwargs`, `chat_template` (docs/security.md).",
    )
    media_hosts: tuple[str, ...] = Field(
        (),
        description="Hosts from which workers may fetch pictures, sound and video: `name`, "
        "`name:port`, `*.name`, or `*`. None by default: only `data:` URLs pass.",
    )


class SignatureSettings(Section):
    """Signed requests (docs/security.md)."""

    required: bool = Field(
        default=False, description="Only signed requests are let in; keys that are sent are not."
    )
    window_seconds: Seconds = Field(
        300.0, le=3600, description="How far a signature's time may be off."
    )
