"""Where the files that ship with ds4watch are: in the wheel, or in a checkout."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def shipped(name: str) -> Path:
    """Return the path of a shipped folder or file, such as `rules` or `serving/profiles`.

    Raises FileNotFoundError if it is not part of this installation.
    """
    package = Path(str(files("ds4watch")))
    for root in (package / "_data", package.parent):
        path = root / name
        if path.exists():
            return path
    message = f"{name} is missing from this installation of ds4watch"
    raise FileNotFoundError(message)
