"""What docs/moving-from-prometheus.md says of speed is what was measured."""

from __future__ import annotations

import pytest

from tests.unit.docs.documents import document


@pytest.mark.parametrize(
    ("said", "measured"),
    [
        ("0.98 s to Alertmanager's webhook", "| 0.98 s |"),
        ("0.54 s to a gateway that obeys", "| 0.54 s |"),
        ("2.0 to 3.0 ms | 0.33 to 0.46 ms", "| 0.33, 0.46 ms | 2.0, 3.0 ms |"),
    ],
)
def test_a_figure_is_the_measured_one(said: str, measured: str) -> None:
    assert said in document("moving-from-prometheus.md")
    assert measured in document("performance.md")
