"""Makes the Grafana dashboards: `python -m dashboards.build`, from the checkout's root.

They run on ds4watch itself or, unchanged, on a Prometheus that scrapes it. The JSON is committed,
so that nobody needs the SDK to use it.
"""

from __future__ import annotations

from pathlib import Path

from dashboards.kit.frame import rendered
from dashboards.pages.alerts import ALERTS
from dashboards.pages.cost import COST
from dashboards.pages.fleet import FLEET
from dashboards.pages.gateway import GATEWAY
from dashboards.pages.quality import QUALITY
from dashboards.pages.worker import WORKER_PAGE

FOLDER = Path(__file__).resolve().parent
PAGES = (FLEET, WORKER_PAGE, GATEWAY, COST, QUALITY, ALERTS)


def main() -> None:
    """Write every dashboard beside this file."""
    for page in PAGES:
        (FOLDER / f"{page.name}.json").write_text(rendered(page), encoding="utf-8")


if __name__ == "__main__":
    main()
