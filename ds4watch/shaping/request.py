"""The request as the worker gets it: capped, substituted, asked for its usage."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ds4watch.model.service_policy import Limits, ServicePolicy
from ds4watch.shaping.turns import last_turns

_TEXT_DEFAULT_MAX_TOKENS = 16
"""What /v1/completions generates if not told; a cap above it must not raise it."""


class RequestKind(StrEnum):
    """What is asked of a model: a completion in one of three shapes, or something else."""

    CHAT = "chat"
    TEXT = "text"
    RESPONSES = "responses"
    OTHER = "other"
    """Nothing is generated: embeddings, scores, tokens."""


@dataclass(frozen=True, slots=True)
class Shaped:
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
    client_wants_usage: bool
    client_wants_continuous_usage: bool

    @property
    def model(self) -> str:
        """The model that serves."""
        return str(self.body["model"])


def shape(
    body: dict[str, Any],
    policy: ServicePolicy,
    kind: RequestKind,
    *,
    served: Container[str] | None = None,
) -> Shaped:
    """Return the body for the worker under `policy`; unknown fields pass as they are.

    `body` has passed `access.request_check` and is not edited. A substitute that is
    not among the models `served` (None: any) is not used: an answer beats a cheap silence.
    """
    changes = _substitution(body["model"], policy.limits, served)
    changes |= _caps(body, policy.limits.max_tokens_cap, kind)
    degraded = tuple(f"{name}={value}" for name, value in changes.items())
    if policy.limits.max_turns is not None and kind is RequestKind.CHAT:
        messages = last_turns(body["messages"], policy.limits.max_turns)
        if messages is not body["messages"]:
            changes["messages"] = messages
            degraded += (f"turns={policy.limits.max_turns}",)
    stream = bool(body.get("stream"))
    options: dict[str, Any] = body.get("stream_options") or {}
    if stream and kind in (RequestKind.CHAT, RequestKind.TEXT):
        wanted = options | {"include_usage": True, "continuous_usage_stats": True}
        if wanted != options:
            changes["stream_options"] = wanted
    return Shaped(
        body=body | changes if changes else body,
        changed=bool(changes),
        degraded=(f"level={policy.level}", *degraded) if degraded else (),
        stream=stream,
        kind=kind,
        client_wants_usage=bool(options.get("include_usage")),
        client_wants_continuous_usage=bool(
            # vLLM heeds the second only with the first.
            options.get("include_usage") and options.get("continuous_usage_stats")
        ),
    )


def _substitution(model: str, limits: Limits, served: Container[str] | None) -> dict[str, Any]:
    for asked, serves in limits.substitutions:
        if asked == model and serves != model and (served is None or serves in served):
            return {"model": serves}
    return {}


def _caps(body: dict[str, Any], cap: int | None, kind: RequestKind) -> dict[str, Any]:
    if cap is None or kind is RequestKind.OTHER:
        return {}
    if kind is RequestKind.RESPONSES:
        asked = body.get("max_output_tokens")
        return {"max_output_tokens": cap} if asked is None or asked > cap else {}
    changes: dict[str, Any] = {}
    for field in ("max_tokens", "max_completion_tokens"):
        asked = body.get(field)
        if asked is not None and asked > cap:
            changes[field] = cap
    unset = body.get("max_tokens") is None and body.get("max_completion_tokens") is None
    # Unset means as long as the context allows for chat, 16 for text.
    if unset and (kind is RequestKind.CHAT or cap < _TEXT_DEFAULT_MAX_TOKENS):
        changes["max_tokens"] = cap
    floor = body.get("min_tokens")
    if floor is not None and floor > cap:
        changes["min_tokens"] = cap  # a floor over the cap would be a 400 of our making
    return changes
