"""Whether a worker serves the names that requests will be sent to it under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ds4watch.model.errors import EdgeReason, WorkerError


class Lists(Protocol):
    """Who lists its models."""

    async def models(self) -> tuple[str, ...]:
        """Return the names that are served."""
        ...


async def expect_names(worker: Lists, names: Sequence[str]) -> None:
    """Raise WorkerError if the worker lists its models and one of `names` is not among them.

    A canary proves the first name only, and that only to who answers on the port. One without
    such a list is let pass: the canary decides.
    """
    try:
        listed = await worker.models()
    except WorkerError as error:
        if error.retryable or error.reason not in (EdgeReason.STATUS, EdgeReason.PARSE):
            raise
        return
    missing = [name for name in names if name not in listed]
    if listed and missing:
        message = f"it does not serve {', '.join(missing)}; /v1/models lists {', '.join(listed)}"
        raise WorkerError(message, reason=EdgeReason.OTHER)
