"""What the scrape groups would find, looked at without a daemon and without the network."""

from __future__ import annotations

from collections.abc import Iterator

from ds4watch.config.files import LoadedSettings
from ds4watch.model.errors import ConfigError, Located
from ds4watch.scrape.groups import GroupPlan, scrape_plan
from ds4watch.scrape.sources import FileSource, Found
from ds4watch.scrape.targets import Refusal, Resolved, resolve, without_duplicates


def check_groups(loaded: LoadedSettings) -> None:
    """Check the groups, the files they name, and the targets that are known without the web.

    Raises ConfigError with all findings.
    """
    groups = scrape_plan(loaded).groups
    found = [[FileSource(plan).look() for plan in group.files] for group in groups]
    resolved = [_resolve(group, files) for group, files in zip(groups, found, strict=True)]
    refusals = [it for group in resolved for it in group.refusals]
    refusals += without_duplicates(resolved).refusals
    findings = [
        *(fault for files in found for fault in _faults(files)),
        *(_located(it, loaded) for it in dict.fromkeys(refusals)),
    ]
    if findings:
        raise ConfigError(*findings)


def _resolve(group: GroupPlan, files: list[Found]) -> Resolved:
    listings = [*group.static, *(listing for found in files for listing in found.listings)]
    return resolve(group.rules, listings)


def _faults(files: list[Found]) -> Iterator[Located]:
    for found in files:
        for fault in found.faults:
            yield Located(
                fault.message, fault.place, mend="scrape.groups names it in file_sd_configs"
            )


def _located(refusal: Refusal, loaded: LoadedSettings) -> Located:
    file = str(loaded.file) if loaded.file else None
    return Located(refusal.message, file, field=f"scrape.groups: {refusal.group}")
