"""Silences: a person's word that nobody is told of some alerts for a while."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ds4watch.model.ports import UnixSeconds


@dataclass(frozen=True, slots=True)
class LabelTest:
    """A condition on one label; `op` is =, !=, =~ or !~, an absent label is empty."""

    name: str
    op: str
    value: str

    def __str__(self) -> str:
        """Render as people write it."""
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.name}{self.op}"{escaped}"'


@dataclass(frozen=True, slots=True)
class Silence:
    """Nobody is told of alerts that meet all of `matchers`, from `starts_at` until `ends_at`."""

    id: str
    matchers: tuple[LabelTest, ...]
    starts_at: UnixSeconds
    ends_at: UnixSeconds
    who: str
    why: str
    placed_at: UnixSeconds
    ended_by: str = ""
    """Who ended it before its time, if anybody did."""

    def is_in_force(self, now: UnixSeconds) -> bool:
        """Return whether it holds at an instant."""
        return self.starts_at <= now < self.ends_at

    def as_json(self) -> Mapping[str, Any]:
        """Return it as the API shows it."""
        return {
            "id": self.id,
            "matchers": [str(it) for it in self.matchers],
            "starts_at": self.starts_at,
            "ends_at": self.ends_at,
            "who": self.who,
            "why": self.why,
            "placed_at": self.placed_at,
            "ended_by": self.ended_by or None,
        }
