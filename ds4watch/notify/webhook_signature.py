"""The signature of our webhook: HMAC-SHA256 over the time and the body."""

from __future__ import annotations

import hashlib
import hmac

TIME_HEADER = "X-Ds4-Timestamp"
SIGNATURE_HEADER = "X-Ds4-Signature"


def signed_headers(secret: str, body: bytes, now: float) -> dict[str, str]:
    """Return what proves that a body is ours, and how old it is."""
    stamp = str(int(now))
    base = b"v1:" + stamp.encode() + b":" + body
    digest = hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()
    return {TIME_HEADER: stamp, SIGNATURE_HEADER: f"v1={digest}"}
