"""The past as a running Prometheus has it: raw samples of the metrics wanted, an hour at a time.

A range selector asked as an instant query gives the samples as they were scraped; a range query
would give values on a grid of its own.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from prometheus_api_client import PrometheusConnect
from prometheus_api_client.exceptions import PrometheusApiClientException
from requests.exceptions import RequestException, Timeout

from ds4watch.model.errors import EdgeReason, ScrapeError
from ds4watch.model.ports import UnixSeconds
from ds4watch.model.series import FloatArray, Labels, labels_of

Progress = Callable[[int, int], None]
"""Called with what is done and how much there is to do."""

_CHUNK_SECONDS = 3600
_TIMEOUT_SECONDS = 60
_SHOWN_ANSWER = 200

Read = tuple[Labels, FloatArray, FloatArray]


def fetch_past(
    url: str,
    selectors: Sequence[str],
    start: UnixSeconds,
    end: UnixSeconds,
    progress: Progress,
) -> list[Read]:
    """Return (labels, times, values) of all series that `selectors` choose in (start, end].

    Raises ScrapeError if the server cannot be asked, or gives only a part.
    """
    client = PrometheusConnect(url=url.rstrip("/"), timeout=_TIMEOUT_SECONDS)
    chunks = list(_chunks(start, end))
    found: dict[Labels, tuple[array[float], array[float]]] = {}
    total = len(selectors) * len(chunks)
    for place, selector in enumerate(selectors):
        for number, (seconds, at) in enumerate(chunks):
            progress(place * len(chunks) + number, total)
            for labels, points in _asked(client, f"{selector}[{seconds}s]", at):
                times, values = found.setdefault(labels, (array("d"), array("d")))
                times.extend(float(point[0]) for point in points)
                values.extend(float(point[1]) for point in points)
    progress(total, total)
    return [_in_order(labels, times, values) for labels, (times, values) in found.items()]


def _chunks(start: UnixSeconds, end: UnixSeconds) -> Iterator[tuple[int, UnixSeconds]]:
    """Yield how long a window is, in whole seconds, and where it ends."""
    at = end
    while at > start:
        seconds = min(_CHUNK_SECONDS, math.ceil(at - start))
        yield seconds, at
        at -= seconds


def _asked(
    client: PrometheusConnect, query: str, at: UnixSeconds
) -> Iterator[tuple[Labels, list[Any]]]:
    try:
        # Thanos: no answer is better than half of one.
        params = {"time": f"{at:.3f}", "partial_response": "false"}
        for one in client.custom_query(query, params=params):
            if "values" in one:
                yield labels_of(one["metric"]), one["values"]
    except Timeout as error:
        message = f"no answer in {_TIMEOUT_SECONDS} s to {query}"
        raise ScrapeError(message, reason=EdgeReason.TIMEOUT, retryable=True) from error
    except RequestException as error:
        message = f"cannot be asked: {type(error).__name__}"
        raise ScrapeError(message, reason=EdgeReason.CONNECT, retryable=True) from error
    except PrometheusApiClientException as error:
        message = f"{query}: {str(error)[:_SHOWN_ANSWER]}"
        raise ScrapeError(message, reason=EdgeReason.STATUS) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = "does not answer as a Prometheus does"
        raise ScrapeError(message, reason=EdgeReason.PARSE) from error


def _in_order(labels: Labels, times: Sequence[float], values: Sequence[float]) -> Read:
    """Return samples by time; windows of Prometheus 2 share their edges."""
    at, kept = np.unique(np.array(times), return_index=True)
    return labels, at, np.array(values)[kept]
