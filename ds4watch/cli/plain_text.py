"""Text for terminals and files that have no Unicode, such as those of LC_ALL=C."""

from __future__ import annotations

import codecs
import io
from typing import TextIO

_HANDLER = "ds4watch.plain"
_PLAIN = {
    "→": "->", "…": "...", "─": "-", "│": "|", "\u2013": "-", "·": "-",
    "\u00d7": "x", "≤": "<=", "≥": ">=",
    "Δ": "d", "█": "#", "░": ".", "▁": "_", "▂": "_", "▃": "-", "▄": "-", "▅": "=", "▆": "=",
    "▇": "#", "•": "*", "✓": "+", "“": '"', "”": '"', "\u2019": "'", "\u2018": "'", "\u00a0": " ",
}  # fmt: skip


def write_what_the_terminal_can(*streams: TextIO) -> None:
    """Have the streams write something plain for signs that their encoding does not have."""
    codecs.register_error(_HANDLER, _plain)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper) and not _has_unicode(stream.encoding):
            stream.reconfigure(errors=_HANDLER)


def _has_unicode(encoding: str) -> bool:
    return codecs.lookup(encoding).name.startswith("utf")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(_PLAIN.get(sign, "?") for sign in signs), error.end
