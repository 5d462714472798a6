"""Composes the page of error rates, and the worst app versions on the desk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from scheduler.admin.lists import orders
from scheduler.admin.lists.orders import Column, Head
from scheduler.health import outcome_counts
from scheduler.health.rules.error_rates import Rate
from scheduler.models import AppVersion

#: The periods by their names in the address of the page.
PERIODS: Final = {
    "day": ("24 hours", timedelta(days=1)),
    "week": ("7 days", timedelta(days=7)),
}
_DAY: Final = timedelta(days=1)
_MAX_ON_DESK: Final = 5
_MAX_PERCENT: Final = 100
_NUMBERS: Final = (
    Column[Rate]("results", "Results", lambda rate: rate.reported, is_number=True),
    Column[Rate]("errors", "Errors", lambda rate: rate.errors, is_number=True),
    Column[Rate]("invalid", "Invalid", lambda rate: rate.invalid, is_number=True),
    Column[Rate]("share", "Share", lambda rate: rate.percent, is_number=True),
)


@dataclass(frozen=True, slots=True)
class RateTable:
    """A table of the page; `id` is its anchor, and `note` explains which rows it has."""

    id: str
    title: str
    noun: str
    rates: Sequence[Rate]
    note: str = ""
    heads: Sequence[Head] = ()

    @property
    def anchor(self) -> str:
        """The end of addresses that lead to the table."""
        return f"#{self.id}"


def worst_versions(*, now: datetime) -> list[Rate]:
    """Return the app versions with the highest rates of the last day, without those of 0."""
    failing = {
        id_: rate for id_, rate in outcome_counts.of_versions(_DAY, now=now).items() if rate.failed
    }
    return [_of_version(*pair) for pair in outcome_counts.worst_versions(failing, _MAX_ON_DESK)]


def page(request: HttpRequest, site_context: dict[str, Any]) -> HttpResponse:
    """Return the page of error rates for users who may view app versions.

    The hosts are shown to users who may view hosts.  Raises `PermissionDenied`.
    """
    if not request.user.has_perm("scheduler.view_appversion"):
        raise PermissionDenied
    name = request.GET.get("period", "")
    name = name if name in PERIODS else "day"
    _, period = PERIODS[name]
    tables = _tables(
        period, now=timezone.now(), with_hosts=request.user.has_perm("scheduler.view_host")
    )
    context = {
        **site_context,
        "title": "Error rates",
        "periods": [
            (urlencode({"period": each, **orders.parameters(request)}), text, each == name)
            for each, (text, _) in PERIODS.items()
        ],
        "tables": [_ordered(request, table) for table in tables],
    }
    return TemplateResponse(request, "scheduler/admin/error_rates.html", context)


def _tables(period: timedelta, *, now: datetime, with_hosts: bool) -> list[RateTable]:
    rates = outcome_counts.of_versions(period, now=now)
    versions = outcome_counts.worst_versions(rates, len(rates))
    shown = [_of_version(*pair) for pair in versions[: outcome_counts.MAX_SHOWN]]
    left_out = len(versions) - len(shown)
    tables = [
        RateTable(
            "versions",
            "App versions",
            "App version",
            shown,
            f"{left_out:,} further versions have lower rates." if left_out else "",
        ),
        RateTable("apps", "Apps", "App", _filtered(outcome_counts.by_app(versions), "app")),
        RateTable(
            "platforms",
            "Platforms",
            "Platform",
            _filtered(outcome_counts.by_platform(versions), "platform"),
        ),
    ]
    if with_hosts:
        hosts = [
            replace(rate, url=reverse("admin:scheduler_host_change", args=[id_]))
            for id_, rate in outcome_counts.worst_hosts(period, now=now)
        ]
        note = (
            f"At most {outcome_counts.MAX_SHOWN_HOSTS} hosts. The results of a host count from its "
            f"first error within a week, for at most {outcome_counts.MAX_HOSTS:,} hosts."
        )
        tables.append(RateTable("hosts", "Hosts with errors", "Host", hosts, note))
    return tables


def _ordered(request: HttpRequest, table: RateTable) -> RateTable:
    """Return the table in the order of the query string, with the heads of its columns."""
    columns = (Column[Rate]("name", table.noun, lambda rate: rate.name.casefold()), *_NUMBERS)
    rates, heads = orders.ordered(request, table.rates, columns)
    return replace(table, rates=rates, heads=heads)


def _filtered(rates: Sequence[tuple[int, Rate]], column: str) -> list[Rate]:
    """Return the first rates with links to the list of versions, filtered by `column`."""
    url = reverse("admin:scheduler_appversion_changelist")
    return [
        replace(rate, url=f"{url}?{column}__id__exact={id_}")
        for id_, rate in rates[: outcome_counts.MAX_SHOWN]
    ]


def _of_version(version: AppVersion, rate: Rate) -> Rate:
    is_staged = version.rollout_percent < _MAX_PERCENT
    return replace(
        rate,
        name=str(version),
        url=reverse("admin:scheduler_appversion_change", args=[version.pk]),
        detail=f"sent to {version.rollout_percent} % of the hosts" if is_staged else "",
    )
