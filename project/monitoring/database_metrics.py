"""Converts figures of the database, daemons and disk to Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduler.health.counts import STATIONS
from scheduler.health.figures import Figures


@dataclass(frozen=True, slots=True)
class Family:
    """The definition of a metric that is read at each scrape."""

    name: str
    help: str
    kind: Literal["gauge", "counter"] = "gauge"
    label_names: tuple[str, ...] = ()

    def metric(self, samples: Mapping[tuple[str, ...], float]) -> Metric:
        """Return the metric with a sample for each tuple of values of the labels."""
        make = GaugeMetricFamily if self.kind == "gauge" else CounterMetricFamily
        family = make(self.name, self.help, labels=self.label_names)
        for values, value in samples.items():
            family.add_metric(values, value)
        return family


DATABASE_UP = Family("manyhands_database_up", "Whether the database answered within two seconds.")
FIGURES_AGE = Family(
    "manyhands_figures_age_seconds", "Age of the figures that are read from the database."
)
HEARTBEAT = Family(
    "manyhands_daemon_heartbeat_timestamp_seconds",
    "Time of a daemon's last heartbeat; 0 if it never sent one.",
    label_names=("daemon",),
)
STOPPED = Family(
    "manyhands_maintenance",
    "Whether maintenance stops the daemons, scheduler RPCs or uploads.",
    label_names=("stops",),
)
DISK_FREE = Family("manyhands_disk_free_bytes", "Free bytes on the disk of VAR_DIR.")
DISK_RESERVE = Family(
    "manyhands_disk_reserve_bytes", "Free bytes below which uploads are refused (MIN_FREE_BYTES)."
)
LAG = Family(
    "manyhands_daemon_lag_seconds",
    "Time for which the oldest work of a daemon has been due; 0 if none is due. The work generator "
    "has no queue and no lag.",
    label_names=("daemon",),
)
BACKLOG = Family(
    "manyhands_daemon_backlog",
    "Rows that are due for a daemon; for the transitioner, workunits in the queue of wake-ups.",
    label_names=("daemon",),
)
PASSES = Family("manyhands_daemon_passes", "Completed passes of a daemon.", "counter", ("daemon",))
FAILED_PASSES = Family(
    "manyhands_daemon_failed_passes", "Failed passes of a daemon.", "counter", ("daemon",)
)
ROWS = Family("manyhands_daemon_rows", "Rows that a daemon has examined.", "counter", ("daemon",))
BUSY = Family(
    "manyhands_daemon_busy_seconds",
    "Seconds that the processes of a daemon have spent in passes.",
    "counter",
    ("daemon",),
)
WORKUNITS = Family(
    "manyhands_workunits",
    "Workunits by app and station; purged workunits count as finished.",
    label_names=("app", "station"),
)
FAILED_WORKUNITS = Family(
    "manyhands_failed_workunits",
    "Workunits that ended with an error, with purged ones.",
    label_names=("app",),
)
RESULTS = Family(
    "manyhands_results", "Results by state; purged results count as over.", label_names=("state",)
)
OUTCOMES = Family(
    "manyhands_ended_results",
    "Results that are over, by outcome, with purged ones.",
    label_names=("outcome",),
)
ACCOUNTS = Family("manyhands_accounts", "Accounts of volunteers, scientists and staff.")
HOSTS = Family("manyhands_hosts", "Hosts, with inactive ones.")
ACTIVE_HOSTS = Family("manyhands_active_hosts", "Hosts that sent an RPC in the last 30 days.")
PARKED = Family(
    "manyhands_parked_subjects",
    "Subjects on which science code failed too often, by its stage.",
    label_names=("stage",),
)
REFUSED_BY_ALL = Family(
    "manyhands_workunits_refused_by_all", "Unsent workunits that every active host was refused."
)
HARD_TO_SEND = Family(
    "manyhands_workunits_hard_to_send",
    "Unsent workunits with at least half of the refusals that make a workunit unsendable.",
)
WAITING_QUEUES = Family("manyhands_waiting_queues", "Named queues with unsent results.")
CHECK_ENDED = Family(
    "manyhands_check_timestamp_seconds",
    "Time at which the last run of a check ended: fsck, or credit.",
    label_names=("check",),
)
CHECK_VIOLATIONS = Family(
    "manyhands_check_violations",
    "Violations that are known after the last run of a check, and are not corrected.",
    label_names=("check",),
)
OPEN_OUTAGES = Family("manyhands_open_outages", "Outages for which deadlines are not moved yet.")
WEB_HEARTBEAT = Family(
    "manyhands_web_heartbeat_timestamp_seconds", "Time of the last heartbeat of a web process."
)
ALERTS = Family(
    "manyhands_alerts",
    "Current alerts by kind, as `manage.py alerts` prints them.",
    label_names=("kind",),
)

#: All metrics of this module, in the order of the output.
FAMILIES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Family))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The values that one scrape has read.

    `figures` is None if none were read within the last minute.  `daemon_seen_at` maps daemons to
    the times of their last heartbeats, or to None.  `stops` maps what can be stopped to whether it
    is.
    """

    now: datetime
    database_is_up: bool
    figures: Figures | None
    daemon_seen_at: Mapping[str, datetime | None]
    stops: Mapping[str, bool]
    disk_free_nbytes: int
    disk_reserve_nbytes: int


class Readings(Collector):
    """A collector that exports one reading."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def collect(self) -> Iterable[Metric]:
        """Yield the metrics; those of the database are left out if it could not be read."""
        reading = self._reading
        yield _single(DATABASE_UP, reading.database_is_up)
        heartbeats = {
            daemon: 0.0 if seen_at is None else seen_at.timestamp()
            for daemon, seen_at in reading.daemon_seen_at.items()
        }
        yield _labelled(HEARTBEAT, heartbeats)
        yield _labelled(STOPPED, reading.stops)
        yield _single(DISK_FREE, reading.disk_free_nbytes)
        yield _single(DISK_RESERVE, reading.disk_reserve_nbytes)
        if reading.figures is not None:
            age = reading.now - reading.figures.read_at
            yield _single(FIGURES_AGE, max(0.0, age.total_seconds()))
            yield from _of_database(reading.figures)


def _of_database(figures: Figures) -> Iterator[Metric]:
    counts, facts, passes = figures.counts, figures.facts, figures.passes
    yield _labelled(LAG, {daemon: lag.total_seconds() for daemon, lag in figures.lags.items()})
    yield _labelled(BACKLOG, counts.waiting)
    yield _labelled(PASSES, {daemon: count.passes for daemon, count in passes.items()})
    yield _labelled(FAILED_PASSES, {name: count.failed_passes for name, count in passes.items()})
    yield _labelled(ROWS, {daemon: count.examined_rows for daemon, count in passes.items()})
    yield _labelled(BUSY, {daemon: count.busy_seconds for daemon, count in passes.items()})
    yield WORKUNITS.metric(
        {
            (name, station): getattr(app, station)
            for name, app in counts.apps.items()
            for station in STATIONS
        }
    )
    yield _labelled(FAILED_WORKUNITS, {name: app.failed for name, app in counts.apps.items()})
    yield _labelled(RESULTS, counts.results)
    yield _labelled(OUTCOMES, counts.outcomes)
    yield _single(ACCOUNTS, counts.people["accounts"])
    yield _single(HOSTS, counts.people["hosts"])
    yield _single(ACTIVE_HOSTS, facts.hosts_about)
    yield _labelled(PARKED, figures.parked)
    yield _single(REFUSED_BY_ALL, facts.refused_by_all)
    yield _single(HARD_TO_SEND, facts.hard_to_send)
    yield _single(WAITING_QUEUES, len(facts.waiting_queues))
    ended = {check: run.ended_at.timestamp() for check, run in facts.checks.items()}
    yield _labelled(CHECK_ENDED, ended)
    yield _labelled(CHECK_VIOLATIONS, {c: run.unresolved for c, run in facts.checks.items()})
    yield _single(OPEN_OUTAGES, facts.open_outages)
    if facts.web_seen_at is not None:
        yield _single(WEB_HEARTBEAT, facts.web_seen_at.timestamp())
    yield _labelled(ALERTS, figures.alerts)


def _single(family: Family, value: float) -> Metric:
    return family.metric({(): float(value)})


def _labelled(family: Family, values: Mapping[str, float]) -> Metric:
    return family.metric({(label,): float(value) for label, value in values.items()})
