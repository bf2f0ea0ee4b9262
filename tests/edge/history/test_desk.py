"""Silences, commands and answers in the store; lists page by page."""

from __future__ import annotations

from dataclasses import replace

from ds4watch.history.asked_values import CommandStatus, GivenAnswer
from ds4watch.history.command_rows import ANSWER_LIFE_SECONDS
from ds4watch.history.quality_values import QualityRun
from ds4watch.history.rows import ActionFilter, AuditEntry, AuditKind, TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.action import Hold
from ds4watch.model.silence import LabelTest, Silence
from tests.edge.history.helpers import NOW, Base
from tests.edge.history.state_facts import PLAN, opened

SILENCE = Silence(
    id="0b8e6b6e-4b0e-4c8e-9a55-2f6c1d7e8b90",
    matchers=(LabelTest("alertname", "=", 'a "b"'), LabelTest("worker", "=~", "x|y")),
    starts_at=NOW,
    ends_at=NOW + 60,
    who="ann",
    why="load test",
    placed_at=NOW,
)
GIVEN = GivenAnswer("operator:ann", "k", "ab" * 32, NOW, 202, "application/json", '{"a": 1}')


async def test_a_silence_outlives_the_daemon_and_is_audited_both_ways(
    store: StateStore, base: Base
) -> None:
    await store.desk.place_silence(SILENCE)
    await store.close()
    again = opened(base)
    assert await again.desk.silences(NOW + 59) == (SILENCE,)
    assert await again.desk.silences(NOW + 60) == ()
    assert await again.desk.silence(SILENCE.id) == SILENCE
    ended = await again.desk.expire_silence(SILENCE.id, who="bob", at=NOW + 5)
    assert ended == replace(SILENCE, ends_at=NOW + 5, ended_by="bob")
    assert await again.desk.expire_silence(SILENCE.id, who="bob", at=NOW + 6) is None
    assert await again.desk.ended_silences(NOW + 6, 10) == (ended,)
    told = [(it.who, it.summary) for it in await again.audit(10, kind=AuditKind.SILENCE)]
    what = 'alertname="a \\"b\\"", worker=~"x|y"'
    assert told == [
        ("bob", f"silence on {what} ended by bob"),
        ("ann", f"silence on {what} by ann: load test"),
    ]
    await again.close()


async def test_a_command_waits_until_somebody_says_what_came_of_it(store: StateStore) -> None:
    body = {"action": "a:1", "why": "over"}
    first = await store.desk.ask(kind="undo", body=body, who="ann", at=NOW)
    second = await store.desk.ask(kind="act", body={"name": "x"}, who="ann", at=NOW)
    assert await store.desk.waiting_commands() == [first, second]
    done = CommandStatus.DONE
    assert await store.desk.finish_command(first.id, done, "level 0", at=NOW + 1)
    refused = CommandStatus.REFUSED
    assert not await store.desk.finish_command(first.id, refused, "again", at=NOW + 2)
    told = await store.desk.command(first.id)
    assert told == replace(first, status=done, told="level 0", finished_at=NOW + 1)
    assert await store.desk.waiting_commands() == [second]
    (entry,) = [it for it in await store.audit(10) if it.subject == "a:1"]
    assert (entry.who, entry.summary) == ("ann", "ann asks for undo on a:1: over")


async def test_answers_are_kept_for_a_day_by_who_and_key(store: StateStore) -> None:
    await store.desk.keep_answer(GIVEN)
    assert await store.desk.given_answer("operator:ann", "k", NOW + 1) == GIVEN
    assert await store.desk.given_answer("admin:bob", "k", NOW + 1) is None
    late = NOW + ANSWER_LIFE_SECONDS
    assert await store.desk.given_answer("operator:ann", "k", late) is None
    await store.desk.keep_answer(replace(GIVEN, key="l", at=late))
    assert await store.desk.given_answer("operator:ann", "k", NOW + 1) is None


async def test_actions_come_newest_first_from_where_the_last_page_ended(store: StateStore) -> None:
    plans = [replace(PLAN, id=f"p{it}", planned_at=NOW + it // 2) for it in range(5)]
    await store.commit_tick(TickCommit(at=NOW, plans=tuple(plans)))
    seen: list[str] = []
    wanted = ActionFilter(target="pool", status="planned")
    while page := await store.desk.actions(2, wanted):
        seen += [it.plan.id for it in page]
        last = page[-1].plan
        wanted = replace(wanted, before=(last.planned_at, last.id))
    assert seen == ["p4", "p3", "p2", "p1", "p0"]
    assert await store.desk.actions(2, ActionFilter(kind="other")) == []
    found = await store.desk.action("p3")
    assert found is not None
    assert found.plan == plans[3]
    assert await store.desk.action("p9") is None


async def test_quality_runs_come_newest_first_with_their_ids(store: StateStore) -> None:
    for it in range(3):
        run = QualityRun(NOW, "q" if it else "other", "full", "kl", 0.5, 8, 64, 1.0)
        await store.quality.add_quality(run)
    assert [number for number, _ in await store.desk.quality_runs(2, None, None)] == [3, 2]
    assert [number for number, _ in await store.desk.quality_runs(9, 3, "q")] == [2]


async def test_the_audit_is_read_onwards_from_an_id(store: StateStore) -> None:
    assert await store.desk.newest_audit_id() == 0
    for it in range(3):
        await store.add_audit(AuditEntry(NOW, AuditKind.DAEMON, "daemon", str(it)))
    newest = await store.desk.newest_audit_id()
    assert [it.summary for it in await store.desk.audit_after(newest - 2, 10)] == ["1", "2"]
    assert [it.summary for it in await store.desk.audit_after(newest - 2, 1)] == ["1"]


async def test_a_later_hold_takes_the_place_of_the_one_before(store: StateStore) -> None:
    await store.place_hold(Hold("pool", NOW + 60, "ann", "a", NOW))
    shorter = Hold("pool", NOW + 9, "bob", "b", NOW + 1)
    await store.place_hold(shorter)
    assert await store.holds(NOW + 2) == (shorter,)
