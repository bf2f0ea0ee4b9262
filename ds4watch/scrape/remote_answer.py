"""What a server that speaks Prometheus's HTTP API says → a vector, or why there is none. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ds4watch.alerting.remote import Answer
from ds4watch.model.errors import EdgeReason, SourceError
from ds4watch.model.series import Labels, labels_of
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.vectors import Vector, one

_SHOWN_CHARACTERS = 200
_MENDS: Mapping[int, str] = {
    401: "credentials are missing or wrong: check those of source",
    403: "the credentials may not query: check those of source",
    404: "there is no query API: check source.url",
    405: "the method is refused: check source.url",
    407: "a proxy wants credentials: let ds4watch reach the server directly",
    413: "the answer or the question is too large for it",
    429: "asked too often for it: lengthen source.interval_seconds",
}
_RETRYABLE = frozenset({408, 425, 429, *range(500, 600)})


def read_answer(found: Any) -> Answer:
    """Return the vector of a decoded answer with status 200. Raises SourceError(PARSE)."""
    if not isinstance(found, dict) or found.get("status") != "success":
        raise _malformed("has no status `success`")
    data = found.get("data")
    if not isinstance(data, dict):
        raise _malformed("has no data")
    kind, result = data.get("resultType"), data.get("result")
    if kind == "scalar":
        vector = one(_value(result))
    elif kind == "vector":
        vector = _vector(result)
    else:
        raise _malformed(f"is a {_shown(kind)}, not a vector")
    return Answer(vector, partial=bool(told_of(found)))


def told_of(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return why an answer may not be the whole truth; infos do not say that."""
    warnings = found.get("warnings") or []
    told = warnings if isinstance(warnings, list) else [warnings]
    # Partial answers: warnings of Prometheus, Thanos and Mimir, a flag of VictoriaMetrics.
    flag = ["isPartial"] if found.get("isPartial") not in (None, False) else []
    return tuple(_shown(it) for it in (*told, *flag))


def bad_status(status: int, found: Any, wait_seconds: float = 0.0) -> SourceError:
    """Return the failure of an answer that has not status 200. found: its body, decoded."""
    said = ""
    if isinstance(found, dict) and isinstance(found.get("error"), str):
        said = _shown(found["error"])
    if said and status in (400, 422):
        return SourceError(f"the server refuses the query: {said}", reason=EdgeReason.REFUSED)
    mend = said or _MENDS.get(status, "")
    if 300 <= status < 400:
        mend = "a redirect, which is not followed: set source.url to where it leads"
    text = f"the server answered {status}" + (f": {mend}" if mend else "")
    return SourceError(
        text,
        reason=EdgeReason.STATUS,
        retryable=status in _RETRYABLE,
        wait_seconds=wait_seconds,
    )


def _vector(result: Any) -> Vector:
    if not isinstance(result, list):
        raise _malformed("has no list of results")
    labels = tuple([_labels(it) for it in result])
    if len(set(labels)) != len(labels):
        raise _malformed("has one series twice")
    return Vector(LabelColumn(labels), np.array([_value(it.get("value")) for it in result], float))


def _labels(element: Any) -> Labels:
    metric = element.get("metric") if isinstance(element, dict) else None
    if not isinstance(metric, dict):
        raise _malformed("has an element without labels")
    if not all(isinstance(it, str) for it in metric.values()):
        raise _malformed("has a label that is not text")
    if "histogram" in element:
        raise _malformed("has a native histogram, which no rule here can use")
    return labels_of(metric)


def _value(pair: Any) -> float:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
        raise _malformed("has a value that is no pair of time and text")
    try:
        value = float(pair[1])
    except ValueError:
        raise _malformed(f"has a value that is no number: {_shown(pair[1])}") from None
    return math.nan if math.isnan(value) else value


def _shown(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _malformed(what: str) -> SourceError:
    message = f"the answer {what}: is source.url a server that speaks Prometheus's API?"
    return SourceError(message, reason=EdgeReason.PARSE)
