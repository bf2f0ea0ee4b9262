"""The address of a PostgreSQL database: whether it can be one, and how it is shown."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode, urlsplit

SCHEMES = ("postgresql", "postgres")
_HIDDEN = "***"


def fault_of(url: str) -> str | None:
    """Return what is wrong with `store.url`, without quoting it; None if nothing is."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises ValueError
    except ValueError:
        return "is no address: host or port cannot be read"
    if parts.scheme not in SCHEMES:
        return "must begin with postgresql://"
    if not parts.path.strip("/"):
        return "must name a database"
    return None


def without_password(url: str) -> str:
    """Return the address with no secret in it, fit to be shown."""
    parts = urlsplit(url)
    user, has_user, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0]
    query = [
        (key, _HIDDEN if "pass" in key.lower() else value)
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
    ]
    asked = f"?{urlencode(query, safe='/*')}" if query else ""
    return f"{parts.scheme}://{name}{has_user}{host}{parts.path}{asked}"
