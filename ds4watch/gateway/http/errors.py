"""What can be wrong with what came in."""

from __future__ import annotations

from ds4watch.model.errors import Ds4watchError


class BadRequestError(Ds4watchError):
    """A request that is not answered but refused, and whose connection is closed."""

    def __init__(self, status: int, message: str, code: str = "bad_request") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class BodyTooLargeError(Ds4watchError):
    """A body is larger than it may be."""


class BrokenBodyError(Ds4watchError):
    """A body is not framed as HTTP says."""


class WorkerGoneError(Ds4watchError):
    """A worker cannot be reached at all."""


class StaleConnectionError(Ds4watchError):
    """A connection kept since an earlier answer had been closed: nothing came on it."""


class BrokenAnswerError(Ds4watchError):
    """A worker's answer broke off, is no HTTP, or is larger than we are willing to hold."""
