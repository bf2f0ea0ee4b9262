"""What is said of a metric family that ds4watch exposes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class SignalType(StrEnum):
    """Prometheus metric types, by the word of the text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Signal:
    """One metric family. `edges`: upper bounds of a histogram's buckets, without +Inf."""

    name: str
    type: SignalType
    help: str
    labels: tuple[str, ...] = ()
    edges: tuple[float, ...] = ()


def counter(name: str, text: str, *labels: str) -> Signal:
    """Return a counter."""
    return Signal(name, SignalType.COUNTER, text, labels)


def gauge(name: str, text: str, *labels: str) -> Signal:
    """Return a gauge."""
    return Signal(name, SignalType.GAUGE, text, labels)


def histogram(name: str, text: str, *labels: str, edges: tuple[float, ...]) -> Signal:
    """Return a histogram with buckets up to `edges`, and one for all."""
    return Signal(name, SignalType.HISTOGRAM, text, labels, edges)
