"""The channels that tell groups, as the settings have them, and what others may call."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import aiohttp

from ds4watch.alerting.grouping import GroupSettings
from ds4watch.config.notify import NotifySettings
from ds4watch.config.settings import Settings
from ds4watch.engine.external_alerts import ExternalAlerts
from ds4watch.engine.notify_orders import ButtonOrders
from ds4watch.engine.parts import Known
from ds4watch.engine.query_process import QueryProcess
from ds4watch.engine.question_answers import QuestionAnswers
from ds4watch.engine.report_run import DAY_SECONDS, note_of_report, report_of
from ds4watch.history.state import StateStore
from ds4watch.model.ports import Clock, UnixSeconds
from ds4watch.notify.alertmanager import AlertmanagerPlace, Alertmanagers
from ds4watch.notify.clicks import Clicks
from ds4watch.notify.group_channel import GroupChannel
from ds4watch.notify.group_sender import GroupSender
from ds4watch.notify.heartbeat import Heartbeat
from ds4watch.notify.notifier import Notifier
from ds4watch.notify.secret import Secret, secret_of
from ds4watch.notify.slack import NoViews, Slack, SlackPlace, Views
from ds4watch.notify.slack_hook import SlackHook
from ds4watch.notify.slack_message import Links
from ds4watch.notify.slack_questions import OpenQuestions
from ds4watch.telemetry.metrics import ProcessMetrics

_TIMEOUT = aiohttp.ClientTimeout(total=15.0)

Loop = Callable[[], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Told:
    """What telling people works with."""

    settings: Settings
    environment: Mapping[str, str]
    state: StateStore
    known: Known
    external: ExternalAlerts
    queries: QueryProcess
    orders: ButtonOrders
    views: Views
    metrics: ProcessMetrics
    clock: Clock


class Hooks:
    """What others call (web.hooks.Hooks)."""

    def __init__(self, told: Told, clicks: Clicks | None, *, has_channels: bool) -> None:
        self.has_channels = has_channels
        self._told = told
        self._clicks = clicks

    async def slack(self, headers: Mapping[str, str], body: bytes) -> bool:
        """Take a button's callback; False if it is not signed."""
        return self._clicks is not None and await self._clicks.callback(headers, body)

    async def alertmanager(self, document: Any) -> dict[str, Any]:
        """Take alerts of others."""
        return await self._told.external.take(document)

    async def report(self, period: str, *, tell: bool) -> dict[str, Any]:
        """Return the report of the last whole day or week; tell it, if so."""
        now = self._told.clock.now()
        report = await self._report(period, now - now % DAY_SECONDS)
        if tell:
            await self._told.state.add_notes(note_of_report(report, now))
        return report

    async def tell_report(self, period: str, end_at: UnixSeconds) -> None:
        """Tell of the day or week that ends then. Raises StoreError."""
        report = await self._report(period, end_at)
        await self._told.state.add_notes(note_of_report(report, self._told.clock.now()))

    async def _report(self, period: str, end_at: UnixSeconds) -> dict[str, Any]:
        told, currency = self._told, self._told.settings.cost.currency
        return await report_of(told.state, told.queries, currency, period=period, end_at=end_at)


def grouping_of(notify: NotifySettings) -> GroupSettings:
    """Return the settings as the decision has them."""
    found = notify.grouping
    return GroupSettings(
        by=found.by,
        wait_seconds=found.wait_seconds,
        interval_seconds=found.interval_seconds,
        repeat_seconds=found.repeat_seconds,
        max_groups=found.max_groups,
    )


def channels_of(
    notify: NotifySettings,
    environment: Mapping[str, str],
    session: aiohttp.ClientSession,
    views: Views | None = None,
    questions: OpenQuestions | None = None,
) -> list[GroupChannel]:
    """Return the channels that are set up. Others than Slack load apprise, which is heavy."""
    found: list[GroupChannel] = []
    links = Links(
        notify.public_url.rstrip("/"), notify.dashboard_url, notify.runbooks_url.rstrip("/")
    )
    slack, views = notify.slack, views or NoViews()
    token = secret_of(slack.token, slack.token_file, environment.get("DS4_SLACK_TOKEN"))
    if token and slack.channel:
        place = SlackPlace(
            token,
            slack.channel,
            slack.api_url,
            buttons=bool(_signing(notify, environment) or _app_token(notify, environment)),
            pictures=slack.pictures,
        )
        found.append(Slack(session, place, links, views, questions))
    hook = secret_of(slack.webhook_url, slack.webhook_url_file)
    if hook:
        found.append(SlackHook(session, hook, links, views))
    if notify.apprise:
        module: Any = importlib.import_module("ds4watch.notify.apprise_channel")
        found += [
            cast(
                "GroupChannel",
                module.Apprise(it.name, secret_of(it.url, it.url_file), links, views),
            )
            for it in notify.apprise
        ]
    return found


def _signing(notify: NotifySettings, environment: Mapping[str, str]) -> Secret:
    slack = notify.slack
    from_env = environment.get("DS4_SLACK_SIGNING_SECRET")
    return secret_of(slack.signing_secret, slack.signing_secret_file, from_env)


def _app_token(notify: NotifySettings, environment: Mapping[str, str]) -> Secret:
    slack = notify.slack
    from_env = environment.get("DS4_SLACK_APP_TOKEN")
    return secret_of(slack.app_token, slack.app_token_file, from_env)


async def open_notifier(told: Told, stack: AsyncExitStack) -> tuple[Notifier, Hooks]:
    """Return the loop of all channels, and what others may call."""
    notify = told.settings.notify
    session = await stack.enter_async_context(aiohttp.ClientSession(timeout=_TIMEOUT))
    questions = OpenQuestions(told.state, QuestionAnswers(told.state, told.clock))
    channels = channels_of(notify, told.environment, session, told.views, questions)
    settings = grouping_of(notify)
    senders = {
        it.name: GroupSender(told.state, it, settings, metrics=told.metrics, clock=told.clock)
        for it in channels
    }
    slack = next((it for it in channels if isinstance(it, Slack)), None)
    clicks = _clicks(told, slack, settings) if slack is not None else None
    loops = list(_loops(told, session, clicks))
    if slack is not None:
        loops.append(partial(questions.run, slack.show))
    notifier = Notifier(
        told.state,
        senders,
        settings,
        metrics=told.metrics,
        clock=told.clock,
        also=loops,
    )
    return notifier, Hooks(told, clicks, has_channels=bool(senders))


def _clicks(told: Told, slack: Slack, settings: GroupSettings) -> Clicks:
    slack_settings = told.settings.notify.slack
    return Clicks(
        told.orders,
        told.state,
        slack,
        allowed={user: slack_settings.names.get(user, "") for user in slack_settings.users},
        secret=_signing(told.settings.notify, told.environment),
        settings=settings,
        metrics=told.metrics,
        clock=told.clock,
    )


def _loops(told: Told, session: aiohttp.ClientSession, clicks: Clicks | None) -> list[Loop]:
    notify, found = told.settings.notify, list[Loop]()
    app_token = _app_token(notify, told.environment)
    if clicks is not None and app_token:
        module: Any = importlib.import_module("ds4watch.notify.slack_socket")
        found.append(partial(module.listen, app_token, notify.slack.api_url, clicks.interaction))
    if notify.alertmanager.urls:
        place = AlertmanagerPlace(
            notify.alertmanager.urls,
            secret_of(notify.alertmanager.token, notify.alertmanager.token_file),
            tuple(sorted(notify.alertmanager.labels.items())),
            notify.alertmanager.resend_seconds,
            told.settings.scrape.interval_seconds,
            notify.public_url,
        )
        managers = Alertmanagers(
            session, place, lambda: told.known.alerts, metrics=told.metrics, clock=told.clock
        )
        found.append(managers.run)
    url = secret_of(notify.heartbeat.url, notify.heartbeat.url_file)
    if url:
        heartbeat = Heartbeat(
            session,
            url,
            interval_seconds=notify.heartbeat.interval_seconds,
            last_tick_at=lambda: told.known.fleet.at,
            metrics=told.metrics,
            clock=told.clock,
        )
        found.append(heartbeat.run)
    return found
