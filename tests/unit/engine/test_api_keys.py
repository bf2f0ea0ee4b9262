from __future__ import annotations

from dataclasses import replace

import pytest

from ds4watch.cost.budgets import Budget, BudgetBook, Period, Scope
from ds4watch.engine.api_keys import ApiKeys, board_keys, recovered
from ds4watch.engine.cost_signals import key_budget_samples
from ds4watch.history.asked_values import StoredKey
from ds4watch.history.rows import AuditEntry
from ds4watch.model.errors import EdgeReason, RefusedError, StoreError
from ds4watch.model.key_budget import BudgetLeft, KeyBudget, KeyUse
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.limits import Limits
from ds4watch.model.service_policy import ApiKey
from ds4watch.model.usage import Usage

HOUR = 1_800_000_000.0
NOW = HOUR + 600
KEY = StoredKey("a", "aa" * 32, "", KeyLimits(), KeyBudget(), created_at=NOW)


GENTLE = (Limits(max_tokens_cap=500), Limits(max_tokens_cap=100))


class Clock:
    at = NOW

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


class Store:
    """Keeps keys in memory; the ledger is what a test says."""

    def __init__(self) -> None:
        self.saved: list[tuple[StoredKey, AuditEntry]] = []
        self.uses: list[KeyUse] = []
        self.busy: dict[tuple[float, str], int] = {}
        self.asked: list[float] = []
        self.is_broken = False

    async def save_key(self, key: StoredKey, entry: AuditEntry) -> None:
        self.saved.append((key, entry))

    async def key_use(self, start_at: float) -> tuple[list[KeyUse], dict[tuple[float, str], int]]:
        if self.is_broken:
            raise StoreError("gone", reason=EdgeReason.GONE)
        self.asked.append(start_at)
        uses = [use for use in self.uses if use.hour_at >= start_at]
        return uses, {at: nanos for at, nanos in self.busy.items() if at[0] >= start_at}


class Board:
    def __init__(self) -> None:
        self.published: list[tuple[ApiKey, ...]] = []

    def publish_keys(self, keys: tuple[ApiKey, ...]) -> None:
        self.published.append(keys)


class Case:
    def __init__(self, *stored: StoredKey) -> None:
        self.store, self.board, self.clock = Store(), Board(), Clock()
        self.keys = ApiKeys(stored, self.store, self.board, self.clock, gentle=GENTLE)

    def names(self) -> list[str]:
        return [key.name for key in self.board.published[-1]]


async def test_a_key_is_let_in_at_once_and_out_at_once() -> None:
    case = Case()
    await case.keys.add(KEY, who="ann", why="new")
    assert case.names() == ["a"]
    with pytest.raises(RefusedError, match="revoke it first"):
        await case.keys.add(KEY, who="ann", why="again")
    assert await case.keys.revoke("a", who="bob", why="leaked")
    assert case.names() == []
    assert not await case.keys.revoke("a", who="bob", why="leaked")
    assert [(entry.who, entry.summary) for _, entry in case.store.saved] == [
        ("ann", "added: new"),
        ("bob", "revoked: leaked"),
    ]
    await case.keys.add(KEY, who="ann", why="")
    assert case.names() == ["a"]


async def test_after_a_rotation_the_old_secret_is_good_for_its_grace() -> None:
    case = Case(KEY)
    assert await case.keys.rotate(
        "a", sha256="bb" * 32, signing="", grace_seconds=60, who="ann", why=""
    )
    new, old = case.board.published[-1]
    assert (new.sha256, new.expires_at) == ("bb" * 32, None)
    assert (old.name, old.sha256, old.expires_at) == ("a", "aa" * 32, NOW + 60)
    case.clock.at += 60
    case.keys.publish()
    assert [key.sha256 for key in case.board.published[-1]] == ["bb" * 32]
    with pytest.raises(RefusedError, match="does not sign"):
        await case.keys.rotate(
            "a", sha256="cc" * 32, signing="dd" * 32, grace_seconds=0, who="ann", why=""
        )
    assert not await case.keys.rotate(
        "b", sha256="cc" * 32, signing="", grace_seconds=0, who="ann", why=""
    )


async def test_what_is_left_of_a_budget_goes_to_the_gateways_as_it_changes() -> None:
    case = Case(replace(KEY, budget=KeyBudget(hour=100)), replace(KEY, name="b"))
    await case.keys.refresh()
    assert [key.left for key in case.board.published[-1]] == [BudgetLeft(100, HOUR + 3600), None]
    case.store.uses = [KeyUse(HOUR, "w", "a", Usage(30)), KeyUse(HOUR, "w", "b", Usage(10))]
    case.store.busy = {(HOUR, "w"): 200}
    await case.keys.refresh()
    await case.keys.refresh()
    assert len(case.board.published) == 2
    left = case.board.published[-1][0].left
    assert left == BudgetLeft(-50, HOUR + 3600)
    assert left.is_spent(NOW)
    assert case.keys.listed()[0]["left"] == {"nanos": -50, "until_at": HOUR + 3600}
    # The month is read once, then only the hours that may still change.
    assert case.store.asked[0] < HOUR - 3600
    assert case.store.asked[1:] == [HOUR - 3600] * 2
    case.clock.at = HOUR + 3600
    await case.keys.refresh()
    assert case.board.published[-1][0].left == BudgetLeft(100, HOUR + 7200)


async def test_without_a_ledger_budgets_stand_as_they_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    case = Case(replace(KEY, budget=KeyBudget(hour=100)))
    case.store.is_broken = True
    await case.keys.refresh()
    await case.keys.refresh()
    assert case.names() == ["a"]
    assert caplog.text.count("budgets stand") == 1


def test_a_listed_key_tells_neither_secret_nor_digest() -> None:
    told = repr(Case(replace(KEY, signing="ee" * 32)).keys.listed())
    assert "aaaa" not in told
    assert "eeee" not in told


def test_what_has_expired_or_was_revoked_is_not_told_to_gateways() -> None:
    keys = [
        replace(KEY, name="gone", revoked_at=NOW - 1),
        replace(KEY, name="old", expires_at=NOW),
        replace(KEY, name="good", expires_at=NOW + 1),
    ]
    assert [key.name for key in board_keys(keys, NOW)] == ["good"]


def test_keys_of_a_lost_state_are_taken_from_the_board(caplog: pytest.LogCaptureFixture) -> None:
    now_key = replace(KEY, old_sha256="bb" * 32, old_until_at=NOW + 5)
    (found,) = recovered(board_keys([now_key], NOW))
    assert (found.name, found.sha256) == ("a", KEY.sha256)
    assert "the state was lost" in caplog.text


DAY = HOUR // 86_400 * 86_400
STEP_SECONDS = 300
SHARES = {None: 1.0, 500: 0.5, 100: 0.2}
"""What a key spends with answers that are cut to so much."""


async def spend_a_day(
    of_budget: float, shares: dict[int | None, float]
) -> tuple[float, list[int | None]]:
    """Return the share of a day's budget that is spent, and to what answers were cut meanwhile.

    of_budget: what would be spent if nothing were done. At the wall, no more is spent.
    """
    limit = 10**9
    case = Case(replace(KEY, budget=KeyBudget(day=limit)))
    case.store.uses = []
    caps: list[int | None] = []
    spent = 0.0
    for at in range(int(DAY), int(DAY) + 86_400, STEP_SECONDS):
        case.clock.at = float(at)
        await case.keys.refresh()
        (key,) = case.board.published[-1]
        assert key.left is not None
        if key.left.is_spent(at):
            caps.append(0)
            continue
        caps.append(None if key.eased is None else key.eased.max_tokens_cap)
        more = of_budget * limit * STEP_SECONDS / 86_400 * shares[caps[-1]]
        hour = at // 3600 * 3600.0
        case.store.busy[hour, "w"] = case.store.busy.get((hour, "w"), 0) + round(more)
        case.store.uses.append(KeyUse(hour, "w", "a", Usage(1)))
        spent += more
    return spent / limit, caps


@pytest.mark.parametrize("of_budget", [1.1, 1.3, 1.6, 2.0, 3.0])
async def test_a_key_that_spends_steadily_is_eased_before_the_wall_and_never_meets_it(
    of_budget: float,
) -> None:
    spent, caps = await spend_a_day(of_budget, SHARES)
    assert 0 not in caps
    assert 0.6 < spent < 1
    assert caps[0] is None  # it was left alone as long as there was nothing to fear
    assert {500} <= set(caps)


async def test_a_key_that_keeps_within_its_budget_is_left_alone() -> None:
    _, caps = await spend_a_day(0.75, SHARES)
    assert set(caps) == {None}


async def test_where_easing_does_not_suffice_the_wall_is_where_it_was() -> None:
    spent, caps = await spend_a_day(1.5, dict.fromkeys(SHARES, 1.0))
    assert caps[-1] == 0
    assert 100 in caps  # firmly, before
    assert spent == pytest.approx(1, abs=0.01)


async def test_how_budgets_of_keys_stand_is_told() -> None:
    case = Case(replace(KEY, budget=KeyBudget(hour=100)), replace(KEY, name="b"))
    case.store.uses = [KeyUse(HOUR, "w", "a", Usage(1))]
    case.store.busy = {(HOUR, "w"): 90}
    case.clock.at = HOUR + 1200
    await case.keys.refresh()
    found = {(it.name, dict(it.labels).get("period")): it.value * 1e9
             for it in key_budget_samples(case.keys, "EUR")}  # fmt: skip
    assert found == {
        ("ds4_key_budget_easing", None): 2e9,
        ("ds4_cost_budget_limit", "hour"): 100,
        ("ds4_cost_budget_spent", "hour"): 90,
        ("ds4_cost_budget_projected", "hour"): 270,
    }
    assert case.keys.listed()[0]["eased"] == "firm"


async def test_a_budget_of_the_settings_for_a_key_eases_that_key_only() -> None:
    case = Case(KEY, replace(KEY, name="b"))
    book = BudgetBook(
        (Budget(Scope.KEY, "a", Period.HOUR, 100), Budget(Scope.TOTAL, "", Period.HOUR, 1))
    )
    book.add_money(int(HOUR), 90)
    book.add_work(int(HOUR), "a", "m", Usage(10, 1, 0))
    case.keys.set_apart = book.of_keys
    await case.keys.refresh()
    assert [key.eased for key in case.board.published[-1]] == [GENTLE[1], None]
    case.clock.at = HOUR + 3600
    await case.keys.refresh()
    assert [key.eased for key in case.board.published[-1]] == [None, None]
    assert case.board.published[-1][0].left is None, "it is no wall"
