"""All lints over profiles that load; pure, what is known of models and GPUs is handed in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ds4watch.config.lints.arguments import arguments_of, lint_arguments
from ds4watch.config.lints.findings import Advice, Lint
from ds4watch.config.lints.fleet import Fleet, lint_among
from ds4watch.config.lints.geometry import ModelFacts
from ds4watch.config.lints.gpus import GpuFacts
from ds4watch.config.lints.habits import lint_habits
from ds4watch.config.lints.memory import lint_memory
from ds4watch.config.lints.precision import lint_precision
from ds4watch.config.lints.speculation import lint_speculation
from ds4watch.config.loader import ProfileFile
from ds4watch.config.profile import Engine, Profile
from ds4watch.config.settings import Settings


def lint_profiles(
    files: Sequence[ProfileFile],
    models: Mapping[str, ModelFacts],
    gpus: GpuFacts,
    settings: Settings,
    *,
    examples: frozenset[str] = frozenset(),
) -> tuple[Lint, ...]:
    """Return what practice says against each profile, file by file, in order of lines.

    examples: names of profiles that ship and that nothing is run of.
    """
    profiles = {it.profile.name: it.profile for it in files}
    fleet = Fleet(profiles, models, settings, examples)
    return tuple(lint for file in files for lint in _of_file(file, fleet, gpus))


def _of_file(file: ProfileFile, fleet: Fleet, gpus: GpuFacts) -> list[Lint]:
    found = [
        Lint(it.severity, file.document.finding(it.path, it.message, mend=it.mend))
        for it in _advice(file.profile, fleet, gpus)
    ]
    return sorted(found, key=lambda it: it.found.line or 0)


def _advice(profile: Profile, fleet: Fleet, gpus: GpuFacts) -> Iterator[Advice]:
    yield from lint_among(profile, fleet)
    if profile.engine is not Engine.VLLM:
        return
    arguments = arguments_of(profile)
    facts = fleet.models.get(profile.name, ModelFacts())
    yield from lint_habits(profile, arguments)
    yield from lint_arguments(profile)
    yield from lint_precision(profile, arguments, facts)
    yield from lint_speculation(profile, arguments)
    yield from lint_memory(profile, arguments, facts, gpus)
