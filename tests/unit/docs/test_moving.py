"""What docs/moving-from-prometheus.md says of speed is what was measured."""

from __future__ import annotations

import pytest

from tests.unit.docs.documents import document


@pytest.mark.parametrize(
    ("said", "measured"),
    [
        ("0.96 s to Alertmanager's webhook", "| 0.96 s |"),
        ("0.51 s to a gateway that obeys", "| 0.51 s |"),
        ("1.9 to 3.0 ms | 0.28 to 0.46 ms", "| 0.28, 0.46 ms | 1.9, 3.0 ms |"),
    ],
)
def test_a_figure_is_the_measured_one(said: str, measured: str) -> None:
    assert said in document("moving-from-prometheus.md")
    assert measured in document("performance.md")
