"""Text of `ds4watch.yml` or of a profile → typed values, or one located finding a fault."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeVar

from pydantic import ValidationError

from ds4watch.config.checks import check_profile, check_settings
from ds4watch.config.document import Document, read_document
from ds4watch.config.plain import findings_of
from ds4watch.config.profile import Profile
from ds4watch.config.section import Section
from ds4watch.config.settings import Settings
from ds4watch.model.errors import ConfigError, Located

_S = TypeVar("_S", bound=Section)


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """A profile, and where each of its keys stands."""

    profile: Profile
    document: Document


def load_settings(text: str, file: str) -> Settings:
    """Read the settings. Raises ConfigError with one finding for each fault in the file."""
    settings, document = load_section(text, file, Settings)
    _raise_if_any(document, check_settings(settings, document))
    return settings


def read_profile(text: str, file: str) -> ProfileFile:
    """Read a profile; its name has to be the file's stem. Raises ConfigError."""
    profile, document = load_section(text, file, Profile)
    _raise_if_any(document, check_profile(profile, document, PurePath(file).stem))
    return ProfileFile(profile, document)


def load_section(
    text: str, file: str, model: type[_S], *, numbers_as_text: bool = False
) -> tuple[_S, Document]:
    """Read a file of any section type, with its document for cross-checks. Raises ConfigError."""
    document = read_document(text, file, numbers_as_text=numbers_as_text)
    # By way of JSON: strict, so that `port: true` is no 1, and yet lists become tuples.
    as_json = json.dumps(document.value, default=str)
    try:
        loaded = model.model_validate_json(as_json, strict=True)
    except ValidationError as error:
        known = {(finding.field, finding.line) for finding in document.findings}
        found = findings_of(error, document, model)
        fresh = [finding for finding in found if (finding.field, finding.line) not in known]
        raise ConfigError(*_in_order([*document.findings, *fresh])) from error
    _raise_if_any(document, [])
    return loaded, document


def _raise_if_any(document: Document, more: list[Located]) -> None:
    findings = [*document.findings, *more]
    if findings:
        raise ConfigError(*_in_order(findings))


def _in_order(findings: list[Located]) -> list[Located]:
    return sorted(findings, key=lambda finding: finding.line or 0)
