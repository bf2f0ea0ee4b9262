"""A replay as a picture: a row for each alert, and the service level below."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from ds4watch.cli.replay_output import Shown
from ds4watch.model.errors import ConfigError, Located


class _Drawing(Protocol):
    """`ds4watch.cli.replay_drawing`, imported only where a picture is wanted."""

    def draw(self, shown: Shown, path: Path) -> None:
        """Write the picture."""
        ...


def write_plot(shown: Shown, path: Path) -> None:
    """Draw into a file, as its name says PNG or SVG. Raises ConfigError."""
    try:
        drawing = cast(_Drawing, importlib.import_module("ds4watch.cli.replay_drawing"))
    except ImportError as error:
        mend = "pip install 'ds4watch[plot]'; the table has a timeline without it"
        finding = Located("needs matplotlib, which is not installed", field="--plot", mend=mend)
        raise ConfigError(finding) from error
    try:
        drawing.draw(shown, path)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        finding = Located(f"{path} cannot be written: {reason}", field="--plot")
        raise ConfigError(finding) from error
