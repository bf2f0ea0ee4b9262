"""The labels and annotations of a rule's alerts, filled in once for each label set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ds4watch.alerting.templates import FilledTemplate, Template
from ds4watch.model.alert import AlertRule, fingerprint_of
from ds4watch.model.series import NAME_LABEL, Labels, labels_of

_SPARE = 256


class Hit(NamedTuple):
    """One alert that an evaluation asks for."""

    fingerprint: str
    labels: Labels
    annotations: Labels
    value: float


@dataclass(slots=True)
class _Known:
    """What was made for one label set; `hit` is the last one."""

    annotations: list[tuple[str, FilledTemplate]]
    hit: Hit


class RuleTexts:
    """The templates of one alert rule, read once, and what was made of them."""

    def __init__(self, rule: AlertRule) -> None:
        self.rule_id = rule.id
        self._name = rule.name
        self._labels = [(name, Template(text)) for name, text in rule.labels]
        self._annotations = [(name, Template(text)) for name, text in sorted(rule.annotations)]
        self._labels_change = any(template.uses_value for _, template in self._labels)
        self._known: dict[Labels, _Known] = {}

    def hit(self, element: Labels, value: float) -> Hit:
        """Return the alert that an element of the rule's result asks for."""
        known = self._known.get(element)
        if known is None or self._labels_change:
            known = self._known[element] = self._first(element, value)
        last = known.hit
        if last.value == value:
            return last
        known.hit = Hit(last.fingerprint, last.labels, _texts(known.annotations, value), value)
        return known.hit

    def forget(self, live: int) -> None:
        """Forget all label sets, if many more are known than the `live` ones."""
        if len(self._known) > 2 * live + _SPARE:
            self._known.clear()

    def _first(self, element: Labels, value: float) -> _Known:
        own = {name: template.filled(element).text(value) for name, template in self._labels}
        labels = labels_of({**dict(element), NAME_LABEL: "", **own, "alertname": self._name})
        filled = [(name, template.filled(element)) for name, template in self._annotations]
        return _Known(filled, Hit(fingerprint_of(labels), labels, _texts(filled, value), value))


def _texts(annotations: list[tuple[str, FilledTemplate]], value: float) -> Labels:
    texts = [(name, template.text(value)) for name, template in annotations]
    return tuple([pair for pair in texts if pair[1]])
