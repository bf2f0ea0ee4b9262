"""A real vLLM page over time: each second some of its counters have grown by a random amount."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ds4watch.model.series import FloatArray

PAGE = Path(__file__).resolve().parents[2] / "tests/data/metrics/vllm-0.32-cpu-loaded.prom"
GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
SHARE_CHANGED = 0.15
_CONSTANT = re.compile(rb"_created|_info|sleep_state|^#|^$")


@dataclass(frozen=True, slots=True)
class Line:
    """A sample line: what stands before its number, and whether the numbers are whole."""

    prefix: bytes
    value: float
    whole: bool
    gauge: bool
    constant: bool


class GrowingPage:
    """Versions of the page, one a second. The same seed gives the same numbers."""

    def __init__(self, seed: int = 1, path: Path = PAGE) -> None:
        self._texts = path.read_bytes().splitlines()
        self._lines = [_line(text) for text in self._texts]
        self._dice = np.random.default_rng(seed)
        self.values: FloatArray = np.array([line.value if line else 0.0 for line in self._lines])
        self._may_grow = np.array(
            [bool(line and not line.constant and not line.gauge) for line in self._lines]
        )
        self._whole = np.array([bool(line and line.whole) for line in self._lines])
        self._gauge = np.array([bool(line and line.gauge) for line in self._lines])

    def step(self) -> None:
        """Let a second pass."""
        count = len(self.values)
        samples = sum(line is not None for line in self._lines)
        chance = SHARE_CHANGED * samples / self._may_grow.sum()
        grows = self._may_grow & (self._dice.random(count) < chance)
        whole = self._dice.integers(1, 2000, count).astype(np.float64)
        amounts = np.where(self._whole, whole, self._dice.random(count))
        self.values = np.where(grows, self.values + amounts, self.values)
        self.values = np.where(self._gauge, self._dice.integers(0, 9, count), self.values)

    def render(self) -> bytes:
        """Return the page as vLLM would write it."""
        out = []
        for text, line, value in zip(self._texts, self._lines, self.values.tolist(), strict=True):
            out.append(text if line is None or line.constant else line.prefix + _number(value))
        return b"\n".join(out) + b"\n"

    def versions(self, count: int) -> Iterator[bytes]:
        """Yield pages of so many seconds."""
        for _ in range(count):
            yield self.render()
            self.step()


def _number(value: float) -> bytes:
    return repr(value).encode()


def _line(text: bytes) -> Line | None:
    if not text or text.startswith(b"#"):
        return None
    prefix, _, number = text.rpartition(b" ")
    value = float(number)
    return Line(
        prefix=prefix + b" ",
        value=value,
        whole=b"_sum" not in prefix or b"tokens" in prefix,
        gauge=any(name.encode() in prefix for name in GAUGES),
        constant=bool(_CONSTANT.search(prefix)),
    )
