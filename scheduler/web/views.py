"""Serves the status page, which is BOINC's master page, and its figures as JSON.

A client reads the page in chunks of 255 bytes and parses the scheduler's URL only from a ``<link>``
at the beginning of a line (PROTOCOL 1.5, trap 1).  A test checks the template for this.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from scheduler.config import AccountCreation
from scheduler.health import alerts, maintenance, status
from scheduler.health.counts import Count
from scheduler.health.maintenance import Maintenance
from scheduler.health.rules.alert_texts import SILENT_AFTER
from scheduler.health.status import AppLine, NewsLine, Status
from scheduler.lifecycle import Outcome
from scheduler.messages import news
from scheduler.messages.rules import plain_text
from scheduler.models import Account
from scheduler.rights import Right
from scheduler.web import credit_charts, fragments, texts, wait_texts
from scheduler.web.volunteers.shown import time_of

#: Outcomes in the order of the bar, with their labels and tones.
_OUTCOMES = {
    Outcome.SUCCESS: (gettext_lazy("success"), "good"),
    Outcome.DIDNT_NEED: (gettext_lazy("not needed"), "plain"),
    Outcome.NO_REPLY: (gettext_lazy("no reply"), "uneasy"),
    Outcome.CLIENT_DETACHED: (gettext_lazy("detached"), "uneasy"),
    Outcome.COULDNT_SEND: (gettext_lazy("could not be sent"), "bad"),
    Outcome.CLIENT_ERROR: (gettext_lazy("client error"), "bad"),
    Outcome.VALIDATE_ERROR: (gettext_lazy("validate error"), "bad"),
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A count on the page.

    `key` is the path of the count in ``/status.json``.  The segment of the bar begins at the
    percentage `start`, takes `share` percent, and has the CSS class `tone`.
    """

    key: str
    words: object
    count: Count
    tone: str = "plain"
    share: float = 0
    start: float = 0


@require_safe
def status_page(request: HttpRequest) -> HttpResponseBase:
    """Return the page that shows the project, its status and the ways to attach to it."""
    now = timezone.now()
    live = status.current(now=now)
    rights, notice = _rights(request), maintenance.current()
    return fragments.status_page(
        request,
        "scheduler/status.html",
        {
            "project": _project(request),
            "live": live,
            "about": plain_text.paragraphs(settings.PROJECT.description),
            "apps": [(app, plain_text.paragraphs(app.description)) for app in live.apps],
            "news": [(line, time_of(line.published_at, now=now)) for line in live.news],
            "administers": Right.ADMINISTER_PROJECT in rights,
            "manages_apps": Right.MANAGE_APPS in rights,
            "workunits": _figures("workunits", live.workunits),
            "results": _figures("results", live.results),
            "outcomes": _outcomes(live.outcomes),
            "people": _figures("people", live.people),
            "stations": _stations(live),
            "latest": [(line, time_of(line.granted_at, now=now)) for line in live.latest],
            "waits": [wait_texts.sentence(wait) for wait in live.waits],
            "maintenance": notice,
            "maintenance_text": _maintenance_text(notice),
            "alerts": alerts.current(now=now) if Right.VIEW_EVERYTHING in rights else (),
            "credit": credit_charts.project_chart(now=now),
        },
    )


def _maintenance_text(notice: Maintenance | None) -> str:
    if notice is None:
        return ""
    return maintenance.with_message(texts.translated(notice.sentence), notice.message)


def _rights(request: HttpRequest) -> Collection[Right]:
    """Return the rights of the visitor's account, which decide about the parts for staff."""
    # This check is first, so that a visitor without a session causes no SQL statement.
    if not (request.COOKIES and isinstance(request.user, Account)):
        return ()
    return request.user.rights


@require_safe
def status_json(request: HttpRequest) -> JsonResponse:
    """Return the figures of the page, counted at `read_at`, as JSON.

    `labels` has the texts of the page in the language of the parameter `language`, else in English.
    """
    language = request.GET.get("language", "")
    if language not in settings.PROJECT.site_languages:
        language = settings.LANGUAGE_CODE
    live = status.current(now=timezone.now())
    groups = _groups(live)
    with translation.override(language):
        labels = _labels(live, groups)
    answer = JsonResponse(
        {
            "project": settings.PROJECT.name,
            "master_url": settings.PROJECT.master_url,
            "description": settings.PROJECT.description,
            "read_at": live.read_at.isoformat(),
            **{group: _values(counts) for group, counts in groups.items()},
            "behind_seconds": {
                station.daemon: station.behind.total_seconds()
                for station in live.stations
                if station.behind is not None
            },
            "silent_seconds": {
                station.daemon: None if station.silent is None else station.silent.total_seconds()
                for station in live.stations
            },
            "apps": [_app_values(app) for app in live.apps],
            "news": [_news_values(line) for line in live.news],
            "waits": [
                {"cause": wait.cause, "workunits": wait.workunits, "sentence": wait.sentence}
                for wait in live.waits
            ],
            "labels": labels,
            "tones": {f"life.{station.daemon}": _tone(station.silent) for station in live.stations},
        }
    )
    answer["Cache-Control"] = "no-store"
    return answer


def _app_values(app: AppLine) -> dict[str, Any]:
    return {
        "name": app.name,
        "title": app.title,
        "description": app.description,
        "workunits_done": None if app.done is None else app.done.value,
        "versions": [asdict(line) for line in app.versions],
    }


def _news_values(line: NewsLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "title": line.title,
        "published_at": line.published_at.isoformat(),
        "url": news.page_url(line.id),
    }


def _groups(live: Status) -> dict[str, dict[str, Count]]:
    return {
        "workunits": live.workunits,
        "results": live.results,
        "outcomes": live.outcomes,
        "people": live.people,
        "waiting": {station.daemon: station.waiting for station in live.stations},
    }


def _labels(live: Status, groups: Mapping[str, Mapping[str, Count]]) -> dict[str, str]:
    """Return the text of each figure on the page, by its path in ``/status.json``."""
    labels = {
        f"{group}.{name}": texts.number(count.value)
        for group, counts in groups.items()
        for name, count in counts.items()
    }
    labels |= {f"behind.{station.daemon}": _behind(station.behind) for station in live.stations}
    labels |= {f"life.{station.daemon}": _life(station.silent) for station in live.stations}
    return labels


def _values(counts: Mapping[str, Count]) -> dict[str, int]:
    return {name: count.value for name, count in counts.items()}


def _project(request: HttpRequest) -> dict[str, Any]:
    """Return the project's name and addresses.

    A client that reads the page at a former address is attached by it, and gets a scheduler's URL
    there: its requests then show by which address it identifies the project.
    """
    config = settings.PROJECT
    attached_url = config.attached_url(request.scheme or "http", request.get_host())
    return {
        "name": config.name,
        "master_url": config.master_url,
        "has_moved": attached_url != config.master_url,
        "scheduler_url": replace(config, master_url=attached_url).scheduler_url,
        "takes_accounts": config.account_creation is AccountCreation.OPEN,
        "takes_sign_ups": config.account_creation is not AccountCreation.CLOSED,
    }


def _figures(group: str, counts: Mapping[str, Count]) -> list[Figure]:
    return [
        Figure(f"{group}.{name}", texts.translated(status.words(name)), count)
        for name, count in counts.items()
    ]


def _outcomes(counts: Mapping[str, Count]) -> list[Figure]:
    total = sum(count.value for count in counts.values()) or 1
    figures: list[Figure] = []
    start = 0.0
    for outcome, (words, tone) in _OUTCOMES.items():
        name = outcome.name.lower()
        share = 100 * counts[name].value / total
        figures.append(Figure(f"outcomes.{name}", words, counts[name], tone, share, start))
        start += share
    return figures


def _stations(live: Status) -> list[dict[str, Any]]:
    return [
        {
            "daemon": station.daemon,
            "does": texts.translated(station.does),
            "waiting": Figure(f"waiting.{station.daemon}", _("waiting"), station.waiting),
            "behind": _behind(station.behind),
            "life": _life(station.silent),
            "tone": _tone(station.silent),
        }
        for station in live.stations
    ]


def _life(silent: timedelta | None) -> str:
    """Return "alive", or the time since the last heartbeat of a daemon, as text.

    >>> _life(timedelta(seconds=9)), _life(timedelta(hours=3)), _life(None)
    ('alive', 'silent for 3 h', 'never seen')
    """
    if silent is None:
        return _("never seen")
    return _("alive") if _is_alive(silent) else _("silent for {}").format(_behind(silent))


def _is_alive(silent: timedelta | None) -> bool:
    return silent is not None and silent <= SILENT_AFTER


def _tone(silent: timedelta | None) -> str:
    """Return "bad", which the page shows in red, for a daemon that is not alive, else "good"."""
    return "good" if _is_alive(silent) else "bad"


def _behind(behind: timedelta | None) -> str:
    """Return a duration as text in its largest unit, rounded down; "–" for None.

    >>> _behind(timedelta(seconds=90)), _behind(None)
    ('1 min', '–')
    """
    if behind is None:
        return "–"
    seconds = int(behind.total_seconds())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
