"""Formats the columns of lists: headers, numbers and times.

`column_of` converts a name in `list_display` to a column.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.options import Options
from django.utils import timezone

from scheduler.admin.shown import times

#: Column headers by field, for field names that are unclear, long or from BOINC.
HEADERS: Final = {
    "avg_ncpus": "CPUs",
    "cpu_seconds": "CPU seconds",
    "cpu_time": "CPU seconds",
    "elapsed_seconds": "elapsed seconds",
    "elapsed_time": "elapsed seconds",
    "expavg": "recent credit",
    "expavg_credit": "recent credit",
    "fraction_done": "done",
    "max_in_progress": "limit",
    "max_results_per_day": "daily limit",
    "md5": "MD5",
    "n_valid": "valid",
    "consecutive_valid": "valid in a row",
    "platform_name": "platform",
    "priority_group": "group",
    "rpc_at": "last contact",
    "sha256": "SHA-256",
    "total_credit": "credit",
    "turnaround_avg": "turnaround, seconds",
    "user_friendly_name": "title",
}
_NO_DECIMALS_FROM: Final = 1000


@cache
def column_of(model: Options[Any], name: str) -> str | Callable[[Any], Any]:
    """Return the column for a name in `list_display`.

    This is a function that formats the value, or the name itself if no format applies.
    """
    try:
        field = model.get_field(name)
    except FieldDoesNotExist:
        return name
    show = _show_of(field)
    if show is None and name not in HEADERS:
        return name

    @admin.display(
        description=HEADERS.get(name, str(getattr(field, "verbose_name", name))),
        ordering=name,
        boolean=isinstance(field, models.BooleanField),
    )
    def shown(row: Any) -> Any:
        value = getattr(row, name)
        return value if show is None or value is None else show(value)

    shown.__name__ = name  # Django derives the CSS class of the cells from it
    return shown


def _show_of(field: Any) -> Callable[[Any], str] | None:
    if isinstance(field, models.DateTimeField):
        return lambda at: times.relative(at, now=timezone.now())
    if isinstance(field, models.FloatField | models.DecimalField):
        return number
    return None


def number(value: float) -> str:
    """Return a number as text, with at most two decimals below 1000, and without decimals above.

    >>> number(1234567.890123), number(12.345678), number(0.5), number(0), number(3.0)
    ('1,234,568', '12.35', '0.5', '0', '3')
    """
    digits = 0 if abs(value) >= _NO_DECIMALS_FROM else 2
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
