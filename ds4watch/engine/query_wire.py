"""What the daemon and its query process say to each other: frames of a length and bytes.

A request is one frame of JSON. An answer is a frame of JSON, and, if that says so, another: with
arrays, steps (k), values (n, k) as float64, there (n, k) as bytes, to a RangeQuery; to a Question,
the body of an HTTP answer.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

import numpy as np

from ds4watch.model.errors import (
    BadQueryError,
    Ds4watchError,
    EdgeReason,
    QueryError,
    QueryTimeoutError,
    StoreError,
)
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.question import Asked, Question
from ds4watch.promql.columns import LabelColumn
from ds4watch.promql.result import Matrix

LENGTH = struct.Struct("<Q")
_MOST_BYTES = 1 << 30


class Fault(StrEnum):
    """Who has to mend what made a query fail."""

    QUERY = "query"
    BAD = "bad"
    TIMEOUT = "timeout"
    STORE = "store"


_ERRORS: Mapping[Fault, type[QueryError]] = {
    Fault.BAD: BadQueryError,
    Fault.TIMEOUT: QueryTimeoutError,
    Fault.QUERY: QueryError,
}
"""The general one last."""


@dataclass(frozen=True, slots=True)
class RangeQuery:
    """An expression at start, start + step, … up to end."""

    query: str
    start: UnixSeconds
    end: UnixSeconds
    step_seconds: float


def frame(body: bytes) -> bytes:
    """Return bytes with their length before them."""
    return LENGTH.pack(len(body)) + body


def length_of(head: bytes) -> int:
    """Return how many bytes follow. Raises ValueError on what cannot be."""
    (length,) = LENGTH.unpack(head)
    if length > _MOST_BYTES:
        message = f"a frame of {length} bytes"
        raise ValueError(message)
    return int(length)


def request_bytes(request: RangeQuery | Question) -> bytes:
    """Return a request as the body of a frame."""
    return json.dumps(asdict(request)).encode()


def request_from(body: bytes) -> RangeQuery | Question:
    """Read what `request_bytes` made."""
    told = json.loads(body)
    if "asked" not in told:
        return RangeQuery(**told)
    selectors = tuple(told["selectors"])
    return Question(**{**told, "asked": Asked(told["asked"]), "selectors": selectors})


def matrix_frames(matrix: Matrix) -> tuple[bytes, bytes]:
    """Return a result as the bodies of two frames."""
    head = {"labels": matrix.labels.sets, "steps": len(matrix.steps)}
    arrays = (matrix.steps, matrix.values, matrix.there)
    return json.dumps(head).encode(), b"".join(array.tobytes() for array in arrays)


def body_frames(body: bytes) -> tuple[bytes, bytes]:
    """Return the body of an HTTP answer as the bodies of two frames."""
    return b"{}", body


def fault_frame(error: Exception) -> bytes:
    """Return an error as the body of a frame."""
    fault = next((it for it, kind in _ERRORS.items() if isinstance(error, kind)), Fault.STORE)
    position = getattr(error, "position", None)
    told = {"fault": fault.value, "message": str(error), "position": position}
    return json.dumps(told).encode()


def error_from(head: bytes) -> Ds4watchError | None:
    """Return the error that the first frame of an answer tells; None if a second one follows."""
    told = json.loads(head)
    if "fault" not in told:
        return None
    kind = _ERRORS.get(told["fault"])
    if kind is not None:
        return kind(told["message"], position=told["position"])
    return StoreError(told["message"], reason=EdgeReason.OTHER, retryable=True)


def matrix_from(head: bytes, body: bytes) -> Matrix:
    """Read what `matrix_frames` made."""
    told = json.loads(head)
    sets = tuple(tuple((name, value) for name, value in labels) for labels in told["labels"])
    steps, cells = told["steps"], len(sets) * told["steps"]
    numbers = np.frombuffer(body, dtype=np.float64, count=steps + cells)
    there = np.frombuffer(body, dtype=np.bool_, offset=numbers.nbytes)
    return Matrix(
        labels=LabelColumn(sets),
        steps=numbers[:steps],
        values=numbers[steps:].reshape(len(sets), steps),
        there=there.reshape(len(sets), steps),
    )
