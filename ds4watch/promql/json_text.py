"""Results as the Prometheus HTTP API writes them, to the letter."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray, Labels
from ds4watch.promql.ast import ValueType
from ds4watch.promql.numbers import plain
from ds4watch.promql.result import Matrix, QueryResult
from ds4watch.promql.storage import Windows
from ds4watch.promql.vectors import Vector

_LEAST_PLAIN, _MOST_PLAIN = 1e-6, 1e21
"""Where Prometheus begins to write samples with an exponent."""


def success(data: str, warnings: Sequence[str] = ()) -> str:
    """Return the body of a good answer around data that is JSON already."""
    more = f',"warnings":{dumped(warnings)}' if warnings else ""
    return f'{{"status":"success","data":{data}{more}}}'


def dumped(value: Any) -> str:
    """Return compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def result_text(result: QueryResult, at: UnixSeconds) -> str:
    """Return what an instant query gave, as `data`."""
    stamp = _stamp(at)
    if result.kind is ValueType.SCALAR:
        return _data(result.kind, f'[{stamp},"{plain(result.scalar)}"]')
    if result.kind is ValueType.STRING:
        return _data(result.kind, f"[{stamp},{dumped(result.text)}]")
    if result.kind is ValueType.VECTOR:
        return _data(result.kind, f"[{','.join(_elements(result.vector, stamp))}]")
    assert result.windows is not None
    return _data(result.kind, f"[{','.join(_windows(result.windows))}]")


def matrix_text(matrix: Matrix) -> str:
    """Return what a range query gave, as `data`."""
    stamps = np.array([f'[{_stamp(at)},"' for at in matrix.steps.tolist()], dtype=object)
    rows = (
        _series(labels, stamps[there].tolist(), values[there])
        for labels, values, there in zip(matrix.labels, matrix.values, matrix.there, strict=True)
    )
    return _data(ValueType.MATRIX, f"[{','.join(rows)}]")


def value_texts(values: FloatArray) -> list[str]:
    """Return samples as Go writes them: the fewest digits, an exponent only where it is far."""
    # One call of a C encoder for all, which writes the fewest digits too.
    texts = json.dumps(values.tolist(), separators=(",", ":"))[1:-1].replace(".0,", ",").split(",")
    if not len(values):
        return []
    texts[-1] = texts[-1].removesuffix(".0")
    size = np.abs(values)
    odd = ~((size >= 1e-4) & (size < 1e16)) & (size != 0)
    for place in np.flatnonzero(odd).tolist():
        texts[place] = _odd_text(float(values[place]))
    return texts


def _odd_text(value: float) -> str:
    size = abs(value)
    if math.isfinite(value) and not _LEAST_PLAIN <= size < _MOST_PLAIN:
        return repr(value)
    return plain(value)


def _data(kind: ValueType, result: str) -> str:
    return f'{{"resultType":"{kind}","result":{result}}}'


def _elements(vector: Vector, stamp: str) -> Iterable[str]:
    for labels, text in zip(vector.labels, value_texts(vector.values), strict=True):
        yield f'{{"metric":{_metric(labels)},"value":[{stamp},"{text}"]}}'


def _windows(windows: Windows) -> Iterable[str]:
    rows = zip(windows.labels, windows.times, windows.values, windows.counts.tolist(), strict=True)
    for labels, times, values, count in rows:
        stamps = [f'[{_stamp(at)},"' for at in times[:count].tolist()]
        yield _series(labels, stamps, values[:count])


def _series(labels: Labels, stamps: Sequence[str], values: FloatArray) -> str:
    points = '"],'.join(map(str.__add__, stamps, value_texts(values)))
    return f'{{"metric":{_metric(labels)},"values":[{points}"]]}}'


def _metric(labels: Labels) -> str:
    return dumped(dict(labels))


def _stamp(at: UnixSeconds) -> str:
    """Return an instant in seconds, with milliseconds if it has any."""
    seconds, thousandths = divmod(round(at * 1000), 1000)
    return f"{seconds}.{thousandths:03}" if thousandths else str(seconds)
