"""Keys outlive the daemon as digests; what they used is read from the ledger."""

from __future__ import annotations

from dataclasses import replace

from ds4watch.history.asked_values import StoredKey
from ds4watch.history.ledger_values import CostRow, SpoolBatch
from ds4watch.history.rows import AuditEntry, AuditKind, TickCommit
from ds4watch.history.state import StateStore
from ds4watch.model.key_budget import KeyBudget, KeyUse
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.usage import RequestOutcome, RequestRecord, Usage
from tests.edge.clock import SystemClock
from tests.edge.history.helpers import Bases

HOUR = 1_800_000_000.0
KEY = StoredKey(
    name="team-a",
    sha256="ab" * 32,
    signing="",
    limits=KeyLimits(requests_per_minute=60, models=("m",)),
    budget=KeyBudget(day=2**40),
    created_at=HOUR,
    expires_at=HOUR + 90.5,
)
ADDED = AuditEntry(HOUR, AuditKind.KEY, "team-a", "added", {"why": "new"}, who="ann")


def opened(bases: Bases) -> StateStore:
    return StateStore.open(bases.state.place, SystemClock(), answer_timeout_seconds=30.0)


async def test_a_key_is_read_as_it_was_written_with_its_audit_row(bases: Bases) -> None:
    store = opened(bases)
    await store.save_key(KEY, ADDED)
    gone = replace(KEY, revoked_at=HOUR + 5, old_sha256="cd" * 32, old_until_at=HOUR + 9)
    other = replace(KEY, name="signer", signing="ef" * 32, expires_at=None)
    await store.save_key(other, replace(ADDED, subject="signer"))
    await store.close()
    later = opened(bases)
    assert await later.keys() == [other, KEY]
    await later.save_key(gone, replace(ADDED, summary="revoked"))
    assert await later.keys() == [other, gone]
    told = [(it.kind, it.subject, it.summary) for it in await later.audit(3)]
    assert told[0] == (AuditKind.KEY, "team-a", "revoked")
    assert "ef" * 32 not in repr(other)
    await later.close()


async def test_what_keys_used_is_added_up_by_hour_and_worker(bases: Bases) -> None:
    def record(key: str, hour_at: float, model: str = "m") -> RequestRecord:
        return RequestRecord(
            id="r", gateway="g0", seq=1, ended_at=hour_at + 60, key=key, path="/",
            model_asked=model, model_served=model, worker="w", status=200,
            outcome=RequestOutcome.OK, stream=False, duration_seconds=1.0, usage=Usage(10, 4, 5),
        )  # fmt: skip

    store = opened(bases)
    records = (
        record("a", HOUR),
        record("a", HOUR, "n"),
        record("b", HOUR),
        record("a", HOUR - 3600),
    )
    costs = (
        CostRow(HOUR, "w", "p", "busy", 2**40),
        CostRow(HOUR, "w", "q", "busy", 1),
        CostRow(HOUR, "w", "p", "idle", 7),
    )
    batch = SpoolBatch("g0", 0, 9, records)
    await store.commit_tick(TickCommit(at=HOUR + 90, spools=(batch,), costs=costs))
    uses, busy = await store.key_use(HOUR)
    wanted = [KeyUse(HOUR, "w", "a", Usage(20, 8, 10)), KeyUse(HOUR, "w", "b", Usage(10, 4, 5))]
    assert sorted(uses, key=lambda use: use.key) == wanted
    assert busy == {(HOUR, "w"): 2**40 + 1}
    await store.close()
