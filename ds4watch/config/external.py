"""Workers that somebody else runs."""

from __future__ import annotations

from pydantic import Field, model_validator

from ds4watch.config.api_key import EnvironmentName, see_to_one_source
from ds4watch.config.section import Section


class ExtraWorker(Section):
    """A worker that somebody else runs; scraped and routed to, never started or stopped."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$", description="Name, unique.")
    url: str = Field(pattern=r"^https?://", description="Base address, without /v1.")
    models: tuple[str, ...] = Field((), description="Models it serves; if empty, its own name.")
    profile: str = Field("external", description="Profile name used in labels and prices.")
    api_key_file: str | None = Field(
        None,
        min_length=1,
        description="File that holds nothing but the API key (bearer token) it asks for; relative "
        "to this file. Read anew when it changes.",
    )
    api_key_env: EnvironmentName | None = Field(
        None, description="The same from a variable of the daemon's own environment."
    )

    @model_validator(mode="after")
    def _key_has_one_source(self) -> ExtraWorker:
        see_to_one_source(self.api_key_file, self.api_key_env)
        return self
