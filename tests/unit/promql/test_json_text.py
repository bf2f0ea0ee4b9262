from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds4watch.promql.ast import ValueType
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.json_text import matrix_text, result_text, success, value_texts
from ds4watch.promql.result import Matrix, QueryResult
from ds4watch.promql.vectors import vector_of

# What Prometheus 2.42 answers for vector(x).
AS_GO = [
    (0.0, "0"), (-0.0, "-0"), (1.0, "1"), (-10.0, "-10"), (0.1, "0.1"), (1.05, "1.05"),
    (1e-4, "0.0001"), (1.5e-5, "0.000015"), (1e-6, "0.000001"), (9.9e-7, "9.9e-07"),
    (5e-324, "5e-324"), (1e15, "1000000000000000"), (1e16, "10000000000000000"),
    (123456789012345678.0, "123456789012345680"), (1e20, "100000000000000000000"),
    (1e21, "1e+21"), (-1.5e300, "-1.5e+300"), (math.inf, "+Inf"), (-math.inf, "-Inf"),
    (math.nan, "NaN"),
]  # fmt: skip


def test_values_are_written_as_go_writes_them() -> None:
    values = np.array([value for value, _ in AS_GO])
    assert value_texts(values) == [text for _, text in AS_GO]
    assert value_texts(np.empty(0)) == []


@given(st.lists(st.floats(allow_nan=False)))
def test_every_value_is_told_exactly(values: list[float]) -> None:
    texts = value_texts(np.array(values, dtype=np.float64))
    assert [float(text) for text in texts] == values


@pytest.mark.parametrize(
    ("at", "stamp"),
    [(5.0, "5"), (5.5, "5.500"), (5.001, "5.001"), (1.7e9 + 0.0625, "1700000000.062")],
)
def test_each_kind_has_its_shape(at: float, stamp: str) -> None:
    column, text = (("__name__", "a"), ("b", 'q"é\n')), '{"__name__":"a","b":"q\\"é\\n"}'
    vector = QueryResult(ValueType.VECTOR, vector_of([column], [0.5]))
    assert result_text(vector, at) == (
        f'{{"resultType":"vector","result":[{{"metric":{text},"value":[{stamp},"0.5"]}}]}}'
    )
    scalar = QueryResult(ValueType.SCALAR, scalar=1e22)
    assert json.loads(result_text(scalar, at))["result"][1] == "1" + "0" * 22
    string = QueryResult(ValueType.STRING, text='"\\')
    assert json.loads(result_text(string, at))["result"][1] == '"\\'


def test_a_matrix_leaves_out_what_is_not_there() -> None:
    there = np.array([[True, False, True], [False, True, False]])
    matrix = Matrix(
        LabelColumn(((("a", "1"),), ())),
        np.array([10.0, 20.0, 30.5]),
        np.where(there, np.array([[1, 2, 3], [4, math.nan, 6]]), np.nan),
        there,
    )
    body = json.loads(success(matrix_text(matrix), ["cut"]))
    assert body == {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [
                {"metric": {"a": "1"}, "values": [[10, "1"], [30.5, "3"]]},
                {"metric": {}, "values": [[20, "NaN"]]},
            ],
        },
        "warnings": ["cut"],
    }
