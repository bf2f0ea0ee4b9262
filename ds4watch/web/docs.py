"""What the OpenAPI document says of routes: refusals, headers, roles, examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from ds4watch.access.roles import Role
from ds4watch.web.bodies import Problem
from ds4watch.web.examples import ANSWERS, BODIES
from ds4watch.web.gate import SIGNED, Visit
from ds4watch.web.guard import PROBLEM_TYPE
from ds4watch.web.idempotency import HEADER, KEY_PATTERN
from ds4watch.web.who import ROLE_FIELD

PROBLEM_DOC: dict[str, Any] = {"content": {PROBLEM_TYPE: {"schema": Problem.model_json_schema()}}}
REFUSED: dict[int | str, dict[str, Any]] = {
    401: PROBLEM_DOC | {"description": "No token, or an unknown one"},
    403: PROBLEM_DOC | {"description": "Not allowed to this token, host or origin"},
    422: PROBLEM_DOC | {"description": "A parameter is not as it should be"},
    503: PROBLEM_DOC | {"description": "The store does not answer"},
}
REFUSED_WRITES: dict[int | str, dict[str, Any]] = REFUSED | {
    400: PROBLEM_DOC | {"description": "The body is not JSON, or a header is odd"},
    408: PROBLEM_DOC | {"description": "The body did not arrive in time"},
    409: PROBLEM_DOC | {"description": "It cannot be done, and why; or it is under way"},
    412: PROBLEM_DOC | {"description": "It is not as If-Match says"},
    413: PROBLEM_DOC | {"description": "The body is too large"},
}
MISSING: dict[int | str, dict[str, Any]] = {
    404: PROBLEM_DOC | {"description": "There is no such thing"}
}
_TAG = {"ETag": {"schema": {"type": "string"}, "description": "Changes as the answer does"}}


def documented(app: FastAPI, prefix: str) -> dict[str, Any]:
    """Return the OpenAPI document."""
    document = get_openapi(title=app.title, version=app.version, routes=app.routes)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path.startswith(prefix):
                _complete(operation, path.removeprefix(prefix), method)
            is_read = Visit(method.upper(), path=path).is_read
            usual = Role.VIEWER if is_read else Role.OPERATOR
            operation.setdefault(ROLE_FIELD, "none" if path in SIGNED else usual.value)
            operation["security"] = [] if path in SIGNED else [{"token": []}]
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes["token"] = {"type": "http", "scheme": "bearer"}
    return document


def _complete(operation: dict[str, Any], path: str, method: str) -> None:
    parameters = operation.setdefault("parameters", [])
    answers: dict[str, Any] = operation["responses"]
    if method == "get":
        answers["304"] = {"description": "As If-None-Match says"}
        parameters.append(_header("If-None-Match", "An ETag: 304 if it is still so"))
    else:
        parameters.append(_header(HEADER, "Sent again, it is answered as before", KEY_PATTERN))
        parameters.append(_header("If-Match", "An ETag: 412 unless it is still so"))
    for status, told in answers.items():
        content = told.get("content", {}).get("application/json")
        if content is None or not status.startswith("2"):
            continue
        if method == "get":
            told["headers"] = _TAG
        if (method, path) in ANSWERS:
            content["example"] = ANSWERS[method, path]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if body is not None and (method, path) in BODIES:
        body["example"] = BODIES[method, path]


def _header(name: str, told: str, pattern: str | None = None) -> dict[str, Any]:
    schema = {"type": "string", **({"pattern": f"^{pattern}$"} if pattern else {})}
    return {"name": name, "in": "header", "required": False, "description": told, "schema": schema}
