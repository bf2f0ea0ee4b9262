"""What is done to requests of keys and for models whose budgets are about to run out."""

from __future__ import annotations

from ds4watch.gateway.call import Call
from ds4watch.gateway.state import GatewayState
from ds4watch.model.limits import Limits, tighter
from ds4watch.shaping.request import Degrading


class Eased:
    """Of one board and one policy; made ready as requests come."""

    def __init__(self, state: GatewayState) -> None:
        self._state = state
        self._keys = {it.name: it.eased for it in state.board.keys if it.eased is not None}
        self._models = state.board.eased_models
        self._made: dict[tuple[Limits | None, Limits | None], Degrading] = {}

    def eases(self, call: Call) -> bool:
        """Return whether a request is eased."""
        return call.key in self._keys or call.model_asked in self._models

    def degrading(self, call: Call) -> Degrading:
        """Return what is done to a request: as the policy has it, more for who is eased."""
        if not self.eases(call):
            return self._state.degrading
        both = (self._keys.get(call.key), self._models.get(call.model_asked))
        if both not in self._made:
            one, other = both
            limits = tighter(one or Limits(), other or Limits())
            self._made[both] = self._state.degrading_with(limits)
        return self._made[both]
