"""Regular expressions that people write: RE2, matched against the whole text."""

from __future__ import annotations

import re
from functools import lru_cache

import re2


@lru_cache(maxsize=1024)
def compile_anchored(text: str) -> re.Pattern[str]:
    """Compile an RE2 expression, `.` matching newlines too. Raises ValueError if malformed.

    Use `fullmatch` only: that is what "anchored" means here.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        pattern: re.Pattern[str] = re2.compile(f"(?s:{text})", options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        told = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"is not a regular expression of RE2: {told}"
        raise ValueError(message) from error
    return pattern
