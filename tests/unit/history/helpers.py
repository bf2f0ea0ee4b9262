from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from ds4watch.model.series import STALE_NAN_BITS, FloatArray

ODD_BITS = (
    STALE_NAN_BITS,
    0x7FF8000000000000,  # the usual NaN
    0x7FF0000000000001,  # a signalling one
    0xFFF8000000000123,  # negative, with a payload
    0x7FF0000000000000,  # +Inf
    0xFFF0000000000000,  # -Inf
    0x8000000000000000,  # -0
    0x0000000000000000,  # +0
    0x0000000000000001,  # the smallest
    0x43E0000000000000,  # 2**63, which no int64 holds
    0xC3E0000000000000,  # -2**63, which one does
)
bits = st.integers(0, 2**64 - 1) | st.sampled_from(ODD_BITS)


def floats(page: list[int]) -> FloatArray:
    return np.array(page, dtype=np.uint64).view(np.float64)


def same(left: FloatArray, right: FloatArray) -> bool:
    """Whether every bit is the same."""
    return left.shape == right.shape and bool(
        (np.ascontiguousarray(left).view("u8") == np.ascontiguousarray(right).view("u8")).all()
    )
