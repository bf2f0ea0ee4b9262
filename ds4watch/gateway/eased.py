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
        self._made: dict[tuple[str, Limits | None, Limits | None, Limits | None], Degrading] = {}
        """By pool, and what its key, the model asked for and the one that serves are eased to."""

    def eases(self, call: Call) -> bool:
        """Return whether a request is eased."""
        is_asked = call.key in self._keys or call.model_asked in self._models
        return is_asked or call.model_served in self._models

    def degrading(self, call: Call) -> Degrading:
        """Return what is done to a request: as the policy has it, more for who is eased."""
        found = self._state.pooled.get(call.model_asked, self._state.degrading)
        if not self.eases(call):
            return found
        of_key, of_model = self._keys.get(call.key), self._models.get(call.model_asked)
        of_served = self._models.get(call.model_served)
        asked = (found.pool, of_key, of_model, of_served)
        if asked not in self._made:
            limits = tighter(of_key or Limits(), of_model or Limits())
            limits = tighter(limits, of_served or Limits())
            self._made[asked] = self._state.degrading_with(limits, found.pool)
        return self._made[asked]
