"""Which alerts share a message, and when it is sent: Alertmanager's table and what differs."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.alerting.group_document import document_of, group_of
from ds4watch.alerting.group_view import GONE, without_gone
from ds4watch.alerting.grouping import (
    MAX_MEMBERS,
    OVERFLOW,
    Group,
    GroupSettings,
    News,
    Note,
    Told,
    Why,
    absorb,
    decide,
    due_at,
    is_over,
    ranked,
    told,
)
from ds4watch.model.series import labels_of

SETTINGS = GroupSettings(wait_seconds=30, interval_seconds=300, repeat_seconds=3600)


def news(
    fingerprint: str,
    at: float,
    *,
    firing: bool = True,
    name: str = "Queue",
    tier: str = "warning",
) -> News:
    labels = labels_of({"alertname": name, "severity": tier, "worker": fingerprint})
    return News(f"{fingerprint}@{at}", fingerprint, firing, at, "80.0", labels=labels)


def one(*items: News | Note) -> Group:
    (group,) = absorb({}, items, SETTINGS).values()
    return group


def after(group: Group, *items: News | Note) -> Group:
    return absorb({group.key: group}, items, SETTINGS)[group.key]


def sent(*items: News | Note, at: float = 30.0) -> Group:
    group = one(*items)
    return told(group, group, at)


FIRED = sent(news("a", 0))
BOTH = sent(news("a", 0), news("b", 0))


@pytest.mark.parametrize(
    ("group", "now", "why"),
    [
        pytest.param(one(news("a", 0)), 29.9, None, id="waits for others"),
        pytest.param(one(news("a", 0)), 30, Why.FIRST, id="the first"),
        pytest.param(FIRED, 3629, None, id="nothing new"),
        pytest.param(FIRED, 3630, Why.REPEAT, id="fires still"),
        pytest.param(after(FIRED, news("b", 40)), 329, None, id="waits for the interval"),
        pytest.param(after(FIRED, news("b", 40)), 330, Why.NEW, id="a new one"),
        pytest.param(after(FIRED, news("a", 40, firing=False)), 330, Why.OVER, id="all over"),
        pytest.param(after(BOTH, news("a", 40, firing=False)), 330, Why.RESOLVED, id="one is over"),
        pytest.param(
            after(FIRED, news("b", 40, tier="critical")), 70, Why.NEW, id="worse does not wait"
        ),
        pytest.param(
            after(FIRED, news("a", 40, firing=False), news("a", 50)), 330, None, id="and back again"
        ),
        pytest.param(
            one(news("a", 0), news("a", 9, firing=False)), 30, Why.FIRST, id="came and went"
        ),
        pytest.param(after(FIRED, Note("n", "action", 40, cause=("a",))), 40, Why.NOTE, id="note"),
    ],
)
def test_a_group_is_told_when(group: Group, now: float, why: Why | None) -> None:
    assert decide(group, now, SETTINGS) is why


def test_what_comes_while_a_message_is_sent_is_news_still() -> None:
    first = one(news("a", 0))
    meanwhile = after(first, news("a", 31, firing=False), news("b", 31))
    left = told(meanwhile, first, 32)
    assert [(it.news.fingerprint, it.told, it.is_news) for it in left.members] == [
        ("a", Told.FIRING, True),
        ("b", Told.NOTHING, True),
    ]
    assert decide(left, 332, SETTINGS) is Why.NEW


def test_an_alert_that_comes_back_goes_on_in_its_message() -> None:
    over = after(FIRED, news("a", 40, firing=False))
    left = told(over, over, 330)
    assert not left.members
    assert not is_over(left, 629, SETTINGS)
    assert is_over(left, 630, SETTINGS)
    back = after(left, news("a", 400))
    assert (back.sent, due_at(back, SETTINGS)) == (2, 430)


def test_a_storm_of_a_thousand_alerts_is_a_few_messages() -> None:
    storm = [news(f"w{number}", 0, name=f"Rule{number}") for number in range(1000)]
    groups = absorb({}, storm, SETTINGS)
    assert len(groups) == SETTINGS.max_groups + 1
    assert len(groups[OVERFLOW].members) == 1000 - SETTINGS.max_groups
    over = absorb(groups, [replace(it, firing=False, id="r", at=1.0) for it in storm], SETTINGS)
    assert not any(group.firing for group in over.values())


def test_the_watchdog_is_not_for_people() -> None:
    assert absorb({}, [news("a", 0, name="Watchdog", tier="none")], SETTINGS) == {}


def test_of_more_alerts_than_a_message_can_hold_the_rest_is_counted() -> None:
    group = one(*(news(str(number), 0) for number in range(MAX_MEMBERS + 7)))
    assert (len(group.members), group.more) == (MAX_MEMBERS, 7)


def test_an_alert_whose_rule_was_taken_away_is_not_repeated_for_ever() -> None:
    gone = without_gone(BOTH, {"b"}, 3630)
    assert decide(gone, 3630, SETTINGS) is Why.RESOLVED
    assert [it.news.reason for it in gone.members] == [GONE, ""]
    assert without_gone(BOTH, {"a", "b"}, 3630) is BOTH
    assert [it.news.fingerprint for it in told(BOTH, gone, 3630).members] == ["b"]


def test_what_fires_anew_though_its_end_was_told_to_nobody_is_news() -> None:
    again = after(FIRED, replace(news("a", 900), id="a900"))
    assert [(it.told, it.fired_at) for it in again.members] == [(Told.NOTHING, 900)]
    assert decide(again, 900, SETTINGS) is Why.NEW


def test_a_flapping_alert_is_told_no_oftener_than_the_interval_lets() -> None:
    """A value at 69.9 and 70.1 in turn, for an hour (netdata/netdata#945)."""
    groups: dict[str, Group] = {}
    messages = 0
    for at in range(0, 3600, 5):
        item = replace(news("a", at, firing=at % 10 == 0), id=f"a{at}")
        groups = absorb(groups, [item], SETTINGS)
        for key, group in groups.items():
            if decide(group, at, SETTINGS) is not None:
                messages += 1
                groups[key] = told(group, group, at)
    assert 2 <= messages <= 1 + 3600 / SETTINGS.interval_seconds


def test_a_note_without_alerts_is_a_message_of_its_own_and_at_once() -> None:
    groups = absorb({}, [Note("x", "report", 5), Note("y", "approval", 5, cause=("?",))], SETTINGS)
    assert [decide(it, 5, SETTINGS) for it in groups.values()] == [Why.NOTE, Why.NOTE]
    (group, _) = groups.values()
    assert is_over(told(group, group, 5), 305, SETTINGS)


def test_the_worst_is_listed_first_and_gives_its_tier() -> None:
    group = one(
        news("a", 0, tier="info"), news("b", 1, tier="critical"), news("c", 2, firing=False)
    )
    assert [it.news.fingerprint for it in ranked(group.members)] == ["b", "a", "c"]
    assert group.tier == "critical"


EVENTS = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.booleans(), st.floats(0, 400), st.booleans()),
    max_size=40,
)


@given(EVENTS)
def test_everything_is_told_in_the_end_and_survives_being_stored(
    events: list[tuple[str, bool, float, bool]],
) -> None:
    groups: dict[str, Group] = {}
    seen: dict[str, bool] = {}
    now, fired = 0.0, set()
    truth: dict[str, bool] = {}

    def tell_due() -> None:
        for key, group in list(groups.items()):
            if decide(group, now, SETTINGS) is not None:
                seen.update({it.news.fingerprint: it.news.firing for it in group.members})
                groups[key] = told(group, group, now)
            elif is_over(group, now, SETTINGS):
                del groups[key]

    for name, firing, later, look in events:
        now += later
        if firing or name in fired:
            truth[name] = firing
            fired |= {name} if firing else set()
            item = replace(news(name, now, firing=firing, name=f"Rule{name}"), id=f"{name}{now}")
            groups = absorb(groups, [item], replace(SETTINGS, max_groups=2))
        groups = {
            key: group_of(key, json.loads(json.dumps(document_of(it))))
            for key, it in groups.items()
        }
        if look:
            tell_due()
    now += 10_000
    tell_due()
    assert seen == truth
    assert all(it.firing for it in groups.values() if it.members)
