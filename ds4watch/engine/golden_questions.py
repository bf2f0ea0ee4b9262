"""The golden questions that the settings name, from disk."""

from __future__ import annotations

from ds4watch.config.files import LoadedSettings, golden_files, read_text
from ds4watch.model.errors import ConfigError, Located
from ds4watch.quality.golden import Question, questions_of, together


def golden_questions(loaded: LoadedSettings) -> tuple[Question, ...]:
    """Read all sets. Raises ConfigError with every fault's place, of all files."""
    sets: list[tuple[Question, ...]] = []
    faults: list[Located] = []
    for file in golden_files(loaded):
        try:
            sets.append(questions_of(read_text(file), file=str(file)))
        except ConfigError as error:
            faults += error.findings
    if faults:
        raise ConfigError(*faults)
    return together(sets)
