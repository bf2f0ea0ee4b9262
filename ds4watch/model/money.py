"""Money is an integer count of 1e-9 of the currency: sums are exact."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from typing import TypeAlias

Nanos: TypeAlias = int
"""1e-9 of the currency."""

NANOS_PER_UNIT = 10**9


def nanos_from_decimal(amount: Decimal) -> Nanos:
    """Return `amount` of the currency as nanos, rounded half to even."""
    return int((amount * NANOS_PER_UNIT).to_integral_value(rounding=ROUND_HALF_EVEN))
