"""Draws the credit per day of an account, a computer, a team or the project."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from django.core.cache import cache
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from scheduler.credit import credit_samples
from scheduler.credit.credit_samples import Kind
from scheduler.credit.rules.daily_credit import DayCredit
from scheduler.health.rules.line_charts import LineChart, draw
from scheduler.health.rules.series import Point
from scheduler.web import lists, texts

_DAY: Final = timedelta(days=1)
#: The periods in days, with their labels; the first one is the default.
_PERIODS: Final = (
    (30, gettext_lazy("30 days")),
    (90, gettext_lazy("90 days")),
    (365, gettext_lazy("1 year")),
)
_MAX_DIGITS: Final = 3
#: The days of the chart on the front page, and the seconds for which a process keeps their credit,
#: which changes once a day.
_FRONT_DAYS: Final = 60
_FRONT_SECONDS: Final = 600
_MONTHS: Final = timedelta(days=100)
_SIZES: Final = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))


@dataclass(frozen=True, slots=True)
class CreditChart:
    """A chart of credit per day, and what a reader who does not see it gets.

    `periods` has the link, the label, and whether it is the shown one of each period; it is empty
    if the period cannot be chosen.  `rows` has the day and the credit as text, newest first; empty
    before the first two samples.
    """

    drawing: LineChart
    summary: str
    periods: tuple[tuple[str, str, bool], ...]
    rows: tuple[tuple[str, str], ...]


def chart(
    request: HttpRequest, kind: Kind, holder_id: int, *, now: datetime, **query: int
) -> CreditChart:
    """Return the chart of a holder for the period in the parameter `days`; one statement.

    An unknown period selects the default.  `query` has the other parameters of the page.
    """
    lengths = [days for days, _label in _PERIODS]
    chosen = lists.number(request.GET.get("days", ""), _MAX_DIGITS)
    days = chosen if chosen in lengths else lengths[0]
    rows = credit_samples.read(kind, holder_id, days=days, now=now)
    periods = tuple(
        (f"{lists.link(**query, days=each)}#credit-per-day", str(label), each == days)
        for each, label in _PERIODS
    )
    return _chart(rows, days, periods, now=now)


def project_chart(*, now: datetime) -> CreditChart:
    """Return the chart of the whole project over `_FRONT_DAYS`, for the front page.

    At most one statement; none while the process keeps the credit.
    """
    key = f"manyhands.credit_of_days.{now:%Y-%m-%d}"
    rows: tuple[DayCredit, ...] | None = cache.get(key)
    if rows is None:
        rows = credit_samples.read(Kind.PROJECT, 0, days=_FRONT_DAYS, now=now)
        cache.set(key, rows, _FRONT_SECONDS)
    return _chart(rows, _FRONT_DAYS, (), now=now)


def _chart(
    rows: tuple[DayCredit, ...],
    days: int,
    periods: tuple[tuple[str, str, bool], ...],
    *,
    now: datetime,
) -> CreditChart:
    title = _("Credit per day")
    today = _midnight(now.date())
    return CreditChart(
        drawing=draw(
            title,
            [(title, _points(rows))],
            since=today - days * _DAY,
            until=today,
            label=_short,
            label_time=_time_label,
        ),
        summary=_summary(rows),
        periods=periods,
        rows=tuple((_row_label(row), _amount(row)) for row in reversed(rows)),
    )


def _points(rows: tuple[DayCredit, ...]) -> list[Point]:
    """Return a point at the end of each day; each day of a mean gets its own point."""
    points: list[Point] = []
    for row in rows:
        if points and points[-1].at < _midnight(row.day) - row.days * _DAY:
            points.append(Point(_midnight(row.day) - row.days * _DAY, None))
        points.extend(
            Point(_midnight(row.day) - back * _DAY, float(row.credit))
            for back in reversed(range(row.days))
        )
    return points


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def _summary(rows: tuple[DayCredit, ...]) -> str:
    if not rows:
        return ""
    best = max(rows, key=lambda row: row.credit)
    total = sum(float(row.credit) * row.days for row in rows)
    if not total:
        return _("No credit in this period.")
    return _("{} credits in this period, at most {} on one day ({}).").format(
        texts.number(total), _amount(best), _day_label(best.day)
    )


def _row_label(row: DayCredit) -> str:
    if row.days == 1:
        return _day_label(row.day)
    return _("{} to {}, per day").format(
        _day_label(row.day - (row.days - 1) * _DAY), _day_label(row.day)
    )


def _day_label(day: date) -> str:
    return date_format(day, _("j F Y"))


def _time_label(at: datetime, length: timedelta) -> str:
    """Return the label of a day on the axis of a chart of some length."""
    # Translators: a day on the axis of a chart, in the format of Django's filter `date`.
    return date_format(at, _("j M") if length <= _MONTHS else "M")


def _amount(row: DayCredit) -> str:
    return texts.number(row.credit, 0 if row.credit >= 100 or not row.credit else 2)  # noqa: PLR2004  cents


def _short(value: float) -> str:
    """Return a number for an axis: short, with at most one decimal.

    >>> [_short(value) for value in (0, 950, 1500, 20_000, 3_000_000)]
    ['0', '950', '1.5k', '20k', '3M']
    """
    for unit, size in _SIZES:
        if value >= size:
            decimals = 0 if value % size == 0 else 1
            return texts.number(value / size, decimals) + unit
    return texts.number(value, 0 if value == int(value) else 1)
