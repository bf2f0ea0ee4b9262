"""The request as the worker gets it: capped, substituted, shortened, asked for its usage."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from ds4watch.model.limits import Limits
from ds4watch.model.service_policy import DEFAULT_POOL, ServicePolicy
from ds4watch.model.worker import FleetSnapshot
from ds4watch.shaping.substitute import Substitute, conversation_of, diverted_of, substitutes_of
from ds4watch.shaping.turns import last_turns

_TEXT_DEFAULT_MAX_TOKENS = 16
"""What /v1/completions generates if not told; a cap above it must not raise it."""
_COMPRESS_OVER_TOKENS = 4096
_LOW_EFFORT = "low"
_HIGH_EFFORTS = frozenset({"medium", "high", "xhigh", "max"})
_UNTOUCHED = Limits()
USAGE_ASKED: Final = {"include_usage": True, "continuous_usage_stats": True}
"""What the books need of a stream."""


class RequestKind(StrEnum):
    """What is asked of a model: a completion in one of three shapes, or something else."""

    CHAT = "chat"
    TEXT = "text"
    RESPONSES = "responses"
    OTHER = "other"
    """Nothing is generated: embeddings, scores, tokens."""


_COMPLETIONS = frozenset({RequestKind.CHAT, RequestKind.TEXT})


class Shaped(NamedTuple):
    """A request's body for the worker.

    changed: the body is no longer what the client's bytes say.
    degraded: what the policy took away, as `name=value`, for the header and the record.
    client_wants_usage, client_wants_continuous_usage: what the client asked for itself; the
    rest that the worker tells is for our books only.
    """

    body: dict[str, Any]
    changed: bool
    degraded: tuple[str, ...]
    stream: bool
    kind: RequestKind
    model: str
    """The one that serves."""
    client_wants_usage: bool = False
    client_wants_continuous_usage: bool = False
    only_asks_usage: bool = False
    """All that was changed: the body has `stream_options` now, and had none."""


@dataclass(frozen=True, slots=True)
class Degrading:
    """A policy made ready for requests: made anew with each board, looked up for each request."""

    level: int = 0
    limits: Limits = _UNTOUCHED
    substitutes: Mapping[str, Substitute] = field(default_factory=dict)
    diverted: Mapping[tuple[str, str], Substitute] = field(default_factory=dict)
    """By model and class of work: who answers in place of a model that is not good at it."""
    touches_bodies: bool = False
    pool: str = DEFAULT_POOL

    def compress_ratio(self, prompt_tokens: int) -> float | None:
        """Return the share of its tokens that a prompt of so many may keep, None for all."""
        limits = self.limits
        if limits.compress_ratio is None:
            return None
        is_long = prompt_tokens > (limits.compress_over_tokens or _COMPRESS_OVER_TOKENS)
        return limits.compress_ratio if is_long else None

    def shortens_as(self, other: Degrading) -> bool:
        """Return whether a prompt that `other` shortened is one that this would have made."""
        mine, its = self.limits, other.limits
        return (mine.compress_ratio, mine.max_turns) == (its.compress_ratio, its.max_turns)

    def last_turns(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the messages of a chat that may stay, as the field to change; none if all may."""
        most, messages = self.limits.max_turns, body.get("messages")
        if most is None or not isinstance(messages, list):
            return {}
        kept = last_turns(messages, most)
        return {} if kept is messages else {"messages": kept}


NOT_DEGRADING = Degrading()


class Asked(NamedTuple):
    """What is known of a request beside its body.

    session: what the client calls the conversation, if anything. own_cap: completion tokens
    that this one request may have, whatever the level. compressed: the fields of its body that
    hold a shorter prompt; made beforehand, for it takes a while.
    """

    work_class: str = ""
    session: str = ""
    prompt_tokens: int = 0
    own_cap: int | None = None
    compressed: Mapping[str, Any] | None = None


_PLAIN = Asked()


def degrading_of(
    policy: ServicePolicy,
    fleet: FleetSnapshot,
    served: Collection[str],
    pool: str = DEFAULT_POOL,
) -> Degrading:
    """Return `policy` made ready. `served`: models that can be had; a substitute is one of them."""
    limits = policy.limits
    substitutes = substitutes_of(limits.substitutions, fleet, served=served)
    diverted = diverted_of(policy.diversions, fleet, served=served)
    return Degrading(
        pool=pool,
        level=policy.level,
        limits=limits,
        substitutes=substitutes,
        diverted=diverted,
        touches_bodies=bool(substitutes)
        or bool(diverted)
        or limits.thinking_off
        or any(
            lever is not None
            for lever in (limits.max_tokens_cap, limits.n_cap, limits.best_of_cap, limits.max_turns)
        )
        or limits.compress_ratio is not None,
    )


def shape(
    body: dict[str, Any], degrading: Degrading, kind: RequestKind, asked: Asked = _PLAIN
) -> Shaped:
    """Return the body for the worker; unknown fields pass as they are.

    `body` has passed `access.request_check` and is not edited.
    """
    changes: dict[str, Any] = {}
    degraded: tuple[str, ...] = ()
    if degrading.touches_bodies or asked.own_cap is not None:
        told: dict[str, Any] = {}
        changes = _changes(body, degrading, kind, asked, told)
        if told:
            degraded = (f"level={degrading.level}", *(f"{it}={told[it]}" for it in told))
    model: str = changes.get("model") or body["model"]
    if not body.get("stream") and "stream_options" not in body:
        shaped = body | changes if changes else body
        return Shaped(shaped, bool(changes), degraded, stream=False, kind=kind, model=model)
    stream = bool(body.get("stream"))
    options: dict[str, Any] = body.get("stream_options") or {}
    is_new = not changes and "stream_options" not in body
    if stream and kind in _COMPLETIONS:
        wanted = options | USAGE_ASKED
        if wanted != options:
            changes["stream_options"] = wanted
    wants_usage = bool(options.get("include_usage"))
    return Shaped(
        body=body | changes if changes else body,
        changed=bool(changes),
        degraded=degraded,
        stream=stream,
        kind=kind,
        model=model,
        client_wants_usage=wants_usage,
        # vLLM heeds the second only with the first.
        client_wants_continuous_usage=wants_usage and bool(options.get("continuous_usage_stats")),
        only_asks_usage=is_new and bool(changes),
    )


def _changes(
    body: dict[str, Any],
    degrading: Degrading,
    kind: RequestKind,
    asked: Asked,
    told: dict[str, Any],
) -> dict[str, Any]:
    """Return the fields to change; put into `told` what the client is told of it."""
    changes: dict[str, Any] = {}
    limits = degrading.limits
    substitute = degrading.substitutes.get(body["model"])
    is_completion = kind in _COMPLETIONS
    # An embedding by another model would be no embedding; what a response needs is not looked at.
    if is_completion and substitute is not None and _is_for(substitute, body, asked):
        changes["model"] = told["model"] = substitute.serves
    if is_completion and degrading.diverted:
        _divert(body, degrading, asked, changes, told)
    cap = _least(limits.max_tokens_cap, asked.own_cap)
    caps = {} if cap is None else _caps(body, cap, kind)
    if is_completion and (limits.n_cap is not None or limits.best_of_cap is not None):
        caps |= _counts(body, limits)
    changes |= caps
    told |= caps
    if limits.max_turns is not None and kind is RequestKind.CHAT:
        kept = degrading.last_turns(body)
        if kept:
            told["turns"] = limits.max_turns
            changes |= kept
    # Made of the same last turns.
    if is_completion and asked.compressed and limits.compress_ratio is not None:
        told["compressed"] = limits.compress_ratio
        changes |= asked.compressed
    if limits.thinking_off and kind is RequestKind.CHAT:
        thinking = _without_thinking(body)
        if thinking:
            told["thinking"] = "off"
            changes |= thinking
    return changes


def _divert(
    body: dict[str, Any],
    degrading: Degrading,
    asked: Asked,
    changes: dict[str, Any],
    told: dict[str, Any],
) -> None:
    """Have who is good at this class of work answer. That degrades nothing, and is not told."""
    chosen = changes.get("model") or body["model"]
    better = degrading.diverted.get((chosen, asked.work_class))
    if better is None:
        return
    if better.serves == body["model"]:  # the level would have had the weaker one answer
        del changes["model"], told["model"]
    elif _is_for(better, body, asked):
        changes["model"] = better.serves
        told.pop("model", None)


def _is_for(substitute: Substitute, body: dict[str, Any], asked: Asked) -> bool:
    answer = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    return substitute.answers(
        body,
        work_class=asked.work_class,
        # Its name for the conversation costs a look into the messages: only where it counts.
        conversation=(asked.session or conversation_of(body)) if substitute.is_partial else "",
        tokens=asked.prompt_tokens + int(answer),
    )


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _caps(body: dict[str, Any], cap: int, kind: RequestKind) -> dict[str, Any]:
    if kind is RequestKind.OTHER:
        return {}
    if kind is RequestKind.RESPONSES:
        asked = body.get("max_output_tokens")
        return {"max_output_tokens": cap} if asked is None or asked > cap else {}
    changes: dict[str, Any] = {}
    told, newer = body.get("max_tokens"), body.get("max_completion_tokens")
    if told is not None and told > cap:
        changes["max_tokens"] = cap
    if newer is not None and newer > cap:
        changes["max_completion_tokens"] = cap
    # Unset means as long as the context allows for chat, 16 for text.
    is_unset = told is None and newer is None
    if is_unset and (kind is RequestKind.CHAT or cap < _TEXT_DEFAULT_MAX_TOKENS):
        changes["max_tokens"] = cap
    floor = body.get("min_tokens")
    if floor is not None and floor > cap:
        changes["min_tokens"] = cap  # a floor over the cap would be a 400 of our making
    return changes


def _counts(body: dict[str, Any], limits: Limits) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    answers = body.get("n") or 1
    if limits.n_cap is not None and answers > limits.n_cap:
        changes["n"] = answers = limits.n_cap
    tries = body.get("best_of")
    # Fewer tries than answers would be a 400 of our making.
    if limits.best_of_cap is not None and tries is not None:
        most = max(limits.best_of_cap, answers)
        if tries > most:
            changes["best_of"] = most
    return changes


def _without_thinking(body: dict[str, Any]) -> dict[str, Any]:
    """Return the changes that keep a chat from thinking, as vLLM 0.32 takes them.

    `enable_thinking` in `chat_template_kwargs` goes before what vLLM makes of
    `reasoning_effort`; templates without it leave it out; DeepSeek's call it `thinking`. Some
    models (gpt-oss) know no "none", so that an effort asked for is lowered, not taken away.
    """
    changes: dict[str, Any] = {}
    given = body.get("chat_template_kwargs")
    options: dict[str, Any] = given if isinstance(given, dict) else {}
    off = {"enable_thinking": False} | ({"thinking": False} if "thinking" in options else {})
    if options | off != options:
        changes["chat_template_kwargs"] = options | off
    if body.get("reasoning_effort") in _HIGH_EFFORTS:
        changes["reasoning_effort"] = _LOW_EFFORT
    return changes
