"""Errors in the shape that vLLM gives them."""

from __future__ import annotations

from typing import Any


class ApiError(Exception):
    """An error answer. `kind` is vLLM's `type`."""

    def __init__(self, status: int, kind: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param

    def as_json(self) -> dict[str, Any]:
        """Return the body."""
        return {
            "error": {
                "message": str(self),
                "type": self.kind,
                "param": self.param,
                "code": self.status,
            }
        }


def bad_request(message: str, *, param: str | None = None) -> ApiError:
    """Return a 400 of vLLM's own checks."""
    return ApiError(400, "BadRequestError", message, param=param)


def invalid_body(message: str, *, param: str | None = None) -> ApiError:
    """Return a 400 for a body that is not of the expected form."""
    return ApiError(400, "Bad Request", f"1 validation error:\n  {message}", param=param)


def unknown_model(name: str) -> ApiError:
    """Return the 404 for a model that is not served."""
    message = f"The model `{name}` does not exist."
    return ApiError(404, "NotFoundError", message, param="model")


def engine_failed() -> ApiError:
    """Return the 500 of an engine that broke."""
    message = "EngineCore encountered an issue. See stack trace (above) for the root cause."
    return ApiError(500, "InternalServerError", message)
