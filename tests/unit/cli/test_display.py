from __future__ import annotations

import pytest

from ds4watch.cli.display import money, number, percent, signal
from ds4watch.cli.hold import seconds_of
from ds4watch.model.errors import ConfigError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (0, "0"),
        (23.0, "23"),
        (12345.0, "12,345"),
        (812.456, "812.46"),
        (0.123456, "0.1235"),
        (True, "-"),
    ],
)
def test_a_number_is_short_and_absence_is_a_dash(value: float | None, text: str) -> None:
    assert number(value) == text


def test_signals_are_shown_in_the_unit_of_their_name() -> None:
    assert signal("ds4_cache_miss_ratio", 0.25) == "25.0 %"
    assert signal("ds4_gpu_memory_used_bytes", 3 * 2**30) == "3.00 GiB"
    assert signal("ds4_gpu_memory_used_bytes", None) == "-"
    assert percent(None) == "-"


def test_money_has_four_places_under_one_unit() -> None:
    assert money("0.0317", "USD") == "0.0317 USD"
    assert money("12.4", "EUR") == "12.40 EUR"
    assert money(None, "EUR") == "-"


def test_spans_are_read_and_nonsense_is_refused() -> None:
    assert [seconds_of(span) for span in ("30", "30s", "1.5m", "2h", "1d")] == [
        30, 30, 90, 7200, 86400,
    ]  # fmt: skip
    for span in ("", "0", "-1", "soon", "1w"):
        with pytest.raises(ConfigError):
            seconds_of(span)
