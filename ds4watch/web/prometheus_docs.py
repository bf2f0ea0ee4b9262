"""The routes of the Prometheus HTTP API in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TEXT: Final = {"type": "string"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_PARAMETERS: Final[Mapping[str, str]] = {
    "query": "A PromQL expression",
    "time": "Unix seconds or RFC 3339; now if absent",
    "start": "Unix seconds or RFC 3339",
    "end": "Unix seconds or RFC 3339",
    "step": "Seconds, or as 5m",
    "timeout": "Seconds, or as 5m",
    "lookback_delta": "How long a sample holds: seconds, or as 5m",
    "limit": "Elements at most; 0 for all",
    "match[]": "A selector; any of several may match",
    "type": "alert or record",
    "rule_name[]": "Rules of these names only",
    "rule_group[]": "Groups of these names only",
    "file[]": "Groups of these files only",
    "exclude_alerts": "true to leave alerts out",
    "state": "active, dropped or any",
    "scrapePool": "Targets of this group only",
    "metric": "This family only",
}
_RANGE = ("start", "end")
_OPTIONS = ("timeout", "lookback_delta", "limit")
ROUTES: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "/query": ("An expression at an instant", ("query", "time", *_OPTIONS)),
    "/query_range": ("An expression over a time", ("query", *_RANGE, "step", *_OPTIONS)),
    "/series": ("Which series there are", ("match[]", *_RANGE, "limit")),
    "/labels": ("Names of labels", ("match[]", *_RANGE, "limit")),
    "/label/{name}/values": ("Values of a label", ("match[]", *_RANGE, "limit")),
    "/rules": (
        "Rules, and how they stand",
        ("type", "rule_name[]", "rule_group[]", "file[]", "exclude_alerts"),
    ),
    "/alerts": ("Alerts that are pending or firing", ()),
    "/targets": ("What is scraped", ("state", "scrapePool")),
    "/metadata": ("Type and help of metrics", ("metric", "limit")),
    "/status/buildinfo": ("The version of Prometheus that is spoken", ()),
    "/query_exemplars": ("Exemplars: none are kept", ("query", *_RANGE)),
    "/format_query": ("An expression, written anew", ("query",)),
}
"""Title and parameters."""

_ANSWER: Final = {
    "type": "object",
    "required": ["status"],
    "properties": {
        "status": {"enum": ["success", "error"]},
        "data": {},
        "errorType": _TEXT,
        "error": _TEXT,
        "warnings": _TEXTS,
    },
}
_CONTENT: Final = {"application/json": {"schema": _ANSWER}}
ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": _CONTENT, "description": "As Prometheus answers"},
    400: {"content": _CONTENT, "description": "bad_data: a parameter is not as it should be"},
    422: {"content": _CONTENT, "description": "execution: the query cannot be evaluated"},
    500: {"content": _CONTENT, "description": "internal: the store cannot be read"},
    503: {"content": _CONTENT, "description": "timeout: it took too long"},
}


def documented(path: str, method: str) -> dict[str, Any]:
    """Return what the document says of a route beyond its answers."""
    _, names = ROUTES[path]
    if method == "POST":
        properties = {name: _schema(name) for name in names}
        form = {"schema": {"type": "object", "properties": properties}}
        return {"requestBody": {"content": {"application/x-www-form-urlencoded": form}}}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "description": _PARAMETERS[name], "schema": _schema(name)}
        for name in names
    ]
    if "{name}" in path:
        parameters.append({"name": "name", "in": "path", "required": True, "schema": _TEXT})
    return {"parameters": parameters}


def _schema(name: str) -> Mapping[str, Any]:
    return _TEXTS if name.endswith("[]") else _TEXT
