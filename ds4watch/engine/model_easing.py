"""Eases what is asked of a model whose budget is about to run out, and of no other."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ds4watch.model.key_easing import Ease, KeyStanding, ease_of
from ds4watch.model.limits import Limits
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.model.series import Sample, labels_of

log = logging.getLogger(__name__)

_LOOK_SECONDS = 2.0

Standings = Callable[[UnixSeconds], Mapping[str, Sequence[KeyStanding]]]


class ModelBoard(Protocol):
    """Who tells gateways."""

    def publish_eased_models(self, eased: Mapping[str, Limits]) -> None:
        """Give gateways what single models are eased to."""
        ...


class ModelEasing:
    """As keys are eased by their budgets, models are by theirs; it ends nothing."""

    def __init__(self, board: ModelBoard, clock: Clock, *, gentle: Sequence[Limits]) -> None:
        """gentle: what eases, the gentlest first; empty: nothing is eased."""
        self.standings: Standings = lambda _now: {}
        """How budgets of `cost.budgets` for single models stand."""
        self._board = board
        self._clock = clock
        self._gentle = tuple(gentle)
        self._published: dict[str, Limits] = {}
        self._eases: dict[str, Ease] = {}

    async def run(self) -> None:
        """Keep gateways up to date for ever."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)

    def look(self) -> None:
        """Publish what models are eased to now, if that has changed; the log tells of it."""
        standings = self.standings(self._clock.now())
        eases = {name: self._ease(name, of) for name, of in sorted(standings.items())}
        for name, ease in eases.items():
            if ease is not self._eases.get(name, Ease.NONE):
                told = ease.name.lower()
                log.warning("model %s: eased before its budget runs out: %s", name, told)
        self._eases = eases
        eased = {
            name: self._gentle[min(ease, len(self._gentle)) - 1]
            for name, ease in eases.items()
            if ease is not Ease.NONE
        }
        if eased != self._published:
            self._published = eased
            self._board.publish_eased_models(eased)

    def samples(self) -> list[Sample]:
        """Return how far each model that has a budget is eased."""
        return [
            Sample("ds4_model_budget_easing", labels_of({"model": name}), float(ease))
            for name, ease in self._eases.items()
        ]

    def _ease(self, name: str, standings: Sequence[KeyStanding]) -> Ease:
        if not self._gentle:
            return Ease.NONE
        return ease_of(standings, self._eases.get(name, Ease.NONE))
