"""What the body of a request may hold: a table of fields, bounds, and what is refused.

Fields that are not in the table pass as they are: the worker knows them, or says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from ds4watch.access import fields
from ds4watch.access.fields import Check, Invalid
from ds4watch.access.grammar_check import (
    GrammarLimits,
    check_choices,
    check_grammar,
    check_regex,
    check_response_format,
    check_schema,
    check_structured,
    check_tools,
)
from ds4watch.access.media_check import MediaRules, check_input, check_messages

INT64_MAX: Final = 2**63 - 1
_NAME_CHARS: Final = 1024
_LIST_ITEMS: Final = 4096

DANGEROUS: Final = MappingProxyType(
    {
        "logits_processors": "names code that the worker would import",
        "prompt_embeds": "is a tensor that the worker would unpickle",
        "media_io_kwargs": "reaches into the worker's media loader",
        "mm_processor_kwargs": "reaches into the worker's media processor",
        "mm_payload": "reaches past the worker's media loader",
        "return_mm_kwargs": "reaches into the worker's media processor",
        "chat_template": "is a program that the worker would run",
        "kv_transfer_params": "names hosts that the worker would connect to",
        "ec_transfer_params": "names hosts that the worker would connect to",
        "vllm_xargs": "reaches past the API into the engine",
        "guided_decoding_backend": "is the operator's to choose",
        "priority": "is the gateway's to give (x-ds4-priority)",
    }
)
"""Fields that are refused unless `allow_fields` names them, and why."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Bounds of one request's fields.

    choices: `n` and `best_of`. schema_nodes: values in all JSON schemas together.
    media_hosts: hosts from which workers may load pictures, sound and video (`name`,
    `name:port`, `*.name`, or `*` for any); `data:` URLs always pass.
    """

    model_name_chars: int = 256
    messages: int = 4096
    content_parts: int = 1024
    prompts: int = 1024
    choices: int = 128
    max_tokens: int = 1_000_000
    logprobs: int = 20
    stops: int = 64
    stop_chars: int = 1024
    tools: int = 256
    regex_chars: int = 2048
    grammar_chars: int = 16_384
    schema_nodes: int = 10_000
    allow_fields: frozenset[str] = frozenset()
    media_hosts: tuple[str, ...] = ()


class RequestCheck:
    """Checks bodies of completion requests; made once, used for each."""

    def __init__(self, limits: RequestLimits) -> None:
        common = _common(limits)
        self._chat = common | _of_chat(limits)
        self._text = common | _of_text(limits)
        self._other = _of_other(limits)
        self._allows_embeds = "prompt_embeds" in limits.allow_fields

    def chat(self, body: Mapping[str, Any]) -> Invalid | None:
        """Return the first fault of a chat completion's body, None if there is none."""
        if not body.get("messages"):
            return _missing(body) or Invalid("messages", "must be a list with at least one message")
        return _missing(body) or _first(self._chat, body)

    def text(self, body: Mapping[str, Any]) -> Invalid | None:
        """Return the first fault of a text completion's body, None if there is none."""
        missing = _missing(body)
        has_embeds = self._allows_embeds and body.get("prompt_embeds") is not None
        if missing is None and body.get("prompt") is None and not has_embeds:
            missing = _first(self._text, body) or Invalid("prompt", "is missing")
        return missing or _first(self._text, body)

    def other(self, body: Mapping[str, Any]) -> Invalid | None:
        """Return the first fault of any other body that names a model; few fields are known."""
        return _missing(body) or _first(self._other, body)


def _first(table: Mapping[str, Check], body: Mapping[str, Any]) -> Invalid | None:
    for field, value in body.items():
        check = table.get(field)
        if check is not None and value is not None:
            fault = check(field, value)
            if fault is not None:
                return fault
    return None


def _missing(body: Mapping[str, Any]) -> Invalid | None:
    if body.get("model"):
        return None
    return Invalid("model", "must be the name of a model")


def _common(limits: RequestLimits) -> dict[str, Check]:
    grammar = GrammarLimits(limits.regex_chars, limits.grammar_chars, limits.schema_nodes)
    tokens = partial(fields.whole, low=0, high=limits.max_tokens)
    number = partial(fields.number, low=-1e6, high=1e6)
    token_ids = partial(fields.wholes, count=_LIST_ITEMS)
    name = partial(fields.text, chars=_NAME_CHARS)
    flag = fields.flag
    return {
        "model": partial(fields.name, chars=limits.model_name_chars),
        **dict.fromkeys(("max_tokens", "max_completion_tokens", "min_tokens"), tokens),
        **dict.fromkeys(("n", "best_of"), partial(fields.whole, low=1, high=limits.choices)),
        "prompt_logprobs": partial(fields.whole, low=-1, high=limits.logprobs),
        "top_k": partial(fields.whole, low=-1, high=INT64_MAX),
        "seed": partial(fields.whole, low=-INT64_MAX - 1, high=INT64_MAX),
        "truncate_prompt_tokens": partial(fields.whole, low=-1, high=INT64_MAX),
        "thinking_token_budget": partial(fields.whole, low=-1, high=INT64_MAX),
        "stream_interval": partial(fields.whole, low=1, high=1_000_000),
        **dict.fromkeys(
            ("temperature", "top_p", "min_p", "repetition_penalty", "length_penalty"), number
        ),
        **dict.fromkeys(("presence_penalty", "frequency_penalty"), number),
        **dict.fromkeys(("stop_token_ids", "allowed_token_ids", "logprob_token_ids"), token_ids),
        "logit_bias": partial(fields.numbers_by_name, count=_LIST_ITEMS),
        "stop": partial(fields.text_or_texts, count=limits.stops, chars=limits.stop_chars),
        "bad_words": partial(fields.texts, count=_LIST_ITEMS, chars=_NAME_CHARS),
        **dict.fromkeys(("stream", "echo", "ignore_eos", "use_beam_search"), flag),
        "stream_options": partial(fields.small_object, count=16),
        "chat_template_kwargs": fields.template_arguments,
        "metadata": partial(fields.small_object, count=64),
        **dict.fromkeys(("user", "session_id", "request_id", "cache_salt"), name),
        "guided_regex": partial(check_regex, limits=grammar),
        "guided_whitespace_pattern": partial(check_regex, limits=grammar),
        "guided_grammar": partial(check_grammar, limits=grammar),
        "guided_choice": check_choices,
        "guided_json": partial(check_schema, limits=grammar),
        "structured_outputs": partial(check_structured, limits=grammar),
        "response_format": partial(check_response_format, limits=grammar),
        **_dangerous(limits),
    }


def _dangerous(limits: RequestLimits) -> dict[str, Check]:
    return {
        field: partial(fields.refused, why=why)
        for field, why in DANGEROUS.items()
        if field not in limits.allow_fields
    }


def _of_chat(limits: RequestLimits) -> dict[str, Check]:
    grammar = GrammarLimits(limits.regex_chars, limits.grammar_chars, limits.schema_nodes)
    tools = partial(check_tools, count=limits.tools, limits=grammar)
    return {
        "messages": partial(check_messages, count=limits.messages, rules=_media(limits)),
        "logprobs": fields.flag,
        "top_logprobs": partial(fields.whole, low=-1, high=limits.logprobs),
        **dict.fromkeys(("tools", "functions"), tools),
    }


def _of_text(limits: RequestLimits) -> dict[str, Check]:
    return {
        "prompt": partial(fields.prompt, count=limits.prompts),
        "logprobs": partial(fields.whole, low=-1, high=limits.logprobs),
    }


def _of_other(limits: RequestLimits) -> dict[str, Check]:
    media = _media(limits)
    return {
        "model": partial(fields.name, chars=limits.model_name_chars),
        "messages": partial(check_messages, count=limits.messages, rules=media),
        **dict.fromkeys(("input", "documents", "query"), partial(check_input, rules=media)),
        **dict.fromkeys(
            ("text_1", "text_2", "data_1", "data_2"), partial(check_input, rules=media)
        ),
        "max_output_tokens": partial(fields.whole, low=0, high=limits.max_tokens),
        **dict.fromkeys(("stream", "background", "store"), fields.flag),
        **_dangerous(limits),
    }


def _media(limits: RequestLimits) -> MediaRules:
    return MediaRules(
        hosts=frozenset(host.lower() for host in limits.media_hosts),
        parts=limits.content_parts,
        allows_embeds="prompt_embeds" in limits.allow_fields,
    )
