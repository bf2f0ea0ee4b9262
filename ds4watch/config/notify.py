"""`notify`: who is told, how alerts become messages, and who may press buttons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

from pydantic import Field, SecretStr

from ds4watch.config.section import Seconds, Section

Fault: TypeAlias = tuple[tuple[str | int, ...], str, str | None]
"""Where below the section, what, and how to mend it."""


Weekday: TypeAlias = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
WEEKDAYS: tuple[Weekday, ...] = get_args(Weekday)


class GroupingSettings(Section):
    """Which alerts share a message, and when it is sent; names and defaults of Alertmanager."""

    by: tuple[str, ...] = Field(
        ("alertname",), max_length=20, description="Labels that alerts of one message share."
    )
    wait_seconds: float = Field(
        30.0, ge=0, description="Time for others to join before the first message."
    )
    interval_seconds: Seconds = Field(
        300.0, description="Time between two messages of a group; a worse tier does not wait."
    )
    repeat_seconds: Seconds = Field(
        14_400.0, description="What fires still is told again after this."
    )
    max_groups: int = Field(
        10, ge=1, le=1000, description="Alerts that would make more groups share one message."
    )


class SlackSettings(Section):
    """Slack: an app with a bot token, or an incoming webhook as the simple form."""

    token: SecretStr | None = Field(
        None, description="Bot token (xoxb-…). Default: $DS4_SLACK_TOKEN."
    )
    token_file: str | None = Field(None, description="File that holds it; read anew each time.")
    channel: str | None = Field(
        None, pattern=r"^[CDG][A-Z0-9]{6,20}$", description="Id of the channel, as C0123456789."
    )
    webhook_url: SecretStr | None = Field(
        None, description="Incoming webhook, in place of a token: no edits, threads or buttons."
    )
    webhook_url_file: str | None = Field(None, description="File that holds it.")
    signing_secret: SecretStr | None = Field(
        None,
        description="Lets Slack call back when a button is pressed. Default: "
        "$DS4_SLACK_SIGNING_SECRET.",
    )
    signing_secret_file: str | None = Field(None, description="File that holds it.")
    app_token: SecretStr | None = Field(
        None,
        description="App token (xapp-…): buttons by Socket Mode, without an address that Slack "
        "can call. Default: $DS4_SLACK_APP_TOKEN.",
    )
    app_token_file: str | None = Field(None, description="File that holds it.")
    users: tuple[str, ...] = Field(
        (), max_length=1000, description="Ids of those who may press buttons; nobody else may."
    )
    names: dict[str, str] = Field(
        default_factory=dict,
        max_length=1000,
        description="Ids of users to who they are in the policy's `approval.by` and in the audit, "
        "as {U0123456789: ann}.",
    )
    pictures: bool = Field(
        default=True, description="Put the last hour as a picture into the thread."
    )
    api_url: str = Field(
        "https://slack.com/api/", pattern=r"^https?://.*/$", description="Address of the Web API."
    )


class AlertmanagerSettings(Section):
    """Alertmanagers that alerts are handed on to, and whose webhook is taken in."""

    urls: tuple[str, ...] = Field(
        (), max_length=20, description="Each is told all alerts, as http://127.0.0.1:9093."
    )
    token: SecretStr | None = Field(None, description="Bearer token towards them.")
    token_file: str | None = Field(None, description="File that holds it.")
    labels: dict[str, str] = Field(
        default_factory=dict, description="Labels added to each alert, as external labels."
    )
    resend_seconds: Seconds = Field(
        60.0, description="What fires is sent again after this; it ends by itself after four."
    )
    fresh_seconds: Seconds = Field(
        18_000.0,
        description="An alert that their webhook told is fresh for so long: more than their "
        "repeat_interval. Then it is held.",
    )


class HeartbeatSettings(Section):
    """The dead man's switch."""

    url: SecretStr | None = Field(
        None, description="Called (GET) as long as rules are evaluated; a secret."
    )
    url_file: str | None = Field(None, description="File that holds it.")
    interval_seconds: Seconds = Field(60.0, description="Time between two calls.")


class AppriseSettings(Section):
    """Another service, through apprise."""

    name: str = Field(
        pattern=r"^[a-z][a-z0-9_-]{0,30}$", description="Name in metrics and in the log."
    )
    url: SecretStr | None = Field(None, description="Address in apprise's form, as mailto://….")
    url_file: str | None = Field(None, description="File that holds it.")


class ReportSettings(Section):
    """Reports of a day and of a week, UTC; to all channels that tell groups."""

    daily: bool = Field(default=True, description="Tell of each day.")
    weekly: Weekday | None = Field(
        "mon", description="Day (UTC) on which the last seven are told of; null: never."
    )
    hour: int = Field(8, ge=0, le=23, description="Hour (UTC) from which on.")


class NotifySettings(Section):
    """Who is told."""

    webhook_url: str | None = Field(
        None, pattern=r"^https?://", description="Transitions are posted here as JSON."
    )
    webhook_secret: SecretStr | None = Field(
        None, description="They are signed with it (HMAC-SHA256, with the time)."
    )
    webhook_secret_file: str | None = Field(None, description="File that holds it.")
    grouping: GroupingSettings = GroupingSettings()
    slack: SlackSettings = SlackSettings()
    alertmanager: AlertmanagerSettings = AlertmanagerSettings()
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    apprise: tuple[AppriseSettings, ...] = Field(
        (), max_length=20, description="Other services, through apprise."
    )
    reports: ReportSettings = ReportSettings()
    public_url: str = Field(
        "", pattern=r"^(https?://\S+)?$", description="Address of the admin API, for links."
    )
    dashboard_url: str = Field(
        "", pattern=r"^(https?://\S+)?$", description="Address of a dashboard, for links."
    )
    runbooks_url: str = Field(
        "", pattern=r"^(https?://\S+)?$", description="Put before a rule's relative runbook_url."
    )


_PAIRS: tuple[tuple[str, str, str], ...] = (
    ("", "webhook_secret", "webhook_secret_file"),
    ("slack", "token", "token_file"),
    ("slack", "webhook_url", "webhook_url_file"),
    ("slack", "signing_secret", "signing_secret_file"),
    ("slack", "app_token", "app_token_file"),
    ("alertmanager", "token", "token_file"),
    ("heartbeat", "url", "url_file"),
)


def secret_files(notify: NotifySettings) -> Iterator[tuple[str, str]]:
    """Yield the settings that name a file with a secret, and the file."""
    for place, _, file in _PAIRS:
        path = getattr(getattr(notify, place) if place else notify, file)
        if path:
            yield ".".join(filter(None, ("notify", place, file))), path
    for index, it in enumerate(notify.apprise):
        if it.url_file:
            yield f"notify.apprise.{index}.url_file", it.url_file


def notify_faults(notify: NotifySettings) -> Iterator[Fault]:
    """Yield what does not go together in the section."""
    for place, name, file in _PAIRS:
        section = getattr(notify, place) if place else notify
        if getattr(section, name) and getattr(section, file):
            path = (place, file) if place else (file,)
            yield path, f"is not used beside {name}", "leave one of them out"
    yield from _slack_faults(notify.slack)
    names = [it.name for it in notify.apprise]
    for index, it in enumerate(notify.apprise):
        if not it.url and not it.url_file:
            yield ("apprise", index), "has no address", "add url or url_file"
        if it.name in names[:index] or it.name in ("slack", "slack_webhook", "alertmanager"):
            yield ("apprise", index, "name"), f"{it.name!r} is taken", "choose another"
    for index, url in enumerate(notify.alertmanager.urls):
        if not url.startswith(("http://", "https://")):
            yield ("alertmanager", "urls", index), f"is no address: {url!r}", "as http://host:9093"


def _slack_faults(slack: SlackSettings) -> Iterator[Fault]:
    has_token = bool(slack.token or slack.token_file)
    if has_token and not slack.channel:
        yield ("slack",), "a token is of no use without a channel", "add channel, as C0123456789"
    if has_token and (slack.webhook_url or slack.webhook_url_file):
        yield ("slack", "webhook_url"), "is not used beside a token", "leave one of them out"
    for user in sorted(set(slack.names) - set(slack.users)):
        yield ("slack", "names", user), "may not press a button", "add it to users, or take it out"
    hears = (slack.signing_secret, slack.signing_secret_file, slack.app_token, slack.app_token_file)
    if any(hears) and not slack.users:
        mend = "add users: [U0123456789]"
        yield ("slack", "users"), "is empty, so nobody may press a button", mend
