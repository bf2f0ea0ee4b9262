"""Lists of targets as file_sd and http_sd give them: JSON or YAML → values. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from ds4watch.config.scrape import LABEL_NAME_PATTERN
from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.series import Labels, labels_of

MAX_LIST_BYTES = 10 << 20
_LABEL_NAME = re.compile(LABEL_NAME_PATTERN)
# The C loader is ten times as fast; both leave every scalar the text that it was.
_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


@dataclass(frozen=True, slots=True)
class Listing:
    """Addresses that have labels in common."""

    addresses: tuple[str, ...]
    labels: Labels = ()


def read_json(body: bytes, meta: Mapping[str, str]) -> tuple[Listing, ...]:
    """Read a JSON list. `meta` is added to all labels. Raises ScrapeError saying what is wrong."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _fault(f"is not JSON: {error}") from error
    return _listings(data, meta)


def read_yaml(body: bytes, meta: Mapping[str, str]) -> tuple[Listing, ...]:
    """Read a YAML list; see `read_json`. An empty file is an empty list."""
    try:
        data = yaml.load(body, Loader=_LOADER)  # noqa: S506 - a loader that makes texts only
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" in line {mark.line + 1}" if mark else ""
        raise _fault(f"is not YAML: {error.problem or error.context}{line}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _fault(f"is not YAML: {type(error).__name__}") from error
    return _listings([] if data is None else data, meta)


def _fault(message: str) -> ScrapeError:
    return ScrapeError(" ".join(message.split()), reason=EdgeReason.PARSE)


def _listings(data: Any, meta: Mapping[str, str]) -> tuple[Listing, ...]:
    if not isinstance(data, list):
        raise _fault("must be a list of {targets, labels}")
    return tuple(_listing(item, f"[{at}]", meta) for at, item in enumerate(data))


def _listing(item: Any, where: str, meta: Mapping[str, str]) -> Listing:
    if not isinstance(item, dict):
        raise _fault(f"{where}: must be a mapping of targets and labels")
    unknown = sorted(map(str, item.keys() - {"targets", "labels"}))
    if unknown:
        raise _fault(f"{where}: unknown key {unknown[0]!r} (known: targets, labels)")
    targets, labels = item.get("targets") or [], item.get("labels") or {}
    if not isinstance(targets, list):
        raise _fault(f"{where}.targets: must be a list")
    if not isinstance(labels, dict):
        raise _fault(f"{where}.labels: must be a mapping")
    addresses = tuple(_text(it, f"{where}.targets[{at}]") for at, it in enumerate(targets))
    pairs = {_name(name, where): _text(it, f"{where}.labels.{name}") for name, it in labels.items()}
    return Listing(addresses, labels_of({**pairs, **meta}))


def _name(name: Any, where: str) -> str:
    if not isinstance(name, str) or not _LABEL_NAME.fullmatch(name):
        raise _fault(f"{where}.labels: {name!r} is not the name of a label")
    return name


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _fault(f"{where}: must be text")
    if any("\ud800" <= char <= "\udfff" for char in value):  # JSON can say half a character
        raise _fault(f"{where}: is not text")
    return value
