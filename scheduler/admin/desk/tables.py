"""The page of the sizes of all tables, and of the growth of the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from django.apps import apps
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.base import nbytes_label
from scheduler.admin.lists import orders
from scheduler.admin.lists.orders import Column
from scheduler.health import samples
from scheduler.health.rules import series
from scheduler.health.rules.line_charts import LineChart, draw
from scheduler.health.samples import Period
from scheduler.sql import table_sizes
from scheduler.sql.table_sizes import TableSize

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

#: The axis of the chart has round numbers of the largest of these units that fits.
_UNITS: Final = (2**40, 2**30, 2**20)
#: The figure of the samples that has the size of the database.
_FIGURE: Final = "database.nbytes"
_GROWTH: Final = (
    ("since yesterday", timedelta(days=1)),
    ("since last week", timedelta(days=7)),
    ("since 30 days ago", timedelta(days=30)),
)

_COLUMNS: Final = (
    Column[TableSize]("table", "Table", lambda table: table.name),
    Column[TableSize]("total", "Total", lambda table: table.nbytes, is_number=True),
    Column[TableSize](
        "rows", "Rows (estimate)", lambda table: table.estimated_rows, is_number=True
    ),
    Column[TableSize]("dead", "Dead rows", lambda table: table.dead_rows, is_number=True),
    Column[TableSize]("data", "Data", lambda table: table.own_nbytes, is_number=True),
    Column[TableSize]("indexes", "Indexes", lambda table: table.index_nbytes, is_number=True),
    Column[TableSize](
        "toast", "Long values (TOAST)", lambda table: table.toast_nbytes, is_number=True
    ),
    Column[TableSize]("vacuum", "Last vacuum", lambda table: table.vacuumed_at, is_number=True),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the table: sizes as text, and the address of the list of the rows, or ""."""

    table: TableSize
    url: str
    own: str
    indexes: str
    toast: str
    total: str


def context(site: AdminSite, request: HttpRequest) -> dict[str, Any]:
    """Return the context of the page: every table, their sums, and the growth; four statements."""
    now = timezone.now()
    tables = table_sizes.read()
    nbytes = table_sizes.database_nbytes()
    urls = _urls(site, request)
    ordered, heads = orders.ordered(request, tables, _COLUMNS, default="-total")
    total = TableSize(
        "all tables",
        estimated_rows=sum(table.estimated_rows for table in tables),
        dead_rows=sum(table.dead_rows for table in tables),
        vacuumed_at=None,
        own_nbytes=sum(table.own_nbytes for table in tables),
        index_nbytes=sum(table.index_nbytes for table in tables),
        toast_nbytes=sum(table.toast_nbytes for table in tables),
        partition_count=0,
    )
    return {
        "title": "Sizes of tables",
        "heads": heads,
        "lines": [_line(table, urls.get(table.name, "")) for table in ordered],
        "sum": _line(total, ""),
        "database": nbytes_label(nbytes),
        "growth": _growth(nbytes, now),
        "chart": _chart(now),
        "read_at": now,
    }


def _line(table: TableSize, url: str) -> Line:
    return Line(
        table=table,
        url=url,
        own=nbytes_label(table.own_nbytes),
        indexes=nbytes_label(table.index_nbytes),
        toast=nbytes_label(table.toast_nbytes) if table.toast_nbytes else "–",
        total=nbytes_label(table.nbytes),
    )


def _urls(site: AdminSite, request: HttpRequest) -> Mapping[str, str]:
    """Return the addresses of the lists that the user may view, by table."""
    return {
        model._meta.db_table: reverse(
            f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist"
        )
        for model in apps.get_models()
        if site.is_registered(model) and site.get_model_admin(model).has_view_permission(request)
    }


def _growth(nbytes: int, now: datetime) -> Sequence[tuple[str, str]]:
    """Return the growth since some times, as text; without a sample of a time it is unknown."""
    taken = samples.before([now - ago for _, ago in _GROWTH])
    lines = []
    for words, ago in _GROWTH:
        sample = taken.get(now - ago)
        earlier = None if sample is None else sample.figures.get(_FIGURE)
        lines.append((words, "unknown" if earlier is None else growth_label(nbytes - earlier)))
    return lines


def growth_label(nbytes: float) -> str:
    """Return a difference of sizes as text with a sign.

    >>> growth_label(1536), growth_label(-2048), growth_label(0)
    ('+1.5 KiB', '−2.0 KiB', '+0 B')
    """
    return f"{'−' if nbytes < 0 else '+'}{nbytes_label(abs(nbytes))}"


def _chart(now: datetime) -> LineChart:
    span = Period.MONTH.value
    points = series.levels(samples.read(Period.MONTH, now=now), _FIGURE, step=span.step)
    largest = max((point.value or 0 for point in points), default=0)
    return draw(
        "Size of the database, 30 days",
        [("size", points)],
        since=now - span.length,
        until=now,
        label=nbytes_label,
        unit=next((unit for unit in _UNITS if largest >= unit), 1),
    )
