"""The reference of all settings, made from the settings tree; docs/configuration.md is this."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ds4watch.config.plain import section_in
from ds4watch.config.profile import Profile
from ds4watch.config.settings import Settings

_UNITS = ("seconds", "hours", "days", "bytes", "mib", "tokens", "ratio")
_NAMES: dict[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
}
_INTRO = """\
# Configuration

<!-- Made by `ds4watch config reference`; change the settings tree, not this file. -->

`ds4watch.yml` is looked for in this order: `--config FILE`, `$DS4WATCH_CONFIG`, `./ds4watch.yml`,
`/etc/ds4watch/ds4watch.yml`. Without one, the defaults below hold. Every key is optional; an
unknown key is an error. `ds4watch check` names each fault with its file and line, and exits with 2.
Relative paths start from the folder of the settings file.

```yaml
admin:
  port: 9464
fleet:
  workers:
    - profile: tiny-full
    - profile: tiny-quantized
cost:
  currency: EUR
  prices:
    - per_hour: 1.90
```

The state folder is `state_dir`, else `$STATE_DIRECTORY` (set by systemd), else
`$XDG_STATE_HOME/ds4watch`, else `~/.local/state/ds4watch`.

## The tokens of the admin API

At its first start the daemon makes a secret for each role, writes them to `viewer.token`,
`operator.token` and `admin.token` in the state folder (readable by its owner only), and keeps
nothing but their SHA-256 in memory. The command line reads `admin.token`; any other client sends a
token as `Authorization: Bearer …`. Tokens for people and programs elsewhere are made by
`ds4watch tokens create NAME --role viewer`, and stand in the file `tokens` of the state folder, one
a line, as `role sha256 name`. `ds4watch tokens rotate NAME` and `revoke NAME` change them. A daemon
that runs obeys at once, and notes each change in its audit.

While the admin API is bound to loopback, reading is open and every change needs an operator's or
admin's token. On any other address, everything needs a token.
`$DS4WATCH_TOKEN` overrides the file for the command line.

## Settings of `ds4watch.yml`
"""
_PROFILE_INTRO = """
## Profiles

A profile is one YAML file that says how a worker is started. Its `name` is the file's name without
`.yml`. Profiles are looked for in `fleet.profiles_dir`, then among the shipped ones.
"""


class SettingRow(NamedTuple):
    """One setting, as the reference shows it. `unit` is empty for what has none."""

    key: str
    type: str
    default: str
    unit: str
    description: str


def settings_reference() -> tuple[SettingRow, ...]:
    """Return every key of `ds4watch.yml`."""
    return tuple(_rows(Settings, ""))


def profile_reference() -> tuple[SettingRow, ...]:
    """Return every key of a profile file."""
    return tuple(_rows(Profile, ""))


def render_reference() -> str:
    """Return the whole of docs/configuration.md."""
    settings = _table(settings_reference())
    return f"{_INTRO}\n{settings}{_PROFILE_INTRO}\n{_table(profile_reference())}"


def _table(rows: tuple[SettingRow, ...]) -> str:
    lines = ["| Key | Type | Default | Unit | Meaning |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        cells = (f"`{row.key}`", row.type, row.default, row.unit, row.description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _rows(model: type[BaseModel], prefix: str) -> Iterator[SettingRow]:
    for name, info in model.model_fields.items():
        key = f"{prefix}{name}"
        section = section_in(info.annotation)
        if section is None:
            yield _row(key, info)
        else:
            yield from _rows(section, f"{key}{_joint(info.annotation)}")


def _joint(annotation: Any) -> str:
    if get_origin(annotation) is dict:
        return ".<name>."
    return "[]." if _is_list(annotation) else "."


def _is_list(annotation: Any) -> bool:
    return get_origin(annotation) is tuple or any(
        get_origin(part) is tuple for part in get_args(annotation)
    )


def _row(key: str, info: FieldInfo) -> SettingRow:
    last = key.rsplit("_", 1)[-1]
    unit = last if last in _UNITS else ""
    return SettingRow(
        key, _type_name(info.annotation), _default(info), unit, info.description or ""
    )


def _type_name(annotation: Any) -> str:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type_name(inner[0])
    if annotation in _NAMES:
        return _NAMES[annotation]
    if origin is tuple:
        return f"list of {_type_name(inner[0])}"
    if origin is dict:
        return f"mapping of text to {_type_name(inner[1])}"
    if origin in (Union, UnionType):
        return " or ".join(_type_name(part) for part in inner if part is not type(None))
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return " or ".join(f"`{member.value}`" for member in annotation)
    return {"Decimal": "number", "datetime": "instant"}.get(annotation.__name__, "text")


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "required"
    value = info.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ((), {}, ""):
        return "-"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value.value if isinstance(value, Enum) else value}`"
