"""A class of work that a profile is no longer to answer: whose, whither, by which names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ds4watch.model.worker import WorkerPhase, WorkerView
from ds4watch.policy.standing import Standing

_LABELS = ("profile", "reference", "class")


@dataclass(frozen=True, slots=True)
class Diverting:
    """What an alert's labels ask for. models: names of the profile; serves: the reference's."""

    profile: str
    reference: str
    work_class: str
    models: tuple[str, ...] = ()
    serves: str = ""

    @property
    def target(self) -> str:
        """What the action is known by; empty if the labels do not say."""
        is_whole = self.profile and self.reference and self.work_class
        return f"{self.profile}:{self.work_class}" if is_whole else ""

    def parameters(self) -> dict[str, Any]:
        """Return what the handler goes by."""
        return {"models": list(self.models), "work_class": self.work_class, "serves": self.serves}


def diverting_of(labels: Mapping[str, str], standing: Standing) -> Diverting:
    """Return what the labels ask for, with the names that the models have now.

    A name that both answer to says nothing of who answers: it is left out.
    """
    profile, reference, work_class = (labels.get(it, "") for it in _LABELS)
    own = {name for it in _of(profile, standing) for name in it.models}
    other = {
        name
        for it in _of(reference, standing)
        if it.phase is WorkerPhase.READY and it.id not in standing.excluded
        for name in it.models
    }
    models = tuple(sorted(own - other))
    return Diverting(profile, reference, work_class, models, min(other - own, default=""))


def why_not(it: Diverting, standing: Standing) -> str:
    """Return why it cannot be diverted now; empty if it can."""
    if not it.serves:
        return f"no ready worker of {it.reference} serves a model that {it.profile} does not"
    if not it.models:
        return f"{it.profile} answers to no name of its own"
    if standing.diverted.issuperset((name, it.work_class) for name in it.models):
        return "it is diverted already"
    return ""


def _of(profile: str, standing: Standing) -> Iterator[WorkerView]:
    return (it for it in standing.workers if it.profile == profile)
