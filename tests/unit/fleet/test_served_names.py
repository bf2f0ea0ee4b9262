"""A worker has to serve every name that requests come under."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ds4watch.fleet.served_names import expect_names
from ds4watch.model.errors import EdgeReason, WorkerError


@dataclass(frozen=True, slots=True)
class Listing:
    names: tuple[str, ...] = ()
    error: WorkerError | None = None

    async def models(self) -> tuple[str, ...]:
        if self.error is not None:
            raise self.error
        return self.names


async def test_a_name_that_is_not_listed_is_told_with_what_is() -> None:
    with pytest.raises(WorkerError, match="does not serve chat; /v1/models lists base, sql"):
        await expect_names(Listing(("base", "sql")), ("base", "chat"))


@pytest.mark.parametrize(
    "worker",
    [
        Listing(("chat", "base", "an-adapter")),
        Listing(),
        Listing(error=WorkerError("404", reason=EdgeReason.STATUS)),
        Listing(error=WorkerError("no list", reason=EdgeReason.PARSE)),
    ],
)
async def test_who_lists_all_names_or_has_no_list_is_let_pass(worker: Listing) -> None:
    await expect_names(worker, ("base", "chat"))


@pytest.mark.parametrize(
    "error",
    [
        WorkerError("503", reason=EdgeReason.STATUS, retryable=True),
        WorkerError("nobody there", reason=EdgeReason.CONNECT, retryable=True),
    ],
)
async def test_who_cannot_be_asked_is_asked_again(error: WorkerError) -> None:
    with pytest.raises(WorkerError) as caught:
        await expect_names(Listing(error=error), ("base",))
    assert caught.value is error
