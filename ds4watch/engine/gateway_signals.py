"""What the gateways tell of their routing, of waiting, shedding and degrading, as samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ds4watch.fleet.board import GatewayView
from ds4watch.model.series import Sample, labels_of

_COMPRESSION = frozenset({"compressed", "skipped", "tokens_before", "tokens_after"})


def gateway_samples(gateways: Sequence[GatewayView]) -> list[Sample]:
    """Return who is left out, the long prompts, and how long conversations fare; none unknown."""
    told = [view for view in gateways if view.inflight is not None]
    if not told:
        return []
    aside = Counter(pair for view in told for pair in view.aside.items())
    found = [
        Sample(
            "ds4_gateway_set_aside",
            labels_of({"worker": worker, "reason": reason}),
            float(count),
        )
        for (worker, reason), count in sorted(aside.items())
    ]
    for state, count in (
        ("open", sum(view.long_open for view in told)),
        ("waiting", sum(view.long_waiting for view in told)),
    ):
        found.append(Sample("ds4_gateway_long_requests", (("state", state),), float(count)))
    requests = sum(view.long_sessions[0] for view in told)
    errors = sum(view.long_sessions[1] for view in told)
    if requests:
        found.append(Sample("ds4_session_error_ratio", (), errors / requests))
    return found


def admission_samples(gateways: Iterable[GatewayView]) -> list[Sample]:
    """Return who waits at each gateway and what it did to requests."""
    found: list[Sample] = []
    for view in gateways:
        counts = view.admission
        if counts is None:
            continue
        own = labels_of({"gateway": view.name})
        found += [
            Sample("ds4_gateway_waiting_requests", own, float(counts.waiting)),
            Sample("ds4_gateway_waited_total", own, float(counts.waited)),
            Sample("ds4_gateway_waited_seconds_total", own, counts.waited_seconds),
            *_by("ds4_gateway_shed_total", view.name, "reason", counts.shed),
            *_by("ds4_gateway_abnormal_total", view.name, "oddity", counts.abnormal),
            *_by("ds4_gateway_degraded_total", view.name, "change", counts.degraded),
            Sample("ds4_gateway_prefix_waits_total", own, float(counts.followed)),
            Sample("ds4_gateway_prefix_wait_seconds_total", own, counts.followed_seconds),
            *(
                Sample(f"ds4_gateway_compression_{name}_total", own, float(count))
                for name, count in sorted(counts.compression.items())
                if name in _COMPRESSION
            ),
        ]
    return found


def _by(name: str, gateway: str, label: str, counts: Mapping[str, int]) -> list[Sample]:
    return [
        Sample(name, labels_of({label: key, "gateway": gateway}), float(counts[key]))
        for key in sorted(counts)
    ]
