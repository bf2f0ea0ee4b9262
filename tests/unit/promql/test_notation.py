from __future__ import annotations

import math

import numpy as np
import pytest

from ds4watch.model.errors import QueryError
from ds4watch.model.series import STALE_NAN, is_stale
from ds4watch.promql.notation import labels_from, values_of
from tests.unit.promql.memory import named


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        ("1 2.5 -3 1e3", [1, 2.5, -3, 1000]),
        ("1x3", [1, 1, 1, 1]),
        ("0x90", [0] * 91),
        ("1+2x3", [1, 3, 5, 7]),
        ("1-2x2 9", [1, -1, -3, 9]),
        ("-2+4x2", [-2, 2, 6]),
        ("_ 1 _x2 2", [None, 1, None, None, 2]),
        ("0.1+0.1x2", [0.1, 0.2, 0.30000000000000004]),
        ("+Inf -Infx1", [math.inf, -math.inf, -math.inf]),
    ],
)
def test_values_are_spelt_out(text: str, values: list[float | None]) -> None:
    assert values_of(text) == values


def test_stale_is_the_marker_and_nan_is_not() -> None:
    stale, nan = values_of("stale NaN")
    assert list(is_stale(np.array([stale, nan]))) == [True, False]
    assert is_stale(np.array([STALE_NAN]))[0]


@pytest.mark.parametrize("text", ["one", "1+x3", "1x", "1x3+1", "_x", "1,2", "1x99999999999"])
def test_what_is_no_value_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        values_of(text)


def test_a_series_has_a_name_and_labels() -> None:
    assert labels_from('up{job="a b", none=""}') == named("up", job="a b")
    assert labels_from("up") == named("up")
    assert labels_from("{}") == ()
    assert labels_from('{job="x"}') == (("job", "x"),)


@pytest.mark.parametrize("text", ["up{", 'up{job=~"a"}', "up offset 5m", "1", "rate(up[5m])"])
def test_what_is_no_series_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        labels_from(text)
