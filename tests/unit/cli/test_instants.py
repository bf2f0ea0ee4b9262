from __future__ import annotations

import pytest

from ds4watch.cli.instants import instant
from ds4watch.model.errors import ConfigError

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("90s", NOW - 90),
        ("1.5h", NOW - 5400),
        ("2d", NOW - 172_800),
        ("9999999w", 0.0),
        ("1700000000", 1_700_000_000.0),
        ("1700000000.25", 1_700_000_000.25),
        ("2027-01-15", NOW - 8 * 3600),
        ("2027-01-15T08:00:00.5Z", NOW + 0.5),
        ("2027-01-15T08:00", NOW),
        ("2027-01-15T08:00+02:00", NOW - 7200),
        ("0001-01-01", 0.0),
    ],
)
def test_people_write_instants_in_three_ways(text: str, at: float) -> None:
    assert instant(text, NOW, option="--start") == at


@pytest.mark.parametrize(
    "text", ["", "soon", "nan", "inf", "1e9", "-5", "2027", "1700000000000", "2h30m", "2027-13-01"]
)
def test_what_is_no_instant_is_refused_with_what_can_be_written(text: str) -> None:
    with pytest.raises(ConfigError, match="--start: must be a time such as 2026-") as caught:
        instant(text, NOW, option="--start")
    assert str(caught.value).count("\n") == 0
