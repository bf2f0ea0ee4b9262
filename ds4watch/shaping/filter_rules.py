"""Rules of the output filter, made ready: each finds its matches in text that is still coming.

What a rule finds does not depend on how the text was cut: a match begins where `find` says once
no beginning of a match stands further left (`begun_at`), and is `hold_chars` long at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ds4watch.config.filter_file import FilterAction, FilterFile, FilterPlace, FilterRule
from ds4watch.model.errors import ConfigError, Located
from ds4watch.shaping.filter_regex import beginnings, compile_re2, has_edges


class Finder(Protocol):
    """Looks for the matches of one rule."""

    def find(self, text: str, begin: int) -> tuple[int, int] | None:
        """Return the first match in `text` from `begin` on, as it stands now."""
        ...

    def match_at(self, text: str, at: int) -> int | None:
        """Return where the match that begins at `at` ends."""
        ...

    def begun_at(self, text: str, begin: int) -> int:
        """Return the first place from which more text could make or lengthen a match."""
        ...

    def hint(self) -> str | None:
        """Return an expression that matches wherever these would in ASCII text, or more.

        At the text's end it matches the empty text. None if it would be too large.
        """
        ...


class RegexFinder:
    """Finds an expression."""

    def __init__(self, regex: str, *, ignore_case: bool, hold_chars: int) -> None:
        """Make ready; raise ValueError if the expression cannot be used on a stream."""
        flags = "(?i:" if ignore_case else "(?:"
        begun, whole = f"{flags}{beginnings(regex)})\\z", f"{flags}{regex})"
        self._hint = f"{whole}|{begun}"
        self._begun: Any = compile_re2(begun)
        self._whole: Any = compile_re2(whole)
        self._hold_chars = hold_chars
        self._has_edges = has_edges(regex)

    def find(self, text: str, begin: int) -> tuple[int, int] | None:
        """Return the first match from `begin` on."""
        while (match := self._whole.search(text, begin)) is not None:
            start = match.start()
            end = self.match_at(text, start)
            if end is not None:
                return start, end
            begin = start + 1
        return None

    def match_at(self, text: str, at: int) -> int | None:
        """Return where the match that begins at `at` ends."""
        limit = at + self._hold_chars
        if len(text) <= limit:
            match = self._whole.match(text, at)
            return None if match is None else int(match.end())
        match = self._whole.match(text, at, limit)
        if match is None or (self._has_edges and match.end() == limit):
            return None  # there, RE2 would take the cut for an edge
        return int(match.end())

    def begun_at(self, text: str, begin: int) -> int:
        """Return the first place that a match may have begun at."""
        match = self._begun.search(text, begin)
        return len(text) if match is None else int(match.start())

    def hint(self) -> str:
        """Return an expression for what is found or begun."""
        return self._hint


class WordFinder:
    """Finds words of a list, the longest that fits first."""

    def __init__(self, words: Iterable[str], *, ignore_case: bool, whole_words: bool) -> None:
        """Make ready; raise ValueError if there are none."""
        self._fold = _folded if ignore_case else str
        self._words = frozenset(self._fold(word) for word in words)
        if not self._words:
            message = "has no words"
            raise ValueError(message)
        self._whole_words = whole_words
        self._beginnings = frozenset(w[:n] for w in self._words for n in range(1, len(w) + 1))
        self._longest = max(map(len, self._words))
        self._lengths: dict[str, tuple[int, ...]] = {}
        for word in self._words:
            known = self._lengths.get(word[0], ())
            self._lengths[word[0]] = tuple(sorted({*known, len(word)}, reverse=True))
        by_length = sorted(self._words, key=len, reverse=True)
        self._any: Any = compile_re2("|".join(re.escape(word) for word in by_length))

    def find(self, text: str, begin: int) -> tuple[int, int] | None:
        """Return the first match from `begin` on."""
        folded = self._fold(text)
        while (match := self._any.search(folded, begin)) is not None:
            start = match.start()
            end = self._end(folded, start)
            if end is not None:
                return start, end
            begin = start + 1
        return None

    def match_at(self, text: str, at: int) -> int | None:
        """Return where the word that begins at `at` ends."""
        return self._end(self._fold(text), at)

    def begun_at(self, text: str, begin: int) -> int:
        """Return the first place that a word may have begun at."""
        folded = self._fold(text[-self._longest :])
        left_out = len(text) - len(folded)
        for at in range(max(0, begin - left_out), len(folded)):
            if folded[at:] in self._beginnings and not self._is_inside(text, left_out + at):
                return left_out + at
        return len(text)

    def hint(self) -> str | None:
        """Return an expression for what is found or begun, whatever stands behind it."""
        if sum(map(len, self._words)) > _MAX_HINT_CHARS:
            return None
        flags = "(?i:" if self._fold is _folded else "(?:"
        words = "|".join(self._hint_of(word) for word in sorted(self._words))
        return f"{flags}{words})|{flags}{beginnings(words)})\\z"

    def _hint_of(self, word: str) -> str:
        is_at_edge = self._whole_words and word[0].isalnum() and word[0].isascii()
        return rf"(?:\b|_){re.escape(word)}" if is_at_edge else re.escape(word)

    def _end(self, folded: str, at: int) -> int | None:
        if self._is_inside(folded, at):
            return None
        for length in self._lengths.get(folded[at : at + 1], ()):
            if folded[at : at + length] in self._words:
                end = at + length
                if not self._whole_words or not folded[end : end + 1].isalnum():
                    return end
        return None

    def _is_inside(self, text: str, at: int) -> bool:
        return self._whole_words and at > 0 and text[at - 1].isalnum()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the file with its finder."""

    name: str
    action: FilterAction
    where: frozenset[FilterPlace]
    models: frozenset[str]
    keys: frozenset[str]
    finder: Finder

    def is_for(self, *, key: str, models: Sequence[str]) -> bool:
        """Return whether it is for answers to this key, of one of these models."""
        if self.keys and key not in self.keys:
            return False
        return not self.models or any(model in self.models for model in models)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Rules that hold together for one text."""

    rules: tuple[Rule, ...]
    mask: str
    hold_chars: int
    quick: Any
    """Finds in ASCII text the first place where a rule may find or begin something, none missed.

    That is the text's end if there is none. None: rules have to be asked one by one.
    """


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules of a file."""

    rules: tuple[Rule, ...] = ()
    mask: str = "***"
    hold_chars: int = 256
    _known: dict[tuple[str, tuple[str, ...]], dict[FilterPlace, RuleSet]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def sets(self, *, key: str, models: tuple[str, ...]) -> dict[FilterPlace, RuleSet]:
        """Return the rules for an answer by the place they look at; empty: it passes as it is."""
        known = self._known.get((key, models))
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[(key, models)] = self._sets(key, models)
        return known

    def _sets(self, key: str, models: tuple[str, ...]) -> dict[FilterPlace, RuleSet]:
        mine = [rule for rule in self.rules if rule.is_for(key=key, models=models)]
        return {
            place: RuleSet(tuple(chosen), self.mask, self.hold_chars, _quick(chosen))
            for place in FilterPlace
            if (chosen := [rule for rule in mine if place in rule.where])
        }


_MAX_KNOWN = 1024
_MAX_HINT_CHARS = 4096
"""Of words, and of all rules together; more is slow to compile, and no quicker than the rules."""


def _quick(rules: Sequence[Rule]) -> Any:
    hints = [rule.finder.hint() for rule in rules]
    told = [hint for hint in hints if hint is not None]
    if len(told) < len(hints) or sum(map(len, told)) > 8 * _MAX_HINT_CHARS:
        return None
    try:
        return compile_re2("|".join(told))
    except ValueError:  # each is good, but together they are too large
        return None


def compile_filter(file: FilterFile, name: str) -> RuleBook:
    """Make the rules of a file ready. Raises ConfigError with one finding for each fault."""
    rules: list[Rule] = []
    findings: list[Located] = []
    for number, rule in enumerate(file.rules):
        try:
            rules.append(_compiled(rule, file.hold_chars))
        except ValueError as error:
            field_name = f"rules[{number}].{'words' if rule.regex is None else 'regex'}"
            findings.append(Located(str(error), name, field=field_name))
    if findings:
        raise ConfigError(*findings)
    return RuleBook(tuple(rules), file.mask, file.hold_chars)


def _compiled(rule: FilterRule, hold_chars: int) -> Rule:
    finder: Finder
    if rule.regex is not None:
        finder = RegexFinder(rule.regex, ignore_case=rule.ignore_case, hold_chars=hold_chars)
    else:
        short = [word for word in rule.words if len(word) <= hold_chars]
        finder = WordFinder(short, ignore_case=rule.ignore_case, whole_words=rule.whole_words)
    return Rule(
        rule.name,
        rule.action,
        frozenset(rule.where),
        frozenset(rule.models),
        frozenset(rule.keys),
        finder,
    )


def _folded(text: str) -> str:
    """Return the text in lower case, as long as it was."""
    if text.isascii():
        return text.lower()
    return "".join(low if len(low := one.lower()) == 1 else one for one in text)
