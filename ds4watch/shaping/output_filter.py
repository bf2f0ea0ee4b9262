"""A text filtered as it comes: what is found is masked, ends the answer, or is only told.

Filtering a text in pieces gives what filtering it whole gives, wherever it is cut. Held back is
only what could still become part of a match, and `hold_chars` of it at most.
"""

from __future__ import annotations

from collections import Counter

from ds4watch.config.filter_file import FilterAction
from ds4watch.shaping.filter_rules import Rule, RuleSet

_PIECE_CHARS = 4096
"""A long text is gone through in pieces: so no look goes over all of it."""

Found = Counter[tuple[str, str]]
"""How often each (rule, action) was found."""


class TextFilter:
    """Filters one text."""

    __slots__ = ("_before", "_found", "_held", "_set", "is_stopped")

    def __init__(self, rules: RuleSet, found: Found) -> None:
        """Count into `found` what is found."""
        self._set = rules
        self._found = found
        self._held = ""
        self._before = ""
        """The character before what is held: it decides whether a word begins there."""
        self.is_stopped = False
        """A rule ended the text; nothing comes any more."""

    @property
    def is_holding(self) -> bool:
        """Whether text is held back."""
        return bool(self._held)

    def feed(self, text: str) -> str:
        """Return what can be let go after more text."""
        if self.passes(text):
            return text
        if len(text) <= _PIECE_CHARS:
            return self._step(text, final=False)
        starts = range(0, len(text), _PIECE_CHARS)
        return "".join(self._step(text[at : at + _PIECE_CHARS], final=False) for at in starts)

    def passes(self, text: str) -> bool:
        """Return whether one look says that `text` goes out as it is; then it is taken in."""
        quick, before = self._set.quick, self._before
        if quick is None or self._held or self.is_stopped or not 0 < len(text) <= _PIECE_CHARS:
            return False
        seen = before + text
        if before == "_" or not seen.isascii():  # "_" ends a word here, and not in RE2
            return False
        match = quick.search(seen, len(before))
        if match is not None and match.start() < len(seen):
            return False
        self._before = text[-1]
        return True

    def finish(self) -> str:
        """Return the rest: no more text comes."""
        return self._step("", final=True)

    def _step(self, more: str, *, final: bool) -> str:
        if self.is_stopped:
            return ""
        text = f"{self._before}{self._held}{more}"
        at = len(self._before)
        out: list[str] = []
        while not self.is_stopped:
            settled = len(text) if final else self._settled(text, at)
            hit = self._first(text, at)
            if hit is None or hit[0] >= settled:
                if len(text) - settled <= self._set.hold_chars:
                    out.append(text[at:settled])
                    at = settled
                    break
                # Too long to wait for: what is there decides.
                hit = self._at(text, settled)
            if hit is None:
                out.append(text[at : settled + 1])
                at = settled + 1
            else:
                start, end, rule = hit
                out.append(text[at:start])
                out.append(self._act(rule, text[start:end]))
                at = end
        self._before, self._held = text[max(0, at - 1) : at], text[at:]
        return "".join(out)

    def _settled(self, text: str, at: int) -> int:
        """Return up to where no beginning of a match stands."""
        return min(rule.finder.begun_at(text, at) for rule in self._set.rules)

    def _first(self, text: str, at: int) -> tuple[int, int, Rule] | None:
        best: tuple[int, int, Rule] | None = None
        for rule in self._set.rules:
            found = rule.finder.find(text, at)
            if found is not None and (best is None or found[0] < best[0]):
                best = (*found, rule)
        return best

    def _at(self, text: str, at: int) -> tuple[int, int, Rule] | None:
        for rule in self._set.rules:
            end = rule.finder.match_at(text, at)
            if end is not None:
                return at, end, rule
        return None

    def _act(self, rule: Rule, matched: str) -> str:
        self._found[rule.name, rule.action.value] += 1
        if rule.action is FilterAction.FLAG:
            return matched
        if rule.action is FilterAction.MASK:
            return self._set.mask
        self.is_stopped = True
        return ""
