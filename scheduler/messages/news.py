"""Publishes and withdraws news, and reads them for feeds."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from html import escape
from typing import Final

from django.db import transaction

from scheduler.models import Account, News
from scheduler.people import audit

#: Clients ignore a title whose HTML is longer.
MAX_TITLE_BYTES: Final = 255
MAX_TEXT: Final = 20_000
#: Clients drop older notices.
SHOWN_FOR: Final = timedelta(days=30)
#: Maximum number of news in a feed.
MAX_SHOWN: Final = 50


class NewsRefused(ValueError):
    """News cannot be published. Hint: see the message."""


def check(title: str, text: str) -> tuple[str, str]:
    """Return title and text in their stored form; raise `NewsRefused` for a bad one."""
    title, text = title.strip(), text.strip()
    title_bytes = len(escape(title).encode("utf-8", "replace"))
    if not 0 < title_bytes <= MAX_TITLE_BYTES or not title.isprintable():
        raise NewsRefused(
            f"The title has {title_bytes} bytes as HTML. "
            f"Hint: give 1 to {MAX_TITLE_BYTES}, on one line."
        )
    if not 0 < len(text) <= MAX_TEXT or "\0" in text:
        raise NewsRefused(f"The text has {len(text)} characters. Hint: give 1 to {MAX_TEXT}.")
    return title, text


def publish(title: str, text: str, *, author: Account | None, now: datetime) -> News:
    """Publish news, which feeds contain at once; raise `NewsRefused` for a bad title or text."""
    title, text = check(title, text)
    with transaction.atomic():
        news = News.objects.create(title=title, text=text, author=author, published_at=now)
        details = {"published": True}
        audit.record(audit.Event.NEWS_CHANGED, now=now, subject=_subject(news), details=details)
    return news


def withdraw(news_ids: Collection[int], *, now: datetime) -> int:
    """Withdraw news, so that feeds omit them and clients drop them; return their number.

    News that are withdrawn already are not counted.
    """
    with transaction.atomic():
        published = News.objects.filter(pk__in=news_ids, withdrawn_at__isnull=True).order_by("pk")
        rows = list(published.select_for_update(no_key=True))
        News.objects.filter(pk__in=[row.pk for row in rows]).update(withdrawn_at=now)
        subjects = map(_subject, rows)
        details = {"withdrawn": True}
        audit.record_all(audit.Event.NEWS_CHANGED, now=now, subjects=subjects, details=details)
    return len(rows)


def latest(*, now: datetime, shown_for: timedelta = SHOWN_FOR) -> list[News]:
    """Return at most `MAX_SHOWN` news that are not withdrawn nor too old, newest first."""
    shown = News.objects.filter(withdrawn_at__isnull=True, published_at__gt=now - shown_for)
    return list(shown.order_by("-published_at", "-pk")[:MAX_SHOWN])


def _subject(news: News) -> str:
    return f"news {news.pk} {news.title}"
