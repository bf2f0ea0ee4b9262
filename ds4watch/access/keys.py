"""API keys: made from random bytes, kept as digests, found in constant time."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable

from ds4watch.model.service_policy import ApiKey

_PREFIX = "ds4-"
_MIN_RANDOM_BYTES = 16


def new_secret(random_bytes: bytes) -> str:
    """Return a printable secret made of `random_bytes`. Raises ValueError for fewer than 16."""
    if len(random_bytes) < _MIN_RANDOM_BYTES:
        message = f"a secret needs at least {_MIN_RANDOM_BYTES} random bytes"
        raise ValueError(message)
    return _PREFIX + base64.urlsafe_b64encode(random_bytes).rstrip(b"=").decode("ascii")


def digest(secret: str) -> str:
    """Return the hex SHA-256 of a secret: the only form that is stored."""
    # Headers reach us with undecodable bytes as lone surrogates; they must not raise here.
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class KeyTable:
    """The keys of a board, by digest: made once a board, asked once a request."""

    __slots__ = ("_by_digest", "_by_name")

    def __init__(self, keys: Iterable[ApiKey] = ()) -> None:
        listed = tuple(keys)
        self._by_digest = {_bytes(key.sha256.lower()): key for key in listed if not key.signing}
        self._by_name = {key.name: key for key in listed if key.signing}

    def __bool__(self) -> bool:
        return bool(self._by_digest or self._by_name)

    def find(self, secret: str) -> ApiKey | None:
        """Return the key whose secret this is.

        What is looked up is a digest: how long that takes tells nothing of a secret.
        """
        return self.find_digest(digest(secret).encode("ascii"))

    def find_digest(self, wanted: bytes) -> ApiKey | None:
        """Return the key whose secret has this digest."""
        key = self._by_digest.get(wanted)
        if key is None or not hmac.compare_digest(_bytes(key.sha256.lower()), wanted):
            return None
        return key

    def signer(self, name: str) -> ApiKey | None:
        """Return the key of a name, if its requests are signed."""
        return self._by_name.get(name)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def bearer_token(header: str | None) -> str | None:
    """Return the token of an `Authorization: Bearer …` header, None if there is none."""
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token else None
