"""`gateway.clients`: how much time a client may take."""

from __future__ import annotations

from pydantic import Field

from ds4watch.config.section import Seconds, Section


class ClientSettings(Section):
    """How long a client's connection may keep the gateway waiting; then it is closed."""

    head_seconds: Seconds = Field(10.0, description="For the head of a request.")
    body_seconds: Seconds = Field(60.0, description="For its body.")
    idle_seconds: Seconds = Field(75.0, description="Between two requests.")
    stalled_seconds: Seconds = Field(
        120.0,
        description="Without taking anything of an answer that waits for it; it is looked at as "
        "often, so it may be twice as long.",
    )
