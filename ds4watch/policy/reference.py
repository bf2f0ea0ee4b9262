"""The reference of the policy file, made from its schema; docs/policy.md holds it."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ds4watch.policy.schema import Action, Approval, Binding, Level, PolicyFile, Pool, Verify

_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("", PolicyFile),
    ("pools.<name>.", Pool),
    ("pools.<name>.ladder[].", Level),
    ("actions.<name>.", Action),
    ("actions.<name>.approval.", Approval),
    ("actions.<name>.verify.", Verify),
    ("bindings[].", Binding),
)
_HOLDERS = frozenset({"pools", "actions", "bindings", "ladder", "approval", "verify"})


def policy_reference() -> str:
    """Return the table of all keys, in Markdown."""
    lines = ["| Key | Default | Meaning |", "| --- | --- | --- |"]
    for prefix, section in _SECTIONS:
        lines += [
            f"| `{prefix}{name}` | {default} | {told} |" for name, default, told in _rows(section)
        ]
    return "\n".join(lines) + "\n"


def _rows(section: type[BaseModel]) -> Iterator[tuple[str, str, str]]:
    for name, field in section.model_fields.items():
        if section is PolicyFile and name in _HOLDERS:
            continue  # told by the keys within
        yield name, _default(field), (field.description or "").replace("|", "\\|")


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value: Any = field.default
    if value is None or isinstance(value, BaseModel) or value in ((), {}) or value == "":
        return "-"
    if isinstance(value, StrEnum | str):
        return f"`{value}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"
