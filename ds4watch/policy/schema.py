"""What stands in a policy file, key by key; docs/policy.md is made from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

from pydantic import BeforeValidator, Field, create_model

from ds4watch.config.section import Section
from ds4watch.model.action import ActionKind
from ds4watch.model.limits import LEVERS, Limits, Substitution

ModelName = Annotated[str, Field(min_length=1, max_length=256)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")]
ANY = "*"
NORMAL = "normal"
"""Level 0 has this name, in every ladder."""


class Substitute(Section):
    """A substitution in full: which model, for how much of the traffic, for which classes."""

    model: ModelName
    share: float = Field(1.0, gt=0, le=1)
    classes: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = ()
    shares: dict[ModelName, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)


def _in_full(value: object) -> object:
    if isinstance(value, str):
        return {"model": value}
    # Beyond this step the values are no longer JSON's, and a strict tuple is no list.
    if isinstance(value, dict) and isinstance(value.get("classes"), list):
        return value | {"classes": tuple(value["classes"])}
    return value


_OTHER_FORMS: Mapping[str, Any] = {
    "substitutions": dict[ModelName, Annotated[Substitute, BeforeValidator(_in_full)]],
}
"""Levers that are written otherwise in the file than `Limits` holds them."""


def _keys() -> Iterator[tuple[str, tuple[Any, Any]]]:
    types = get_type_hints(Limits)
    for item in fields(Limits):
        lever = LEVERS[item.name]
        default = {} if item.name in _OTHER_FORMS else item.default
        key = Field(default, ge=lever.low, le=lever.high, description=lever.meaning)
        yield item.name, (_OTHER_FORMS.get(item.name, types[item.name]), key)


_Levers = create_model("_Levers", __base__=Section, **dict(_keys()))  # type: ignore[call-overload]


class Level(_Levers, Section):  # made from the table of levers
    """One rung of a ladder: a name and what the gateway is to do on it."""

    name: Name = Field(
        description="Small letters, digits and dashes; shown in the status and the audit."
    )

    def limits(self) -> Limits:
        """Return the gateway's limits on this level."""
        values = {name: getattr(self, name) for name in LEVERS}
        values["substitutions"] = tuple(
            Substitution(asked, it.model, it.share, it.classes, tuple(sorted(it.shares.items())))
            for asked, it in sorted(values["substitutions"].items())
        )
        return Limits(**values)


class Pool(Section):
    """Workers that are looked at together: which, how many are acted on at once, their ladder."""

    profiles: tuple[str, ...] = Field(
        (), description="Profiles whose workers are its own; all, if none is named."
    )
    ladder: tuple[Level, ...] = Field(
        (),
        min_length=1,
        max_length=9,
        description="Levels from 1 up, at most 9. Level 0 is normal service and is not written "
        "down. The models of the pool's profiles go by it; without one, by that of `default`.",
    )
    settle_seconds: float = Field(
        10.0, ge=0, description="Time on a level before the next one up, and before it is checked."
    )
    clear_hold_seconds: float = Field(
        10.0, ge=0, description="Calm on a level before the next one down."
    )
    max_in_flight: int = Field(
        1,
        ge=1,
        le=64,
        description="Actions on workers that are under way, wait for approval, or have not shown "
        "their effect yet.",
    )
    shared_cause_ratio: float = Field(
        0.5,
        gt=0,
        le=1,
        description="If the alert of an action fires for a greater share of the pool's workers "
        "(and for more than one), none of them is acted on, and a person is told.",
    )


class Approval(Section):
    """Who has to say yes."""

    by: tuple[Annotated[str, Field(min_length=1, max_length=255)], ...] = Field(
        min_length=1, description="Names of those who may approve; * for everybody."
    )
    expires_seconds: float = Field(
        900.0, gt=0, le=86_400, description="After so long without an answer it is a no."
    )


class Verify(Section):
    """How it is told whether an action worked: the alert is over or better, in time."""

    within_seconds: float = Field(
        300.0,
        gt=0,
        le=86_400,
        description="By then the worker has to be what the action makes it, and the signal better.",
    )
    signal: str = Field(
        "",
        pattern=r"^([a-zA-Z_:][a-zA-Z0-9_:]*)?$",
        description="Series of the worker that has to improve; the alert itself, if not given.",
    )
    better: str = Field(
        "lower", pattern=r"^(lower|higher)$", description="Which way the signal improves."
    )
    otherwise: str = Field(
        "escalate",
        pattern=r"^(escalate|undo)$",
        description="What follows if it did not: `escalate` tells a person, `undo` takes it back "
        "and tells.",
    )


class Action(Section):
    """Something that can be done to a worker, and what guards it."""

    kind: ActionKind = Field(description="What is done: see actions.md.")
    cooldown_seconds: float = Field(
        1800.0, ge=0, description="Between two on the same worker, whatever became of the first."
    )
    action_cooldown_seconds: float = Field(
        60.0, ge=0, description="Between two of this action, on any workers."
    )
    dry_run: bool = Field(
        default=False, description="Decide it, do nothing: the audit says `would do`."
    )
    approval: Approval | None = Field(None, description="Who has to say yes before it is done.")
    verify: Verify = Field(Verify(), description="How it is told whether it worked.")
    undo_after_seconds: float = Field(
        60.0,
        ge=0,
        description="It is taken back once the alert has been over for so long, if what it set is "
        "still there. Not by itself after a restart, nor if a person asked for it.",
    )


Matcher = Annotated[str, Field(min_length=1, max_length=200)]


def _is_regex(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        message = f"must be a regular expression: {error}"
        raise ValueError(message) from error
    return value


Regex = Annotated[Matcher, BeforeValidator(_is_regex)]


class Binding(Section):
    """An alert whose labels match asks for a level of a pool, or for an action on a worker."""

    match: dict[str, Matcher] = Field(
        {},
        description="Labels that an alert must have, all of them, each with just this value.",
    )
    match_re: dict[str, Regex] = Field(
        {}, description="The same with regular expressions, for the whole of the value."
    )
    pool: str = Field("default", description="The pool that is meant.")
    level: int | None = Field(None, ge=1, description="The level asked for.")
    jump: bool = Field(
        default=False,
        description="Go to that level at once, not one at a time; for critical alerts only.",
    )
    action: Name | None = Field(None, description="Name of the action, in `actions`.")
    target: str = Field(
        "worker",
        min_length=1,
        max_length=100,
        description="The alert's label that names the worker; without it nothing is done. For "
        "`wake_worker` `*` leaves the choice open.",
    )


class PolicyFile(Section):
    """The whole file."""

    dry_run: bool = Field(
        default=False, description="Decide all, do nothing: the audit says `would do`."
    )
    pools: dict[str, Pool] = Field(default_factory=dict)
    actions: dict[Name, Action] = Field(default_factory=dict)
    bindings: tuple[Binding, ...] = ()


def labels_match(binding: Binding, labels: Mapping[str, str]) -> bool:
    """Return whether labels have all that a binding asks of them."""
    return all(labels.get(name) == value for name, value in binding.match.items()) and all(
        name in labels and re.fullmatch(pattern, labels[name])
        for name, pattern in binding.match_re.items()
    )


def may_match(binding: Binding, labels: Mapping[str, str]) -> bool:
    """Return whether a rule's own labels leave it open that its alerts match."""
    return all(labels.get(name, value) == value for name, value in binding.match.items()) and all(
        name not in labels or re.fullmatch(pattern, labels[name])
        for name, pattern in binding.match_re.items()
    )
