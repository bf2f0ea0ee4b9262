"""What things cost, as a person writes it."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

from pydantic import Field, model_validator

from ds4watch.config.budgets import BudgetSettings
from ds4watch.config.section import Section

_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


class Price(Section):
    """The price of an hour of one worker from an instant on. History is never priced anew."""

    profile: str = Field("*", description="Profile (pool) it holds for; * for all others.")
    host: str = Field("*", min_length=1, description="Host of workers it holds for; * for all.")
    gpu: str | None = Field(
        None,
        min_length=1,
        description="Part of the name of this machine's GPUs, such as H100: it holds for workers "
        "on this machine if all of them are of that model.",
    )
    per_hour: Decimal = Field(Decimal("0.95"), ge=0, description="Price of a worker hour.")
    per_gpu_hour: Decimal | None = Field(
        None, ge=0, description="Price of a GPU for an hour, in place of `per_hour`."
    )
    valid_from: datetime = Field(_ALWAYS, description="Instant from which it holds (UTC).")

    @model_validator(mode="after")
    def _is_one(self) -> Price:
        if self.per_gpu_hour is not None and "per_hour" in self.model_fields_set:
            message = "a price is of a worker hour or of a GPU hour; write two"
            raise ValueError(message)
        if self.gpu is not None and self.host != "*":
            message = "GPUs are known of this machine alone; leave host or gpu away"
            raise ValueError(message)
        return self


class StoragePriceSettings(Section):
    """The price of keeping a GB (1e9 bytes) for an hour from an instant on."""

    what: Literal["*", "history", "logs", "kv_offload"] = Field(
        "*", description="What it holds for: history, logs, kv_offload, or * for all others."
    )
    per_gb_hour: Decimal = Field(
        Decimal("0.00005479452"), ge=0, description="Price; by default what OpenCost takes."
    )
    valid_from: datetime = Field(_ALWAYS, description="Instant from which it holds (UTC).")


class CostSettings(Section):
    """Money."""

    currency: str = Field("USD", pattern=r"^[A-Z]{3}$", description="ISO 4217 code.")
    prices: tuple[Price, ...] = Field(
        (Price(),),
        description="Price list. Of several that hold, the one that names most closely whom it is "
        "for (profile, then host, then gpu), of equal ones the newest.",
    )
    storage_prices: tuple[StoragePriceSettings, ...] = Field(
        (StoragePriceSettings(),), description="Price list of what is kept, beside the workers."
    )
    budgets: tuple[BudgetSettings, ...] = Field(
        (), max_length=200, description="What may be spent, at most 200 of them."
    )
    ease_keys_from_level: int = Field(
        1,
        ge=0,
        le=9,
        description="Level of the policy's ladder whose gentle limits a key, or requests for a "
        "model, get once its own budget is about to run out, and the next level's when it nearly "
        "has; 0: none.",
    )
