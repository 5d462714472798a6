"""Feeds of news: for everybody, and as the notices of BOINC clients."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduler.boinc.pages.web_rpc import number, xml_response
from scheduler.boinc.wire import feeds as wire
from scheduler.boinc.wire import web
from scheduler.messages import news
from scheduler.models import News
from scheduler.people import feed_keys

_RSS: Final = "application/rss+xml; charset=utf-8"
_MAX_DAYS: Final = 36_500


@require_safe
def rss_main(request: HttpRequest) -> HttpResponse:
    """Return the news of the last 30 days, or of the last `ndays` days, for everybody."""
    days = number(request.GET, "ndays")
    shown_for = timedelta(days=days) if 0 < days <= _MAX_DAYS else news.SHOWN_FOR
    now = timezone.now()
    response = _feed("News of", news.latest(now=now, shown_for=shown_for), now=now)
    response["Cache-Control"] = "public, max-age=3600"
    return response


@require_safe
def notices(request: HttpRequest) -> HttpResponse:
    """Return the notices of an account: the news of the last 30 days.

    The parameters `userid` and `auth` are those of the address that scheduler replies contain.
    """
    try:
        feed_keys.check(number(request.GET, "userid"), request.GET.get("auth", ""))
    except feed_keys.BadFeedKey as refusal:
        return xml_response(web.encode_error(refusal.error_num, str(refusal)))
    now = timezone.now()
    response = _feed("Notices of", news.latest(now=now), now=now)
    response["Cache-Control"] = "private, no-store"
    return response


def _feed(kind: str, items: list[News], *, now: datetime) -> HttpResponse:
    project = settings.PROJECT
    channel = wire.Channel(
        title=project.name,
        link=project.master_url,
        description=f"{kind} {project.name}",
        # Feed readers that have this time already may skip the items.
        built_at=max((each.changed_at or each.published_at for each in items), default=now),
        items=tuple(map(_item(project.master_url), items)),
    )
    return xml_response(wire.encode_feed(channel), _RSS)


def _item(master_url: str) -> Callable[[News], wire.Item]:
    # Clients recognize news by the guid: with another one, they show old notices again.
    return lambda each: wire.Item(
        guid=f"{master_url}news/{each.pk}",
        title=each.title,
        text=each.text,
        link=news.page_url(each.pk),
        published_at=each.published_at,
    )
