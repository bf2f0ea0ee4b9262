"""What one API key may do: how much, which models, how urgent, and what it may refuse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

HIGHEST_PRIORITY = 9
_MAX_NAME_LENGTH = 256


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits of one key over all gateway processes; None and empty mean "not limited"."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Prompt and answer; charged by an estimate, settled by what the worker says was used."""
    concurrency: int | None = None
    """Requests under way at once."""
    models: tuple[str, ...] = ()
    """Models that it may ask for; empty: all."""
    priority: int | None = None
    """Priority (0 lowest, 9) of its requests; `x-ds4-priority` may only lower it."""
    work_class: str = ""
    """Class of work of its requests; goes before `x-ds4-class`."""
    may_refuse_degrading: bool = True
    """Whether `x-ds4-no-degrade: 1` counts: then a 503 comes in place of a changed answer."""

    def as_json(self) -> dict[str, Any]:
        """Return a JSON-ready dict; `from_json` is its inverse."""
        return asdict(self) | {"models": list(self.models)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KeyLimits:
        """Read what `as_json` wrote; unknown keys are ignored. Raises TypeError or ValueError."""
        known = {field.name for field in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        values["models"] = tuple(str(model) for model in values.get("models", ()))
        limits = cls(**values)
        if not limits.is_sound():
            message = "limits of a key with fields of the wrong type or out of bounds"
            raise ValueError(message)
        return limits

    def is_sound(self) -> bool:
        """Return whether every field has its type and is within its bounds."""
        rates = (self.requests_per_minute, self.tokens_per_minute, self.concurrency)
        return (
            all(rate is None or (_is_whole(rate) and rate >= 1) for rate in rates)
            and (
                self.priority is None
                or (_is_whole(self.priority) and 0 <= self.priority <= HIGHEST_PRIORITY)
            )
            and isinstance(self.work_class, str)
            and len(self.work_class) <= _MAX_NAME_LENGTH
            and isinstance(self.may_refuse_degrading, bool)
        )


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
