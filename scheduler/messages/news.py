"""Publishes, changes and withdraws news, and reads them for feeds, pages and API."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape
from typing import Final
from urllib.parse import urljoin

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils.text import Truncator

from scheduler.messages.rules.plain_text import with_line_feeds
from scheduler.models import Account, News
from scheduler.people import audit

#: Clients ignore a title whose HTML is longer.
MAX_TITLE_BYTES: Final = 255
MAX_TEXT: Final = 20_000
#: Clients drop older notices.
SHOWN_FOR: Final = timedelta(days=30)
#: Maximum number of news in a feed.
MAX_SHOWN: Final = 50
#: Maximum length of the beginning of a text in a list of news.
MAX_BEGINNING: Final = 300
#: The path of the list of news; `web.urls` routes it and the pages below it.
PATH: Final = "news/"


class NewsRefused(ValueError):
    """News cannot be published or changed. Hint: see the message."""


class NewsOutdated(NewsRefused):
    """The news changed after its preview. Hint: look at the preview again."""


@dataclass(frozen=True, slots=True)
class NewsPage:
    """A page of news; the next page begins below the id `older_than`, None after the last."""

    rows: tuple[News, ...]
    older_than: int | None


@dataclass(frozen=True, slots=True)
class NewsItem:
    """A piece of news, with the next one and the one before it, if they exist."""

    news: News
    newer: News | None
    older: News | None


def check(title: str, text: str) -> tuple[str, str]:
    """Return title and text in their stored form; raise `NewsRefused` for a bad one."""
    title, text = title.strip(), with_line_feeds(text).strip()
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


def fingerprint(news: News) -> str:
    """Return a digest of title, text and withdrawal, by which `change` detects later changes."""
    values = (news.title, news.text, news.withdrawn_at is None)
    return hashlib.sha256(repr(values).encode()).hexdigest()


def check_change(news: News, title: str, text: str) -> dict[str, str]:
    """Return the values of `title` and `text` that differ from those of `news`.

    Raises `NewsRefused` for a bad title or text, for withdrawn news, and if nothing differs.
    """
    title, text = check(title, text)
    if news.withdrawn_at is not None:
        raise NewsRefused("The news is withdrawn. Hint: publish the text as a new item.")
    # Rows of earlier versions have the line ends of browsers.
    stored = {"title": news.title, "text": with_line_feeds(news.text)}
    changed = {
        name: value for name, value in (("title", title), ("text", text)) if value != stored[name]
    }
    if not changed:
        raise NewsRefused("Title and text are as they were. Hint: change one of them.")
    return changed


def change(news_id: int, title: str, text: str, *, seen: str, now: datetime) -> News:
    """Change title and text of published news, and write an audit entry; return the news.

    `seen` is the `fingerprint` of the news that was previewed: raises `NewsOutdated` if it is not
    that of the stored news, and `NewsRefused` as `check_change` does.  The guid in feeds, the time
    of publication and the address do not change.
    """
    with transaction.atomic():
        news = News.objects.select_for_update(no_key=True).filter(pk=news_id).first()
        if news is None or fingerprint(news) != seen:
            raise NewsOutdated(
                "The news has changed since the preview. Hint: look at the preview again."
            )
        changed = check_change(news, title, text)
        before = {name: getattr(news, name) for name in changed}
        for name, value in changed.items():
            setattr(news, name, value)
        news.changed_at = now
        news.save(update_fields=[*changed, "changed_at"])
        details = {"before": before, **changed}
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
    """Return at most `MAX_SHOWN` items that are neither withdrawn nor too old, newest first."""
    shown = News.objects.filter(withdrawn_at__isnull=True, published_at__gt=now - shown_for)
    return list(shown.order_by("-published_at", "-pk")[:MAX_SHOWN])


def published() -> QuerySet[News]:
    """Return the items that are not withdrawn; their ids increase with the time of publication."""
    return News.objects.filter(withdrawn_at__isnull=True)


def page(*, below: int | None = None, count: int) -> NewsPage:
    """Return at most `count` news with ids less than `below`, newest first, in one statement."""
    rows = published() if below is None else published().filter(pk__lt=below)
    newest_rows = tuple(rows.order_by("-pk")[: count + 1])
    page_rows = newest_rows[:count]
    return NewsPage(page_rows, page_rows[-1].pk if len(newest_rows) > count else None)


def find(news_id: int) -> NewsItem | None:
    """Return an item that is not withdrawn, with its neighbors; at most three statements."""
    rows = published()
    news = rows.filter(pk=news_id).first()
    if news is None:
        return None
    return NewsItem(
        news=news,
        newer=rows.filter(pk__gt=news_id).order_by("pk").first(),
        older=rows.filter(pk__lt=news_id).order_by("-pk").first(),
    )


def page_url(news_id: int) -> str:
    """Return the absolute URL of the page of news."""
    return urljoin(settings.PROJECT.master_url, f"/{PATH}{news_id}/")


def beginning(text: str) -> str:
    """Return the first paragraph of a text on one line, shortened to `MAX_BEGINNING` characters."""
    first = with_line_feeds(text).strip().partition("\n\n")[0]
    return Truncator(" ".join(first.split())).chars(MAX_BEGINNING)


def _subject(news: News) -> str:
    return f"news {news.pk} {news.title}"
