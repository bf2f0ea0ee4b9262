"""Who comes in: what is odd about a request, whose quota it uses, how urgent it is."""

from __future__ import annotations

import json
import logging
from collections import Counter
from typing import Any

from ds4watch.access.abnormal import NORMAL, Bounds, Verdict, Watch, count_of
from ds4watch.access.quota import OverQuota, QuotaKind, Quotas, Rates, whole_seconds
from ds4watch.config.admission import QuotaSettings
from ds4watch.config.settings import GatewaySettings
from ds4watch.gateway.admitted import Admitted
from ds4watch.gateway.call import Call
from ds4watch.gateway.compressing import PromptCompressor
from ds4watch.gateway.eased import Eased
from ds4watch.gateway.replies import RefusedError, Reply, unavailable
from ds4watch.gateway.said import Said
from ds4watch.gateway.state import GatewayState
from ds4watch.gateway.waiting import FRONT
from ds4watch.model.key_limits import KeyLimits
from ds4watch.model.ports import Clock
from ds4watch.model.usage import RequestOutcome
from ds4watch.routing.admission import (
    DEFAULT_PRIORITY,
    ShedReason,
    most_inflight,
    priority_of,
    share_of,
)
from ds4watch.routing.lengths import Lengths
from ds4watch.shaping.request import Asked, Degrading, Shaped

log = logging.getLogger(__name__)

_NO_LIMITS = KeyLimits()
_ANSWER_FIELDS = ("max_completion_tokens", "max_tokens", "max_output_tokens")


class Admission:
    """The limits of one gateway process, made ready anew with each board."""

    def __init__(
        self,
        settings: GatewaySettings,
        state: GatewayState,
        clock: Clock,
        compressor: PromptCompressor,
        lengths: Lengths,
    ) -> None:
        self._compressor = compressor
        self._lengths = lengths
        self._settings = settings
        self._own = settings.admission
        self._state = state
        self._clock = clock
        self._class_priorities = {
            name: it.priority for name, it in self._own.classes.items() if it.priority is not None
        }
        self._watch = Watch(Bounds(**self._own.abnormal.model_dump()))
        self._keys: dict[str, KeyLimits] = {}
        self._eased = Eased(state)
        self._most_inflight = 0
        """Requests that may be under way in this process."""
        self._quotas = Quotas(
            {name: _rates(it) for name, it in self._own.models.items()},
            {name: _rates(it) for name, it in self._own.classes.items()},
        )
        self._long: Counter[str] = Counter()
        """Long requests under way, by pool."""
        self.shed: Counter[str] = Counter()
        """Requests turned away, by reason."""
        self.abnormal: Counter[str] = Counter()
        """Odd requests, by what is odd."""
        self.degraded: Counter[str] = Counter()
        """Changes made to requests, by what was changed."""
        state.watchers.append(self.board_came)
        self.board_came()

    def board_came(self) -> None:
        """Go by the board in force; what was used of a quota stays used."""
        self._keys = {
            key.name: key.limits for key in self._state.board.keys if key.limits != _NO_LIMITS
        }
        state = self._state
        self._quotas.tune(self._keys, state.processes, self._clock.monotonic())
        self._eased = Eased(state)
        self._most_inflight = most_inflight(
            state.policy.limits,
            max_inflight=self._settings.max_inflight,
            processes=state.processes,
        )
        state.room.stir()

    def enter(self, call: Call, said: Said, body: dict[str, Any], raw: bytes) -> Admitted:
        """Let a request in. Raises RefusedError; `has_place` and `until_place` come next."""
        state = self._state
        degrading = state.pooled.get(call.model_asked, state.degrading)
        call.level = degrading.level
        limits = self._keys.get(call.key, _NO_LIMITS)
        tokens = self._lengths.estimate(body["model"], len(raw), body)
        call.prompt_tokens = tokens
        verdict = self._watch.judge(
            call.key, raw, body, prompt_tokens=tokens, now=self._clock.monotonic()
        )
        work_class = limits.work_class or said.work_class
        if limits.work_class or work_class in self._own.classes:  # clients make up no names
            call.work_class = work_class
        call.priority = self._priority(limits, said.priority, work_class)
        if verdict is not NORMAL:
            self._note_oddity(call, verdict)
        entry = Admitted(
            Asked(work_class, said.session, tokens, verdict.max_tokens),
            said.refuses_change and limits.may_refuse_degrading,
            tokens > self._own.long_over_tokens,
            verdict,
        )
        self._shed_by_level(call, entry, degrading)
        if self._quotas.are_set:
            self._charge(call, entry, body)
        if entry.is_long:
            entry.pool = degrading.pool
            self._long[entry.pool] += 1
        call.entry = entry
        return entry

    def leave(self, call: Call) -> None:
        """Give back what a request held, and put right what it was charged."""
        entry = call.entry
        if entry is None:
            return
        if entry.is_long:
            self._long[entry.pool] -= 1
        if entry.meters:
            used = self._used(entry, call)
            for meter in entry.meters:
                meter.leave(entry.charged, used)

    @property
    def long_inflight(self) -> int:
        """Long requests under way in this process."""
        return self._long.total()

    def has_place(self) -> bool:
        """Return whether one more may be under way now, and nobody waits for that."""
        state = self._state
        return state.inflight.total < self._most_inflight and not state.room.has_line(FRONT)

    async def until_place(self, call: Call) -> None:
        """Wait until one more may be under way. Raises RefusedError if that takes too long."""
        found = await self._state.room.place(
            FRONT,
            call.priority,
            lambda: True if self._state.inflight.total < self._most_inflight else None,
        )
        if found is None:
            raise self._turned_away(call, ShedReason.INFLIGHT)

    def degrading(self, call: Call) -> Degrading:
        """Return what is done to a request: as the policy has it, more for who is eased."""
        return self._eased.degrading(call)

    async def shortened(
        self, body: dict[str, Any], asked: Asked, call: Call
    ) -> tuple[Asked, Degrading]:
        """Return `asked` with a shorter prompt, if one is wanted, and what is done to it now."""
        degrading = self.degrading(call)
        kept = degrading.last_turns(body)
        tokens = asked.prompt_tokens
        if kept:
            left = len(json.dumps(kept["messages"])) / len(json.dumps(body["messages"]))
            tokens = int(tokens * left)
        ratio = degrading.compress_ratio(tokens)
        if ratio is None:
            return asked, degrading
        compressed = await self._compressor.fields(body | kept, ratio)
        # Meanwhile another board may have come; what it does not ask for would not be told.
        now = self.degrading(call)
        if not now.shortens_as(degrading):
            compressed = None
        return asked._replace(compressed=compressed), now

    def check_shaped(self, shaped: Shaped, entry: Admitted, call: Call) -> None:
        """Note what was changed. Raises RefusedError if the client wants no change."""
        if entry.refuses_change and shaped.degraded:
            raise self._turned_away(call, ShedReason.NO_DEGRADE)
        if not shaped.degraded and entry.verdict is NORMAL:
            return
        oddities = tuple(f"abnormal={oddity}" for oddity in entry.verdict.oddities)
        level = shaped.degraded[:1] or (f"level={call.level}",)
        if self._eased.eases(call):
            level = (*level, "budget=eased")
        call.degraded = (*level, *oddities, *shaped.degraded[1:])
        self.degraded.update(it.partition("=")[0] for it in shaped.degraded[1:])

    def stats(self) -> dict[str, Any]:
        """Return what the daemon is told: counts since this process began, and who waits now."""
        waits = self._state.room.waits
        return {
            "waiting": self._state.room.size,
            "waited": waits.entered,
            "waited_seconds": waits.seconds,
            "long_inflight": self.long_inflight,
            "shed": dict(self.shed),
            "abnormal": dict(self.abnormal),
            "degraded": dict(self.degraded),
        }

    def _priority(self, limits: KeyLimits, given: str | None, work_class: str) -> int:
        priority = self._class_priorities.get(work_class, DEFAULT_PRIORITY)
        if given is not None:
            priority = priority_of(given, priority)
        if limits.priority is None:
            return priority
        return limits.priority if given is None else min(priority, limits.priority)

    def _note_oddity(self, call: Call, verdict: Verdict) -> None:
        self.abnormal.update(verdict.oddities)
        if verdict.priority is not None:
            call.priority = min(call.priority, verdict.priority)
        if verdict.wait_seconds > 0:
            call.degraded = (f"level={call.level}", *(f"abnormal={it}" for it in verdict.oddities))
            message = "Too many requests before the time you were told to wait for was over"
            self._note_shed("retrying")
            raise _too_many(message, verdict.wait_seconds)

    def _shed_by_level(self, call: Call, entry: Admitted, degrading: Degrading) -> None:
        limits = degrading.limits
        if limits.shed_below_priority is not None and call.priority < limits.shed_below_priority:
            raise self._turned_away(call, ShedReason.PRIORITY)
        most = limits.long_max_inflight
        if entry.is_long and most is not None:
            own = share_of(most, self._state.processes) if most else 0
            if self._long[degrading.pool] >= own:
                raise self._turned_away(call, ShedReason.LONG)

    def _charge(self, call: Call, entry: Admitted, body: dict[str, Any]) -> None:
        now, processes = self._clock.monotonic(), self._state.processes
        entry.charged = entry.asked.prompt_tokens + self._answer_tokens(body, entry)
        taken = self._quotas.take(
            (call.key, call.model_asked, entry.asked.work_class), entry.charged, now
        )
        call.rate_headers = self._quotas.headers(call.key, processes, now)
        if isinstance(taken, OverQuota):
            raise self._over(call, taken, now)
        entry.meters = taken

    def _answer_tokens(self, body: dict[str, Any], entry: Admitted) -> float:
        asked = next((body[it] for it in _ANSWER_FIELDS if body.get(it) is not None), None)
        each = count_of(asked, self._own.answer_tokens)
        if entry.asked.own_cap is not None:
            each = min(each, entry.asked.own_cap)
        return each * max(1, count_of(body.get("n"), 1))

    def _used(self, entry: Admitted, call: Call) -> float:
        if call.usage is not None:
            return call.usage.prompt + call.usage.completion
        # Who leaves before usage was told has used something; what never ran has not.
        is_used = call.outcome in (RequestOutcome.OK, RequestOutcome.CLIENT_GONE) and call.attempts
        return entry.charged if is_used else 0.0

    def _over(self, call: Call, over: OverQuota, now: float) -> RefusedError:
        wait = whole_seconds(over.retry_after_seconds)
        self._note_shed(f"quota_{over.kind}")
        if over.kind is QuotaKind.KEY:
            self._watch.told_to_wait(call.key, now + wait)
            message = (
                f"Rate limit of key {over.name!r} reached ({over.what}); try again in {wait} s"
            )
            return _too_many(message, wait)
        message = (
            f"The {over.kind} {over.name!r} is at its limit ({over.what}); try again in {wait} s"
        )
        reply = unavailable(message, code="overloaded", retry_after_seconds=wait)
        call.degraded = (f"level={call.level}", f"shed=quota_{over.kind}")
        return RefusedError(reply, outcome=RequestOutcome.SHED)

    def _turned_away(self, call: Call, reason: ShedReason) -> RefusedError:
        self._note_shed(reason)
        call.degraded = (f"level={call.level}", f"shed={reason}")
        reply = unavailable(f"Too much load now ({reason}); try again", code="overloaded")
        return RefusedError(reply, outcome=RequestOutcome.SHED)

    def connection_refused(self) -> None:
        """Count a connection that was one too many."""
        self._note_shed(ShedReason.CONNECTIONS)

    def _note_shed(self, reason: str) -> None:
        self.shed[reason] += 1
        if self.shed[reason] == 1:
            log.warning("requests are turned away (%s); later ones are counted only", reason)


def _rates(it: QuotaSettings) -> Rates:
    return Rates(it.requests_per_minute, it.tokens_per_minute, it.concurrency)


def _too_many(message: str, wait_seconds: float) -> RefusedError:
    reply = Reply(
        429,
        message,
        "rate_limit_exceeded",
        kind="rate_limit_error",
        retry_after_seconds=whole_seconds(wait_seconds),
    )
    return RefusedError(reply, outcome=RequestOutcome.SHED)
