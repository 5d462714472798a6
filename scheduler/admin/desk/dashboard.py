"""Composes the operator's desk: alerts, flow of work, daemons, charts, troubles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.urls import reverse

from scheduler import storage
from scheduler.admin.base import duration_label, nbytes_label
from scheduler.admin.desk import error_rates
from scheduler.health import alerts, maintenance, recent, samples, status
from scheduler.health.rules import series
from scheduler.health.rules.alert_texts import SILENT_AFTER
from scheduler.health.rules.line_charts import Label, LineChart, draw
from scheduler.health.rules.series import Sample
from scheduler.health.samples import Period
from scheduler.health.status import Station, Status
from scheduler.lifecycle import AssimilateState, FileDeleteState
from scheduler.sql import table_sizes

_HOUR: Final = timedelta(hours=1)
_ERRORS: Final = ("outcomes.client_error", "outcomes.validate_error")
_LOST: Final = ("outcomes.no_reply", "outcomes.client_detached")
#: The filter of the list of workunits that corresponds to a station.  The list of
#: `waiting_for_deletion` omits workunits whose files are not marked yet, and that of `finished`
#: omits purged ones.
_FILTERS: Final = {
    "in_progress": f"assimilate_state__exact={AssimilateState.INIT}&need_validate__exact=0",
    "waiting_for_validation": (
        f"assimilate_state__exact={AssimilateState.INIT}&need_validate__exact=1"
    ),
    "waiting_for_assimilation": f"assimilate_state__exact={AssimilateState.READY}",
    "waiting_for_deletion": f"file_delete_state__exact={FileDeleteState.READY}",
    "finished": f"file_delete_state__exact={FileDeleteState.DONE}",
}
_REPORTED: Final = ("outcomes.success", *_ERRORS)
#: The number of tables on the desk; `desk.tables` shows all of them.
_LARGEST_TABLES: Final = 8


@dataclass(frozen=True, slots=True)
class Stage:
    """A station of workunits on the desk; `details` are its rate per hour and its oldest work."""

    title: str
    count: str
    details: tuple[str, ...]
    url: str


@dataclass(frozen=True, slots=True)
class Lamp:
    """A daemon on the desk; `tone` is the CSS class of its light: good or bad."""

    daemon: str
    does: str
    tone: str
    life: str
    seen_at: datetime | None
    waiting: str
    oldest: str
    rate: str


def context(*, period: Period, now: datetime) -> dict[str, Any]:
    """Return the context of the desk's template, whose charts show `period`."""
    live = status.current(now=now)
    kept = samples.read(period, now=now)
    samples_of_day = kept if period is Period.DAY else samples.read(Period.DAY, now=now)
    return {
        "alerts": alerts.current(now=now, due_since=live.due_since),
        "maintenance": maintenance.current(),
        "flow": _flow(live, samples_of_day),
        "failed": live.workunits["failed"].label,
        "results": [(status.words(name), count.label) for name, count in live.results.items()],
        "people": [(status.words(name), count.label) for name, count in live.people.items()],
        "lamps": [_lamp(station, samples_of_day, now) for station in live.stations],
        "charts": _charts(kept, period, now),
        "periods": [(each.name.lower(), each.value.title, each is period) for each in Period],
        "worst_versions": error_rates.worst_versions(now=now),
        "refusals": recent.refusals(now=now),
        "refusals_limit": recent.MAX_REFUSALS,
        "without_work": recent.hosts_without_work(now=now),
        "hosts_limit": recent.MAX_HOSTS,
        "parked": recent.parked(),
        "tables": table_sizes.read()[:_LARGEST_TABLES],
        "free_space": nbytes_label(storage.free_nbytes()),
        "reserve": nbytes_label(settings.MIN_FREE_BYTES),
        "read_at": live.read_at,
    }


def _flow(live: Status, kept: Sequence[Sample]) -> list[Stage]:
    """Return the stations in the order of their way, with their rates and their oldest work."""
    behind = {station.daemon: station.behind for station in live.stations}

    def rate(noun: str, *names: str) -> str:
        return _per_hour(series.newest_rate(kept, *names, within=_HOUR), noun)

    def daemon(name: str, noun: str = "workunits") -> tuple[str, ...]:
        return rate(noun, f"examined.{name}"), _oldest(behind.get(name))

    details = {
        "in_progress": (rate("results end", *_REPORTED, *_LOST),),
        "waiting_for_validation": daemon("validator"),
        "waiting_for_assimilation": daemon("assimilator"),
        "waiting_for_deletion": daemon("file_deleter", "rows"),
        "finished": (rate("workunits", "workunits.finished"),),
    }
    url = reverse("admin:scheduler_workunit_changelist")
    return [
        Stage(
            status.words(name),
            live.workunits[name].label,
            tuple(filter(None, sentences)),
            f"{url}?{_FILTERS[name]}",
        )
        for name, sentences in details.items()
    ]


def _per_hour(rate: float | None, noun: str) -> str:
    return "rate not known yet" if rate is None else f"{rate:,.0f} {noun} per hour"


def _oldest(behind: timedelta | None) -> str:
    return "" if behind is None else f"oldest: {duration_label(behind)}"


def _lamp(station: Station, kept: Sequence[Sample], now: datetime) -> Lamp:
    rate = series.newest_rate(kept, f"examined.{station.daemon}", within=_HOUR)
    silent = station.silent
    if silent is None:
        tone, life = "bad", "never seen"
    elif silent > SILENT_AFTER:
        tone, life = "bad", f"silent for {duration_label(silent)}"
    else:
        tone, life = "good", "alive"
    return Lamp(
        daemon=station.daemon,
        does=station.does,
        tone=tone,
        life=life,
        seen_at=None if silent is None else now - silent,
        waiting=station.waiting.label,
        oldest="–" if station.behind is None else duration_label(station.behind),
        rate="–" if rate is None else f"{rate:,.0f}",
    )


def _charts(kept: Sequence[Sample], period: Period, now: datetime) -> list[LineChart]:
    span = period.value

    def rate(*names: str) -> Sequence[series.Point]:
        return series.rates(kept, *names, step=span.step)

    def level(name: str) -> Sequence[series.Point]:
        return series.levels(kept, name, step=span.step)

    def chart(
        title: str,
        lines: Mapping[str, Sequence[series.Point]],
        label: Label = _number,
        unit: float = 1,
    ) -> LineChart:
        since = now - span.length
        return draw(title, list(lines.items()), since=since, until=now, label=label, unit=unit)

    return [
        chart(
            "Results per hour",
            {
                "success": rate("outcomes.success"),
                "errors": rate(*_ERRORS),
                "lost": rate(*_LOST),
            },
        ),
        chart("Workunits finished per hour", {"finished": rate("workunits.finished")}),
        chart(
            "Results now",
            {"unsent": level("results.unsent"), "in progress": level("results.in_progress")},
        ),
        chart(
            "Workunits that wait for daemons",
            {
                "validation": level("workunits.waiting_for_validation"),
                "assimilation": level("workunits.waiting_for_assimilation"),
                "deletion": level("workunits.waiting_for_deletion"),
            },
        ),
        chart(
            "Accounts and hosts",
            {"accounts": level("people.accounts"), "hosts": level("people.hosts")},
        ),
        chart("Free disk space", {"free": level("disk.free_nbytes")}, nbytes_label, unit=2**30),
    ]


def _number(value: float) -> str:
    """Return a number for an axis: short, with at most one decimal.

    >>> [_number(value) for value in (0, 950, 1500, 20_000, 3_000_000)]
    ['0', '950', '1.5k', '20k', '3M']
    """
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if value >= size:
            return f"{value / size:.1f}".removesuffix(".0") + unit
    return f"{value:.1f}".removesuffix(".0")
