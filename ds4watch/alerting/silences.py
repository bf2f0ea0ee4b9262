"""Which alerts a person has silenced. Pure.

As in Alertmanager a silence mutes what people are told, and nothing else: the alert goes on, and so
do actions. Those are stopped by holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from ds4watch.model.errors import QueryError, RefusedError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import Labels
from ds4watch.model.silence import LabelTest, Silence
from ds4watch.promql.selection import matches, predicate_of
from ds4watch.promql.storage import Matcher, MatchOp

MAX_MATCHERS = 32
MAX_VALUE_CHARS = 1024
_MOST_TOLD = 10
_WRITTEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*(=~|!~|!=|=)\s*(.*?)\s*", re.DOTALL)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


def read_matchers(texts: Iterable[str]) -> tuple[LabelTest, ...]:
    """Return matchers as people write them: `severity=warning`, `worker=~"tiny-.*"`.

    Raises RefusedError if one cannot be read, or if all of them hold for an alert without labels:
    such a silence would be of everything.
    """
    found = tuple(_matcher(text) for text in texts)
    if not found or len(found) > MAX_MATCHERS:
        raise RefusedError(f"a silence needs 1 to {MAX_MATCHERS} matchers, got {len(found)}")
    if all(predicate_of(_compiled(it))("") for it in found):
        raise RefusedError("at least one matcher must ask for a label that is not empty")
    return found


def silenced_by(
    labels: Labels, silences: Iterable[Silence], now: UnixSeconds
) -> tuple[Silence, ...]:
    """Return the silences in force that an alert with these labels is under."""
    return tuple(it for it in silences if it.is_in_force(now) and _covers(it, labels))


def mute_of(silences: Sequence[Silence], now: UnixSeconds) -> Callable[[Labels], bool]:
    """Return whether nobody is to be told of an alert with these labels."""
    in_force = [it for it in silences if it.is_in_force(now)]
    return lambda labels: any(_covers(it, labels) for it in in_force)


def muted_told(firing: Sequence[Labels], silence: Silence) -> str:
    """Return which of the alerts that fire a silence mutes, in words."""
    names = _names(firing, silence)
    return f"mutes {names}" if names else "it mutes nothing that fires now"


def unmuted_told(firing: Sequence[Labels], silence: Silence) -> str:
    """Return which of the alerts that fire are told of again without a silence, in words."""
    names = _names(firing, silence)
    return f"{names} may be told of again" if names else "nothing that it mutes fires now"


def _names(firing: Sequence[Labels], silence: Silence) -> str:
    found = [dict(it) for it in firing if _covers(silence, it)]
    told = [f"{it.get('alertname', '')} ({it.get('severity', '-')})" for it in found]
    more = f" and {len(told) - _MOST_TOLD} more" if len(told) > _MOST_TOLD else ""
    return ", ".join(told[:_MOST_TOLD]) + more


def _covers(silence: Silence, labels: Labels) -> bool:
    return matches([_compiled(it) for it in silence.matchers], labels)


def _compiled(test: LabelTest) -> Matcher:
    return Matcher(test.name, MatchOp(test.op), test.value)


def _matcher(text: str) -> LabelTest:
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise RefusedError(f'a matcher is written as severity="warning", got {text[:80]!r}')
    name, op, value = written.groups()
    quoted = _QUOTED.fullmatch(value)
    if quoted is not None:
        value = _ESCAPED.sub(lambda it: "\n" if it[1] == "n" else str(it[1]), quoted[1])
    elif '"' in value:
        raise RefusedError(f"the quotes do not match in {text[:80]!r}")
    if len(value) > MAX_VALUE_CHARS:
        raise RefusedError(f"{name}: a value may have {MAX_VALUE_CHARS} characters")
    test = LabelTest(name, op, value)
    try:
        predicate_of(_compiled(test))
    except QueryError as error:
        raise RefusedError(f"{name}: {error}") from error
    return test
