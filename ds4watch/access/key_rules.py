"""What a key that is known may not do all the same, as OpenAI tells it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ds4watch.model.ports import UnixSeconds
from ds4watch.model.service_policy import ApiKey


@dataclass(frozen=True, slots=True)
class Denied:
    """Why a request is refused: the answer's status and its error object."""

    status: int
    message: str
    code: str
    kind: str
    param: str | None = None
    retry_after_seconds: int = 1
    """Whole seconds until it may be asked again; of a 429 alone."""


def denied(key: ApiKey, now: UnixSeconds) -> Denied | None:
    """Return why nothing may be asked with a key now: it has expired, its money is spent."""
    if key.expires_at is not None and now >= key.expires_at:
        return Denied(401, "This API key has expired", "invalid_api_key", "authentication_error")
    if key.left is not None and key.left.is_spent(now):
        seconds = max(1, math.ceil(key.left.until_at - now))
        message = f"You exceeded your current quota: the budget begins anew in {seconds} s"
        quota = "insufficient_quota"
        return Denied(429, message, quota, quota, retry_after_seconds=seconds)
    return None


def denied_model(key: ApiKey, model: str) -> Denied | None:
    """Return why a model may not be asked with a key, in the words for one that is not there."""
    if may_ask(key, model):
        return None
    message = f"The model {model!r} does not exist or you do not have access to it"
    return Denied(404, message, "model_not_found", "invalid_request_error", "model")


def may_ask(key: ApiKey, model: str) -> bool:
    """Return whether a model is within a key's scope."""
    return not key.limits.models or model in key.limits.models
