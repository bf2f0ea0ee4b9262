"""The policy file: what an alert does, apart from what an alert is."""

from __future__ import annotations

from ds4watch.config.loader import load_section
from ds4watch.model.errors import ConfigError
from ds4watch.policy.policy_faults import faults
from ds4watch.policy.schema import (
    NORMAL,
    Action,
    Binding,
    Level,
    PolicyFile,
    Pool,
    labels_match,
    may_match,
)

__all__ = [
    "NORMAL",
    "Action",
    "Binding",
    "Level",
    "PolicyFile",
    "Pool",
    "labels_match",
    "load_policy",
    "may_match",
]


def load_policy(text: str, file: str) -> PolicyFile:
    """Read a policy file. Raises ConfigError with one finding for each fault."""
    policy, document = load_section(text, file, PolicyFile)
    findings = list(faults(policy, document))
    if findings:
        raise ConfigError(*findings)
    return policy
