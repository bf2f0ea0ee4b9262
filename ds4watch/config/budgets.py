"""Budgets as a person writes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Literal

from pydantic import Field, model_validator

from ds4watch.config.section import Section


class BudgetSettings(Section):
    """What all, a key or a model may cost in a period. It is told at 50, 80, 95, 100 and 120 %."""

    period: Literal["hour", "day", "month"] = Field(
        "month", description="Time that it is for: hour, day or month, each of UTC."
    )
    limit: Decimal = Field(gt=0, description="Money for that time, in the currency.")
    key: str | None = Field(None, description="Key that it is for; all if neither is given.")
    model: str | None = Field(None, description="Served model that it is for.")

    @model_validator(mode="after")
    def _is_for_one(self) -> BudgetSettings:
        if self.key is not None and self.model is not None:
            message = "a budget is for a key or for a model; write two"
            raise ValueError(message)
        return self
