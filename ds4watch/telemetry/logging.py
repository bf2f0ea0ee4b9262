"""The log: one line an event, UTC, without secrets and without forged lines."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from typing import TextIO

_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_HIDDEN = r"\1[hidden]"

_SECRETS = (
    re.compile(r"(?i)(\b(?:bearer|basic)\s+)[^\s\"',;]+"),
    re.compile(
        r"(?i)([\"']?[\w-]*(?:token|secret|password|passwd|api[_-]?key)[\"']?\s*[=:]\s*[\"']?)"
        r"[^\s\"'&,;}]+"
    ),
    re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)"),
    re.compile(r"(hooks\.slack\.com/(?:services|workflows)/)\S+"),
    re.compile(r"(\b(?:xox[a-z]|xapp|sk|ds4)-)[A-Za-z0-9][\w-]{15,}"),
)
"""Authorization values, key=value pairs, URL passwords, Slack webhooks, well-known key forms."""

_CONTROL = {code: f"\\x{code:02x}" for code in range(32)} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\t",
    0x7F: "\\x7f",
}


class PlainFormatter(logging.Formatter):
    """One line for each record, time in UTC; a traceback follows on indented lines.

    Secrets are hidden here and not in a filter, so that tracebacks are covered too.
    """

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802 - the library's signature
        """Return the record's time as 2026-01-31T12:34:56.789Z."""
        at = datetime.fromtimestamp(record.created, tz=UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Keep the message on its line: what a client sends must not look like a record."""
        record.message = record.message.translate(_CONTROL)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Render, indent what follows the first line, hide secrets."""
        return redact(super().format(record).replace("\n", "\n    "))


def redact(text: str) -> str:
    """Return `text` with everything that looks like a secret hidden."""
    for pattern in _SECRETS:
        text = pattern.sub(_HIDDEN, text)
    return text


def configure(level: str, stream: TextIO) -> None:
    """Log from `level` up (a name such as INFO) to `stream`, in place of what was set up before.

    Raises ValueError on an unknown level. Libraries are heard from WARNING up.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(PlainFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("ds4watch").setLevel(level.upper())
    # It warns each time that a job is still at work when its next turn comes, as ours may be.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
