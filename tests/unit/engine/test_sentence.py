from __future__ import annotations

from ds4watch.engine.effects import sentence
from ds4watch.engine.rulebook import Round
from ds4watch.model.alert import AlertPhase, Transition


def fired(name: str, worker: str) -> Transition:
    labels = (("alertname", name), ("severity", "warning"), ("worker", worker))
    return Transition(worker, labels, AlertPhase.PENDING, AlertPhase.FIRING, 0.0, 1.0, "held 1m")


def test_many_alerts_of_one_kind_are_told_once() -> None:
    turn = Round((), tuple(fired("QueueLong", f"w{number}") for number in range(1000)))
    assert sentence(turn, [], []) == "1000 times QueueLong (warning) pending → firing: held 1m"


def test_a_storm_of_many_kinds_is_told_in_part() -> None:
    turn = Round((), tuple(fired(f"Rule{number}", "w") for number in range(300)))
    told = sentence(turn, [], [])
    assert told.endswith("and 290 changes more (see the audit)")
    assert len(told) < 1000
