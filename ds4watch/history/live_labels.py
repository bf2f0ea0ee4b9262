"""Whose label is whose when a page's series get their target's labels."""

from __future__ import annotations

from ds4watch.model.series import NAME_LABEL, Labels


def merged_labels(name: str, own: Labels, target: Labels) -> Labels:
    """Return a series' labels with its name and its target's labels.

    A label that both have is the target's; the page's becomes `exported_<name>`, as Prometheus
    has it without honor_labels.
    """
    if not own or not {label for label, _ in own} & {label for label, _ in target}:
        return tuple(sorted(((NAME_LABEL, name), *own, *target)))
    merged = dict(target)
    taken = {label for label, _ in own} | set(merged)
    for label, value in own:
        free = label
        while free in merged or (free != label and free in taken):
            free = f"exported_{free}"
        merged[free] = value
        taken.add(free)
    merged[NAME_LABEL] = name
    return tuple(sorted(merged.items()))


def name_of(labels: Labels) -> str:
    """Return the metric name among `labels`."""
    return next((value for label, value in labels if label == NAME_LABEL), "")


def without_name(labels: Labels) -> Labels:
    """Return `labels` without the metric name."""
    return tuple(pair for pair in labels if pair[0] != NAME_LABEL)
