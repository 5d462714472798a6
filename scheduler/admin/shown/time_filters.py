"""Filters of the admin's templates that show times; loaded as `desk_times`."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from scheduler.admin.shown import times

register = template.Library()


@register.filter
def ago(at: datetime | None) -> SafeString | str:
    """Return a time relative to now, with the exact time on hover; a dash for None."""
    return "–" if at is None else times.relative(at, now=timezone.now())


@register.filter
def exact(at: datetime | None) -> SafeString | str:
    """Return an exact time in UTC, with its distance from now on hover; a dash for None."""
    return "–" if at is None else times.exact(at, now=timezone.now())


@register.filter
def contents(field: Any) -> SafeString | str:
    """Return the contents of a read-only field of Django's admin; times are shown by `exact`."""
    name, row = field.field["field"], field.form.instance
    value = row.__dict__.get(name) if isinstance(name, str) else None
    if isinstance(value, datetime):
        return format_html("{} UTC", times.exact(value, now=timezone.now()))
    text: SafeString = field.contents()
    return text
