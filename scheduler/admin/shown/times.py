"""Shows times relative to now with the exact time on hover, or the reverse."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from django.utils.html import format_html
from django.utils.safestring import SafeString

_EXACT: Final = "%Y-%m-%d %H:%M:%S"
_UNITS: Final = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("min", timedelta(minutes=1)),
)


def distance(at: datetime, *, now: datetime) -> str:
    """Return the distance of a time from now in words, in its largest unit.

    >>> noon = datetime(2026, 1, 1, 12)
    >>> distance(noon - timedelta(minutes=3, seconds=50), now=noon)
    '3 min ago'
    >>> distance(noon + timedelta(days=2, hours=5), now=noon)
    'in 2 d'
    """
    for unit, length in _UNITS:
        if number := abs(now - at) // length:
            return f"{number} {unit} ago" if at < now else f"in {number} {unit}"
    return "just now"


def relative(at: datetime, *, now: datetime) -> SafeString:
    """Return an HTML element that shows the distance from now, and the exact time on hover."""
    return _element(at, shown=distance(at, now=now), on_hover=f"{_exact(at)} UTC")


def exact(at: datetime, *, now: datetime) -> SafeString:
    """Return an HTML element that shows the exact time (UTC), and the distance on hover."""
    return _element(at, shown=_exact(at), on_hover=distance(at, now=now))


def _exact(at: datetime) -> str:
    return at.astimezone(UTC).strftime(_EXACT)


def _element(at: datetime, *, shown: str, on_hover: str) -> SafeString:
    html = '<time datetime="{}" title="{}">{}</time>'
    return format_html(html, at.isoformat(timespec="seconds"), on_hover, shown)
