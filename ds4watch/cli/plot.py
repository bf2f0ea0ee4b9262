"""Writes a picture for a `--plot` option; what draws it needs matplotlib, and is loaded here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Protocol, cast

from ds4watch.model.errors import ConfigError, Located


class _Drawing(Protocol):
    """A module that draws with matplotlib, imported only where a picture is wanted."""

    def draw(self, shown: Any, path: Path) -> None:
        """Write the picture."""
        ...


def write_plot(module: str, shown: Any, path: Path, *, without: str) -> None:
    """Let a module draw into a file, as its name says PNG or SVG. Raises ConfigError.

    `without` says what there is without matplotlib.
    """
    if path.suffix not in (".png", ".svg"):
        raise ConfigError(Located(f"must end in .png or .svg, got {path}", field="--plot"))
    try:
        drawing = cast(_Drawing, importlib.import_module(module))
    except ImportError as error:
        mend = f"pip install 'ds4watch[plot]'; {without} without it"
        finding = Located("needs matplotlib, which is not installed", field="--plot", mend=mend)
        raise ConfigError(finding) from error
    try:
        drawing.draw(shown, path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        finding = Located(f"{path} cannot be written: {reason}", field="--plot")
        raise ConfigError(finding) from error
