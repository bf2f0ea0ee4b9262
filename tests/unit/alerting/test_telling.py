"""Who is told what: each firing once, unless a higher tier fires, and each end of what was told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from ds4watch.alerting.telling import STILL_FIRES, outranked, tell
from ds4watch.model.alert import AlertPhase, AlertState, Transition
from ds4watch.model.series import labels_of

F, R, P = AlertPhase.FIRING, AlertPhase.RESOLVED, AlertPhase.PENDING


def alert(tier: str, phase: AlertPhase = F, **labels: str) -> AlertState:
    own = labels_of({"alertname": "Busy", "severity": tier, **labels})
    return AlertState(f"rule-{tier}", own, phase, 0.0, 1.0)


def change(state: AlertState, old: AlertPhase, at: float) -> Transition:
    return Transition(state.fingerprint, state.labels, old, state.phase, at, state.value, "why")


@dataclass
class People:
    """Alerts as they stand, and what people were told, in order."""

    alerts: tuple[AlertState, ...] = ()
    now: float = 0.0

    def see(self, *alerts: AlertState) -> list[tuple[str, str]]:
        """Go on to `alerts`; return the (tier, phase) that are told of."""
        self.now += 1
        sent = {it.labels: it.last_sent_at for it in self.alerts}
        old = {it.labels: it.phase for it in self.alerts}
        # A firing that is not the one before it was told of by nobody.
        after = tuple(
            replace(it, last_sent_at=sent.get(it.labels) if old.get(it.labels) is F else None)
            for it in alerts
        )
        changes = [
            change(it, old.get(it.labels, AlertPhase.INACTIVE), self.now)
            for it in after
            if old.get(it.labels) is not it.phase
        ]
        telling = tell(self.alerts, after, changes, self.now)
        self.alerts = telling.alerts
        self.last: Sequence[Transition] = telling.messages
        return [(dict(it.labels)["severity"], it.new.value) for it in telling.messages]


def test_a_firing_is_told_once_and_so_is_its_end() -> None:
    people = People()
    assert people.see(alert("warning", P)) == []
    assert people.see(alert("warning")) == [("warning", "firing")]
    assert people.see(alert("warning")) == []
    assert people.see(alert("warning", R)) == [("warning", "resolved")]
    assert people.see(alert("warning", R)) == []


def test_a_higher_tier_mutes_a_lower_one_until_it_is_over() -> None:
    people = People()
    assert people.see(alert("warning"), alert("critical")) == [("critical", "firing")]
    assert people.see(alert("warning"), alert("critical", R)) == [
        ("critical", "resolved"),
        ("warning", "firing"),
    ]
    assert people.last[-1].reason == STILL_FIRES
    assert people.see(alert("warning", R)) == [("warning", "resolved")]


def test_what_was_muted_all_the_time_ends_without_a_word() -> None:
    people = People()
    people.see(alert("warning"), alert("critical"))
    assert people.see(alert("warning", R), alert("critical")) == []


def test_what_was_told_before_a_higher_tier_came_ends_with_a_word() -> None:
    people = People()
    people.see(alert("warning"))
    assert people.see(alert("warning"), alert("critical")) == [("critical", "firing")]
    assert people.see(alert("warning", R), alert("critical")) == [("warning", "resolved")]


def test_only_equal_labels_mute() -> None:
    both = (alert("warning", worker="w1"), alert("critical", worker="w2"))
    assert People().see(*both) == [("warning", "firing"), ("critical", "firing")]
    assert outranked(both) == frozenset()


def test_what_a_restart_brought_back_or_is_held_is_not_told_before_it_is_seen() -> None:
    firing = alert("warning")
    for unsure in (replace(firing, confirmed=False), replace(firing, held=True)):
        people = People()
        assert people.see(unsure) == []
        assert people.see(firing) == [("warning", "firing")]


TIERS = ("info", "warning", "critical")
STEPS = st.lists(st.fixed_dictionaries(dict.fromkeys(TIERS, st.booleans())), max_size=15)


@given(STEPS)
def test_what_people_know_to_fire_is_the_highest_tier_and_what_was_told_before(
    rounds: list[dict[str, bool]],
) -> None:
    people, known, fired = People(), set[str](), set[str]()
    for holds in rounds:
        fired |= {tier for tier in TIERS if holds[tier]}
        alerts = [alert(tier, F if holds[tier] else R) for tier in TIERS if tier in fired]
        for tier, phase in people.see(*alerts):
            assert (tier in known) is (phase == "resolved")
            known ^= {tier}
        firing = [tier for tier in TIERS if holds[tier]]
        assert known <= set(firing)
        assert set(firing[-1:]) <= known
