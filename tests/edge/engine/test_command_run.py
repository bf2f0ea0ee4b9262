"""Commands by which a person steers: rows, carried out in order, each with its outcome."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ds4watch.engine.command_run import CommandRun
from ds4watch.engine.parts import Known
from ds4watch.engine.silence_desk import SilenceDesk
from ds4watch.history.asked_values import Command, CommandStatus
from ds4watch.history.rows import AuditKind
from ds4watch.history.state import StateStore
from ds4watch.model.errors import EdgeReason, RefusedError, WorkerError
from tests.edge.history.helpers import NOW, FixedClock

CLOCK = FixedClock()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[StateStore]:
    opened = StateStore.open(tmp_path / "state.db", CLOCK)
    yield opened
    await opened.close()


async def outcome(store: StateStore, run: CommandRun, kind: str, **body: object) -> Command:
    command = await store.desk.ask(kind=kind, body=body, who="ann", at=NOW)
    await run.carry_out()
    found = await store.desk.command(command.id)
    assert found is not None
    return found


async def test_a_row_silences_and_another_ends_it(store: StateStore) -> None:
    known, woken = Known(), list[int]()
    silences = SilenceDesk(store.desk, known, CLOCK)
    run = CommandRun(store, silences, wake=lambda: woken.append(1), clock=CLOCK)
    placed = await outcome(
        store, run, "silence", matchers=["alertname=Busy"], until=NOW + 60, why="x"
    )
    assert placed.status is CommandStatus.DONE
    assert [(it.who, it.ends_at) for it in known.silences] == [("ann", NOW + 60)]
    (silence,) = known.silences
    assert placed.told == f"silence {silence.id}"
    ended = await outcome(store, run, "unsilence", silence=silence.id)
    assert (ended.status, known.silences) == (CommandStatus.DONE, ())
    again = await outcome(store, run, "unsilence", silence=silence.id)
    assert again.status is CommandStatus.REFUSED
    assert len(woken) == 3


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ("fly", {}, "nothing here carries out fly"),
        ("silence", {"matchers": ["a=b"]}, "the command is malformed"),
        ("silence", {"matchers": ["nonsense"], "until": NOW + 5}, "a matcher is written as"),
        ("silence", {"matchers": ["a=b"], "until": NOW - 5}, "would end before it begins"),
        ("silence", {"matchers": ["a=b"], "until": NOW + 1e9}, "must be within 365 days"),
        ("no", {}, "not today"),
        ("away", {}, "it does not answer"),
    ],
)
async def test_what_cannot_be_carried_out_is_refused_and_audited(
    store: StateStore, kind: str, body: dict[str, object], told: str
) -> None:
    async def refuse(command: Command) -> str:
        del command
        message = "not today"
        raise RefusedError(message)

    async def fail(command: Command) -> str:
        del command
        message = "it does not answer"
        raise WorkerError(message, reason=EdgeReason.TIMEOUT, retryable=True)

    silences = SilenceDesk(store.desk, Known(), CLOCK)
    carry = {"no": refuse, "away": fail}
    run = CommandRun(store, silences, wake=lambda: None, clock=CLOCK, carry=carry)
    found = await outcome(store, run, kind, **body)
    assert found.status is CommandStatus.REFUSED
    assert told in found.told
    last = (await store.audit(1, kind=AuditKind.COMMAND))[0]
    assert (last.who, last.detail["status"]) == ("ann", "refused")
    assert await store.desk.waiting_commands() == []
