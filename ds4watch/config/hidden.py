"""Settings as they may be shown: without what lets anybody in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

HIDDEN = "(hidden)"
_SECRET = re.compile(r"token|secret|password|credential|authorization|webhook|api_?key", re.I)
_ALL_SECRET = re.compile(r"headers|environment|params", re.I)
_LOGIN = re.compile(r"(?<=://)[^/@\s]*@")
_QUERY = re.compile(r"(://[^\s?#]*)\?\S*")


def shown(model: BaseModel) -> dict[str, Any]:
    """Return settings, or a profile, JSON-ready.

    Hidden are secrets by type and by name, all headers, query parameters and variables of the
    environment, and in addresses user, password and query. Names of files are shown.
    """
    found: dict[str, Any] = _shown(model.model_dump(mode="json"), hide=False)
    return found


def _shown(value: Any, *, hide: bool) -> Any:
    if isinstance(value, Mapping):
        return {name: _shown(it, hide=_hides(str(name), hide=hide)) for name, it in value.items()}
    if isinstance(value, list):
        return [_shown(it, hide=hide) for it in value]
    if isinstance(value, str):
        return HIDDEN if hide and value else _without_login(value)
    return value


def _hides(name: str, *, hide: bool) -> bool:
    if name.endswith(("_file", "_files")):
        return False
    return hide or bool(_SECRET.search(name) or _ALL_SECRET.fullmatch(name.removeprefix("cpu_")))


def _without_login(text: str) -> str:
    return _QUERY.sub(rf"\1?{HIDDEN}", _LOGIN.sub(f"{HIDDEN}@", text))
