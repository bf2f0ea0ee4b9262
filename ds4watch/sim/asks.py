"""What a client asks for: request bodies, checked as vLLM checks them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ds4watch.sim.api_errors import bad_request, invalid_body, unknown_model
from ds4watch.sim.settings import SimSettings
from ds4watch.sim.tokens import encode, render_chat

MAX_LOGPROBS = 20
MAX_CHOICES = 64

Byte = Annotated[int, Field(ge=0, le=255)]
_Body = TypeVar("_Body", bound=BaseModel)


class _Loose(BaseModel):
    """Unknown fields are let through, as vLLM does."""

    model_config = ConfigDict(extra="ignore")


class StreamOptions(_Loose):
    """What a stream says about usage."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Sampling(_Loose):
    model: str | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int = 1
    stop: str | list[str] | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    seed: int | None = None
    prompt_logprobs: int | None = None


class ChatBody(_Sampling):
    """POST /v1/chat/completions."""

    messages: list[dict[str, Any]] = Field(min_length=1)
    max_completion_tokens: int | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    add_generation_prompt: bool = True


class CompletionBody(_Sampling):
    """POST /v1/completions."""

    prompt: str | list[Byte] | list[str] | list[list[Byte]]
    max_tokens: int | None = 16
    logprobs: int | None = None
    echo: bool = False


class TokenizeBody(_Loose):
    """POST /tokenize."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    return_token_strs: bool = False


class DetokenizeBody(_Loose):
    """POST /detokenize."""

    model: str | None = None
    tokens: list[Byte]


@dataclass(frozen=True, slots=True)
class Ask:
    """One generation request, ready for the engine. each of `prompts` has `n` answers.

    top_logprobs: alternatives for each generated token; None for no log probabilities at all.
    prompt_logprobs: the same for the tokens of the prompt.
    """

    model: str
    prompts: tuple[bytes, ...]
    max_tokens: tuple[int, ...]
    n: int
    stream: bool
    include_usage: bool
    continuous_usage: bool
    stop: tuple[str, ...]
    min_tokens: int
    ignore_eos: bool
    seed: int | None
    top_logprobs: int | None
    prompt_logprobs: int | None
    echo: bool = False

    @property
    def tells_logprobs(self) -> bool:
        """Whether log-probabilities are asked for, of the answer or of the prompt."""
        return self.top_logprobs is not None or self.prompt_logprobs is not None


def parse(kind: type[_Body], raw: bytes) -> _Body:
    """Read a body. Raises ApiError."""
    try:
        data = json.loads(raw)
    except ValueError as error:
        raise invalid_body(f"JSON decode error: {error}", param="body") from error
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(("body", *map(str, first["loc"][:1])))
        raise invalid_body(f"{where}: {first['msg']}", param=where) from error


def served(name: str | None, settings: SimSettings) -> str:
    """Return the model name to answer with. Raises ApiError if it is not served."""
    if not name:
        return settings.served_names[0]
    if name not in settings.served_names:
        raise unknown_model(name)
    return name


def chat_ask(body: ChatBody, settings: SimSettings) -> Ask:
    """Turn a chat request into an Ask. Raises ApiError."""
    prompt = render_chat(body.messages, add_generation_prompt=body.add_generation_prompt)
    newer = body.max_completion_tokens is not None
    top = (body.top_logprobs or 0) if body.logprobs else None
    return _ask(
        body,
        settings,
        prompts=(encode(prompt),),
        wanted=body.max_completion_tokens if newer else body.max_tokens,
        wanted_name="max_completion_tokens" if newer else "max_tokens",
        top=top,
    )


def completion_ask(body: CompletionBody, settings: SimSettings) -> Ask:
    """Turn a completion request into an Ask. Raises ApiError."""
    return _ask(
        body,
        settings,
        prompts=_prompts(body.prompt),
        wanted=body.max_tokens,
        wanted_name="max_tokens",
        top=body.logprobs,
        echo=body.echo,
    )


def _prompts(
    prompt: str | Sequence[int] | Sequence[str] | Sequence[Sequence[int]],
) -> tuple[bytes, ...]:
    if isinstance(prompt, str):
        return (encode(prompt),)
    if prompt and isinstance(prompt[0], int):
        return (bytes(token for token in prompt if isinstance(token, int)),)
    return tuple(
        encode(item) if isinstance(item, str) else bytes(item)
        for item in prompt
        if not isinstance(item, int)
    )


def _ask(
    body: _Sampling,
    settings: SimSettings,
    *,
    prompts: tuple[bytes, ...],
    wanted: int | None,
    wanted_name: str,
    top: int | None,
    echo: bool = False,
) -> Ask:
    model = served(body.model, settings)
    _check_sampling(body, top)
    if not prompts or not all(prompts):
        raise bad_request("The decoder prompt cannot be empty", param="prompt")
    options = body.stream_options or StreamOptions()
    return Ask(
        model=model,
        prompts=prompts,
        max_tokens=tuple(
            token_limit(len(prompt), wanted, wanted_name, settings.max_model_len)
            for prompt in prompts
        ),
        n=body.n,
        stream=body.stream,
        include_usage=options.include_usage,
        continuous_usage=options.include_usage and options.continuous_usage_stats,
        stop=(body.stop,) if isinstance(body.stop, str) else tuple(body.stop or ()),
        min_tokens=body.min_tokens,
        ignore_eos=body.ignore_eos,
        seed=body.seed,
        top_logprobs=top,
        prompt_logprobs=top if echo and body.prompt_logprobs is None else body.prompt_logprobs,
        echo=echo,
    )


def _check_sampling(body: _Sampling, top: int | None) -> None:
    if not 1 <= body.n <= MAX_CHOICES:
        raise bad_request(
            f"n must be at least 1 and at most {MAX_CHOICES}, got {body.n}.", param="n"
        )
    if body.stream_options is not None and not body.stream:
        raise bad_request(
            "Stream options can only be defined when `stream=True`.", param="stream_options"
        )
    if body.stream and body.prompt_logprobs:
        raise bad_request(
            "`prompt_logprobs` are not available when `stream=True`.", param="prompt_logprobs"
        )
    for name, value in (("logprobs", top), ("prompt_logprobs", body.prompt_logprobs)):
        if value is not None and not 0 <= value <= MAX_LOGPROBS:
            message = (
                f"Requested {name} of {value}, which is greater than max allowed: {MAX_LOGPROBS}"
                if value > 0
                else f"`{name}` must be a positive value or -1."
            )
            raise bad_request(message, param=name)


def token_limit(prompt_tokens: int, wanted: int | None, name: str, max_model_len: int) -> int:
    """Return how many tokens may be generated: what is asked for, or what the context leaves.

    Raises ApiError where the prompt does not fit, or more is asked for than any prompt leaves.
    """
    if wanted is not None and wanted < 1:
        raise bad_request(f"max_tokens must be at least 1, got {wanted}.", param="max_tokens")
    if wanted is not None and wanted > max_model_len:
        raise bad_request(
            f"{name}={wanted} cannot be greater than max_model_len={max_model_len}. "
            "Please request fewer output tokens.",
            param=name,
        )
    left = max_model_len - prompt_tokens
    if left < 1:
        raise bad_request(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
            f"contains {prompt_tokens} input tokens, which exceeds this limit even without any "
            "output tokens. Please reduce the length of the input prompt.",
            param="input_tokens",
        )
    return left if wanted is None else min(wanted, left)
