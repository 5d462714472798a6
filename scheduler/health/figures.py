"""Reads the figures of the database that are exported to Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from scheduler.health import alerts, counts, daemon_activity
from scheduler.health.counts import Counts
from scheduler.health.facts import PassCounts
from scheduler.health.rules.alert_texts import KINDS, Facts, judge
from scheduler.models import ScienceFailure


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures at `read_at`.

    `alerts` maps each kind of alert to the number of current alerts.  `lags` maps daemons to the
    time for which their oldest work has been due.
    """

    read_at: datetime
    facts: Facts
    counts: Counts
    passes: Mapping[str, PassCounts]
    alerts: Mapping[str, int]
    lags: Mapping[str, timedelta]
    parked: Mapping[str, int]


def read(*, now: datetime) -> Figures:
    """Read the figures with a constant number of statements; counts of large tables are cached."""
    facts = alerts.facts(now=now)
    current = Counter(alert.kind for alert in judge(facts, now=now))
    stages = (stage.name.lower() for stage in ScienceFailure.Stage)
    return Figures(
        read_at=now,
        facts=facts,
        counts=counts.current(now=now),
        passes=daemon_activity.passes(),
        alerts={kind: current[kind] for kind in KINDS},
        lags={
            daemon: daemon_activity.lag(since, now=now) or timedelta(0)
            for daemon, since in facts.oldest.items()
        },
        parked={stage: facts.parked.get(stage, 0) for stage in stages},
    )
