"""What is said of a calendar that cannot be."""

from __future__ import annotations

import pytest

from ds4watch.config.loader import load_settings
from ds4watch.model.errors import ConfigError


def calendar(**keys: str) -> str:
    lines = [f"      {name}: {value}" for name, value in keys.items()]
    return "\n".join(["provisioning:", "  calendar:", "    - name: a", "      workers: 1", *lines])


def test_a_calendar_is_read_as_it_is_written() -> None:
    text = calendar(begin="'08:30'", end="'18:00'", days="[mon, fri]", timezone="Europe/Berlin")
    (entry,) = load_settings(text, "x.yml").provisioning.calendar
    assert (entry.begin.hour, entry.begin.minute, entry.days) == (8, 30, ("mon", "fri"))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"timezone": "Europe/Nowhere"}, "there is no time zone Europe/Nowhere"),
        ({"timezone": "../etc/passwd"}, "there is no time zone"),
        ({"days": "[]"}, "is empty: name days"),
        ({"days": "[monday]"}, "must be one of mon, tue, wed, thu, fri, sat, sun"),
        # Without quotes YAML reads a number of base 60.
        ({"begin": "10:30"}, "must be a time of day in quotes, such as '08:30'"),
        ({"begin": "'25:00'"}, "must be a time of day in quotes, such as '08:30'"),
        ({"begin": "'10:30+02:00'"}, "has an offset of its own"),
    ],
)
def test_a_fault_of_the_calendar_is_named_with_its_line(keys: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=r"x.yml:\d+: provisioning.calendar\[0\]") as error:
        load_settings(calendar(**keys), "x.yml")
    assert said in str(error.value)
