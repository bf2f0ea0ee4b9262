"""A class of work that a model is not good at: who answers, whatever the level."""

from __future__ import annotations

from typing import Any

import pytest

from ds4watch.model.limits import Limits, Substitution
from ds4watch.model.service_policy import Diversion, ServicePolicy
from ds4watch.model.worker import FleetSnapshot, WorkerPhase, WorkerView
from ds4watch.shaping.request import Asked, RequestKind, degrading_of, shape

LEVEL = Limits(substitutions=(Substitution("big", "small"),))
FLEET = FleetSnapshot(
    0.0,
    tuple(
        WorkerView(name, name, (name,), "http://x", WorkerPhase.READY, 0.0, max_model_len=4096)
        for name in ("big", "small")
    ),
)


def shaped(asked: str, work_class: str, served: set[str], limits: Limits = LEVEL) -> Any:
    policy = ServicePolicy(1, limits=limits, diversions=(Diversion("small", "math", "big"),))
    degrading = degrading_of(policy, FLEET, served)
    body = {"model": asked, "messages": [{"role": "user", "content": "1 + 1"}]}
    return shape(body, degrading, RequestKind.CHAT, Asked(work_class=work_class))


@pytest.mark.parametrize(
    ("asked", "work_class", "limits", "answers", "is_told"),
    [
        ("small", "math", Limits(), "big", False),
        ("small", "chat", Limits(), "small", False),
        ("small", "", Limits(), "small", False),
        ("big", "math", LEVEL, "big", False),
        ("big", "chat", LEVEL, "small", True),
        ("small", "math", LEVEL, "big", False),
    ],
)
def test_another_answers_only_the_class_that_a_model_is_not_good_at(
    asked: str, work_class: str, limits: Limits, answers: str, is_told: bool
) -> None:
    found = shaped(asked, work_class, {"big", "small"}, limits)
    assert (found.model, bool(found.degraded)) == (answers, is_told)
    assert found.body["model"] == answers


def test_while_nobody_serves_the_other_the_model_answers_itself() -> None:
    assert shaped("small", "math", {"small"}, Limits()).model == "small"


def test_what_means_something_to_one_model_only_stays_with_it() -> None:
    policy = ServicePolicy(1, diversions=(Diversion("small", "math", "big"),))
    degrading = degrading_of(policy, FLEET, {"big", "small"})
    body = {"model": "small", "prompt": [1, 2, 3]}
    found = shape(body, degrading, RequestKind.TEXT, Asked(work_class="math"))
    assert found.model == "small"
