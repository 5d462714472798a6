"""Encodes news as RSS 2.0, in the form that BOINC's clients parse."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from html import escape as escape_html
from typing import Final

from scheduler.boinc.wire import xml
from scheduler.boinc.wire.documents import INVALID

_BLANK_LINES: Final = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A piece of news: a title on one line and plain text, both without markup."""

    guid: str
    title: str
    text: str
    link: str
    published_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A feed; `built_at` is the time of its last item or change of an item."""

    title: str
    link: str
    description: str
    built_at: datetime
    items: tuple[Item, ...] = ()


def encode_feed(channel: Channel) -> bytes:
    """Return the channel as RSS 2.0.

    Clients copy titles and texts into files of their own without escaping them, and BOINC Manager
    shows them as HTML.  So they are HTML in CDATA sections, in which `<`, `>` and `&` are escaped.
    """
    text = (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<rss version="2.0">\n<channel>\n'
        f"<title>{xml.escape(channel.title)}</title>\n"
        f"<link>{xml.escape(channel.link)}</link>\n"
        f"<description>{xml.escape(channel.description)}</description>\n"
        f"<lastBuildDate>{_date(channel.built_at)}</lastBuildDate>\n"
        f"{''.join(_items(channel.items))}</channel>\n</rss>\n"
    )
    return INVALID.sub("?", text).encode()


def _items(items: Iterable[Item]) -> Iterable[str]:
    for item in items:
        yield (
            "<item>\n"
            f"<title><![CDATA[{escape_html(item.title)}]]></title>\n"
            f"<link>{xml.escape(item.link)}</link>\n"
            f'<guid isPermaLink="false">{xml.escape(item.guid)}</guid>\n'
            f"<description><![CDATA[{_paragraphs(item.text)}]]></description>\n"
            f"<pubDate>{_date(item.published_at)}</pubDate>\n"
            "</item>\n"
        )


def _paragraphs(text: str) -> str:
    r"""Return plain text as HTML: an empty line separates paragraphs.

    >>> _paragraphs("a < b\nc\n\nd")
    '<p>a &lt; b<br>c</p><p>d</p>'
    """
    lines = escape_html(text.replace("\r\n", "\n").strip())
    return "".join(
        f"<p>{paragraph.strip().replace(chr(10), '<br>')}</p>"
        for paragraph in _BLANK_LINES.split(lines)
    )


def _date(at: datetime) -> str:
    """Return a time in the form that clients parse, which ignore the time zone at its end."""
    return format_datetime(at.astimezone(UTC), usegmt=True)
