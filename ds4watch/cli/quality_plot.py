"""The choice table as a picture."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from ds4watch.model.errors import ConfigError, Located


class _Drawing(Protocol):
    """`ds4watch.cli.quality_drawing`, imported only where a picture is wanted."""

    def draw(self, found: Mapping[str, Any], path: Path) -> None:
        """Write the picture."""
        ...


def write_plot(found: Mapping[str, Any], path: Path) -> None:
    """Draw into a file, as its name says PNG or SVG. Raises ConfigError."""
    if path.suffix not in (".png", ".svg"):
        raise ConfigError(Located(f"must end in .png or .svg, got {path}", field="--plot"))
    try:
        drawing = cast(_Drawing, importlib.import_module("ds4watch.cli.quality_drawing"))
    except ImportError as error:
        mend = "pip install 'ds4watch[plot]'; the table has a chart without it"
        finding = Located("needs matplotlib, which is not installed", field="--plot", mend=mend)
        raise ConfigError(finding) from error
    try:
        drawing.draw(found, path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        finding = Located(f"{path} cannot be written: {reason}", field="--plot")
        raise ConfigError(finding) from error
