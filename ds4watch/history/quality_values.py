"""Measurements of quality, as they are stored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ds4watch.model.money import Nanos
from ds4watch.model.ports import UnixSeconds


@dataclass(frozen=True, slots=True)
class QualityRun:
    """One comparison of a quantized profile with its reference. `value` is None if it failed."""

    at: UnixSeconds
    profile: str
    reference: str
    metric: str
    value: float | None
    prompts: int
    tokens: int
    took_seconds: float
    error: str = ""


class GoldenStatus(StrEnum):
    """How far a golden run is. Those that are not over go on after a restart."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class GoldenRun:
    """Golden questions asked of a profile and, unless `reference` is empty, of another one.

    questions: of each. budget_nanos: what it may cost. told: why it waits, or how it ended.
    """

    id: int
    at: UnixSeconds
    profile: str
    reference: str
    questions: int
    budget_nanos: Nanos | None
    spent_nanos: Nanos
    who: str
    why: str
    status: GoldenStatus
    told: str = ""
    ended_at: UnixSeconds | None = None


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    """One answer, judged. nanos: what the worker cost meanwhile."""

    run: int
    profile: str
    question: str
    at: UnixSeconds
    work_class: str
    is_right: bool
    answer: str
    prompt_tokens: int
    completion_tokens: int
    first_token_seconds: float | None
    took_seconds: float
    nanos: Nanos
