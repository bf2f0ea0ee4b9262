"""The golden questions that the settings name, from disk."""

from __future__ import annotations

from ds4watch.config.files import LoadedSettings, golden_files, read_text
from ds4watch.quality.golden import Question, questions_of, together


def golden_questions(loaded: LoadedSettings) -> tuple[Question, ...]:
    """Read all sets. Raises ConfigError with every fault's place."""
    files = golden_files(loaded)
    return together(questions_of(read_text(file), file=str(file)) for file in files)
