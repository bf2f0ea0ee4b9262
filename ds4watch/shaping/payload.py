"""The body for the worker as bytes: the client's own, as far as nothing was changed."""

from __future__ import annotations

import json

from ds4watch.shaping.request import USAGE_ASKED, Shaped

_ENCODER = json.JSONEncoder(separators=(",", ":"))
_USAGE_FIELD = b',"stream_options":' + _ENCODER.encode(USAGE_ASKED).encode() + b"}"


def payload_of(shaped: Shaped, raw: bytes) -> bytes:
    """Return the bytes of a body that is no longer what the client's bytes say."""
    if shaped.only_asks_usage and raw.endswith(b"}"):
        return raw[:-1] + _USAGE_FIELD
    return _ENCODER.encode(shaped.body).encode()
