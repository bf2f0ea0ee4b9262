"""The file of rules that answers are filtered by."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from ds4watch.config.loader import load_section
from ds4watch.config.section import Section
from ds4watch.model.errors import ConfigError, Located


class FilterAction(StrEnum):
    """What becomes of text that a rule finds: put out of sight, the answer's end, or only told."""

    MASK = "mask"
    STOP = "stop"
    FLAG = "flag"


class FilterPlace(StrEnum):
    """Which text of an answer a rule looks at."""

    CHAT = "chat"
    TEXT = "text"
    REASONING = "reasoning"
    TOOLS = "tools"


_Word = Annotated[str, Field(min_length=1, max_length=128)]


class FilterRule(Section):
    """One rule: an expression of RE2, or words, in the file itself or one a line in another."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,40}$")
    regex: str | None = Field(None, min_length=1, max_length=2000)
    words: tuple[_Word, ...] = Field((), max_length=20_000)
    words_file: str | None = None
    ignore_case: bool = True
    whole_words: bool = True
    """Only where no letter or digit stands beside; for words."""
    action: FilterAction = FilterAction.MASK
    where: tuple[FilterPlace, ...] = Field(
        (FilterPlace.CHAT, FilterPlace.TEXT, FilterPlace.REASONING), min_length=1
    )
    models: tuple[str, ...] = ()
    """Models that it is for, asked for or answering; empty: all."""
    keys: tuple[str, ...] = ()
    """Names of keys that it is for; empty: all, and requests without one."""

    @model_validator(mode="after")
    def _says_what_it_looks_for(self) -> FilterRule:
        by_words = bool(self.words) or self.words_file is not None
        if (self.regex is not None) == by_words:
            message = "a rule needs either `regex`, or `words` or `words_file`"
            raise ValueError(message)
        return self


class FilterFile(Section):
    """The whole file. `mask` takes the place of what is masked.

    hold_chars: no match is longer; so much text of a stream is held back at most.
    """

    mask: str = Field("***", max_length=64)
    hold_chars: int = Field(256, ge=16, le=4096)
    rules: tuple[FilterRule, ...] = Field((), max_length=200)


def load_filter(text: str, file: str, read: Callable[[str], str]) -> FilterFile:
    """Read the file, and with `read` the word lists that it names, into `words`.

    Raises ConfigError with one finding for each fault.
    """
    found, document = load_section(text, file, FilterFile)
    names = [rule.name for rule in found.rules]
    findings: list[Located] = []
    rules: list[FilterRule] = []
    for number, rule in enumerate(found.rules):
        if names.count(rule.name) > 1:
            message = f"there are two rules {rule.name!r}"
            findings.append(document.finding(("rules", number, "name"), message))
        if rule.words_file is not None:
            listed = read(rule.words_file).splitlines()
            words = (line.partition("#")[0].strip() for line in listed)
            rule = rule.model_copy(  # noqa: PLW2901 - the same rule, with its words
                update={"words": (*rule.words, *(word[:128] for word in words if word))}
            )
        rules.append(rule)
    if findings:
        raise ConfigError(*findings)
    return found.model_copy(update={"rules": tuple(rules)})
