"""Serves the status page, which is BOINC's master page, and its figures as JSON.

A client reads the page in chunks of 255 bytes and parses the scheduler's URL only from a ``<link>``
at the beginning of a line (PROTOCOL 1.5, trap 1).  A test checks the template for this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_safe

from scheduler.config import AccountCreation
from scheduler.health import alerts, maintenance, status
from scheduler.health.counts import Count
from scheduler.health.rules.alert_texts import SILENT_AFTER, Alert
from scheduler.health.status import Status
from scheduler.lifecycle import Outcome
from scheduler.rights import Right
from scheduler.web import texts

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

    `key` is the path of the count in ``/status.json``.  `share` is the percentage of the bar, and
    `tone` is the CSS class of its segment.
    """

    key: str
    words: object
    count: Count
    tone: str = "plain"
    share: float = 0


@require_safe
def status_page(request: HttpRequest) -> HttpResponse:
    """Return the page that shows the project, its status and the ways to attach to it."""
    live = status.current(now=timezone.now())
    return render(
        request,
        "scheduler/status.html",
        {
            "project": _project(request),
            "live": live,
            "workunits": _figures("workunits", live.workunits),
            "results": _figures("results", live.results),
            "outcomes": _outcomes(live.outcomes),
            "people": _figures("people", live.people),
            "stations": _stations(live),
            "maintenance": maintenance.current(),
            "alerts": _alerts(request),
        },
    )


def _alerts(request: HttpRequest) -> tuple[Alert, ...]:
    """Return the alerts if the account may view everything, else an empty tuple."""
    # This check is first, so that a visitor without a session causes no SQL statement.
    if not (request.COOKIES and request.user.is_authenticated):
        return ()
    if not request.user.has_right(Right.VIEW_EVERYTHING):
        return ()
    return alerts.current(now=timezone.now())


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
            "apps": [
                {"name": app.name, "versions": [asdict(line) for line in app.versions]}
                for app in live.apps
            ],
            "waits": [asdict(wait) for wait in live.waits],
            "labels": labels,
            "tones": {f"life.{station.daemon}": _tone(station.silent) for station in live.stations},
        }
    )
    answer["Cache-Control"] = "no-store"
    return answer


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
    return [
        Figure(
            key=f"outcomes.{outcome.name.lower()}",
            words=words,
            count=counts[outcome.name.lower()],
            tone=tone,
            share=round(100 * counts[outcome.name.lower()].value / total, 2),
        )
        for outcome, (words, tone) in _OUTCOMES.items()
    ]


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
