"""Which model answers in place of another: for whom, for how many, and only if it is able to."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from ds4watch.model.limits import Substitution
from ds4watch.model.service_policy import Diversion
from ds4watch.model.worker import Ability, FleetSnapshot, WorkerPhase, WorkerView

_SURE_CONTEXT_TOKENS = 2048
"""What any model has room for, if nobody says how much it has."""
_TOOL_FIELDS = frozenset({"tools", "functions"})
_FORM_FIELDS = frozenset(
    {
        "response_format",
        "structured_outputs",
        *("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    }
)
_SHARE_STEPS = 1 << 32


@dataclass(frozen=True, slots=True)
class Substitute:
    """A substitution with what is known of the model that is to serve."""

    serves: str
    rule: Substitution
    context_tokens: int
    abilities: frozenset[Ability]

    @property
    def is_partial(self) -> bool:
        """Whether it depends on the conversation who gets it."""
        return self.rule.share < 1 or bool(self.rule.shares)

    def answers(
        self, body: Mapping[str, Any], *, work_class: str, conversation: str, tokens: int
    ) -> bool:
        """Return whether this request gets it.

        tokens: estimate of its prompt and answer. One conversation is always on the same side
        of the share of its class, and stays substituted when the share grows.
        """
        share = self.rule.share_of(work_class)
        return (
            share > 0
            and (share >= 1 or place_of(conversation) < share)
            and tokens <= self.context_tokens
            and needs_of(body) <= self.abilities
            and not _is_bound_to_its_model(body)
        )


def place_of(conversation: str) -> float:
    """Return where a conversation stands in [0, 1): the same place for the same one, always."""
    return zlib.crc32(conversation.encode("utf-8", "surrogatepass")) / _SHARE_STEPS


def substitutes_of(
    substitutions: tuple[Substitution, ...],
    fleet: FleetSnapshot,
    *,
    served: Collection[str],
) -> dict[str, Substitute]:
    """Return the substitutes by model asked for; one that nobody serves now is left out."""
    return {
        it.asked: _known(it, fleet)
        for it in substitutions
        if it.serves in served and it.serves != it.asked
    }


def diverted_of(
    diversions: tuple[Diversion, ...],
    fleet: FleetSnapshot,
    *,
    served: Collection[str],
) -> dict[tuple[str, str], Substitute]:
    """Return who answers in place of a model, by it and the class of work; if it is served now."""
    return {
        (it.model, it.work_class): _known(Substitution(it.model, it.serves), fleet)
        for it in diversions
        if it.serves in served and it.serves != it.model
    }


def needs_of(body: Mapping[str, Any]) -> frozenset[Ability]:
    """Return what a model has to be able to do for this request, beside answering."""
    found = set()
    if any(body.get(name) for name in _TOOL_FIELDS & body.keys()):
        found.add(Ability.TOOLS)
    if any(body.get(name) not in (None, _PLAIN_TEXT) for name in _FORM_FIELDS & body.keys()):
        found.add(Ability.STRUCTURED)
    messages = body.get("messages")
    if isinstance(messages, list) and any(_has_media(it) for it in messages):
        found.add(Ability.MEDIA)
    return frozenset(found)


_PLAIN_TEXT = {"type": "text"}


def conversation_of(body: Mapping[str, Any]) -> str:
    """Return what a conversation is known by if its client names none: `user`, or how it began."""
    user = body.get("user")
    if isinstance(user, str) and user:
        return user
    messages = body.get("messages")
    if isinstance(messages, list):
        # System prompt and first question: all later turns begin with them.
        return "\n".join(_text_of(it) for it in messages[:2])
    prompt = body.get("prompt")
    return prompt[:512] if isinstance(prompt, str) else str(prompt)[:512]


def _text_of(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else message
    return content[:512] if isinstance(content, str) else str(content)[:512]


def _has_media(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(part, dict) and part.get("type", "text") not in {"text", "refusal"}
        for part in content
    )


def _is_bound_to_its_model(body: Mapping[str, Any]) -> bool:
    """Return whether a prompt means something to one model only: embeddings, or token ids."""
    prompt = body.get("prompt")
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], str):
        return True
    return body.get("prompt_embeds") is not None


def _known(substitution: Substitution, fleet: FleetSnapshot) -> Substitute:
    workers = tuple(
        it
        for it in fleet.workers
        if it.phase is WorkerPhase.READY and substitution.serves in it.models
    )
    return Substitute(
        serves=substitution.serves,
        rule=substitution,
        context_tokens=min(map(_context, workers), default=_SURE_CONTEXT_TOKENS),
        abilities=_shared(workers),
    )


def _context(worker: WorkerView) -> int:
    return worker.max_model_len or _SURE_CONTEXT_TOKENS


def _shared(workers: tuple[WorkerView, ...]) -> frozenset[Ability]:
    """Return what all of them can do; a profile that says nothing is not relied upon."""
    sets = [frozenset(worker.abilities) for worker in workers]
    return frozenset.intersection(*sets) if sets else frozenset()
