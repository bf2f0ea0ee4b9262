"""Every table of the state database, in whichever module it is: what Alembic and tests go by."""

from __future__ import annotations

from ds4watch.history import ledger_models, quality_models, state_models
from ds4watch.history.state_models import STATE

__all__ = ["STATE", "ledger_models", "quality_models", "state_models"]
