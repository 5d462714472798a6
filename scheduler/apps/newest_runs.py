"""Reads the run times of the newest successful results of an app.

Theory of operation.  No index has the results of an app by time, because it would slow down every
report.  Grants of credit have the app, and are written in the order in which results are validated,
so the newest grants lead to the newest valid results.  For an app without recent grants (it may
grant no credit), the newest results of hosts that are spread over all hosts are read instead.  Both
reads are limited, so their time does not depend on the number of results.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from scheduler import sql
from scheduler.apps.rules.run_times import Run
from scheduler.models import App

#: The maximum number of results: the share of results below a quantile is then known to about 1 %,
#: and the page takes 70 ms.
MAX_RESULTS: Final = 5_000
#: The number of grants of credit, of all apps, among which those of the app are looked for.
MAX_GRANTS: Final = 100_000
#: The number of hosts whose results are read for an app without grants.
MAX_HOSTS: Final = 500

_LIMITS: Final = {"grants": MAX_GRANTS, "hosts": MAX_HOSTS, "results": MAX_RESULTS}


@dataclass(frozen=True, slots=True)
class NewestRuns:
    """The runs that were read; `are_paid` is set if they were found by their grants of credit."""

    runs: list[Run]
    are_paid: bool


def read(app: App) -> NewestRuns:
    """Return the newest runs of an app without run-time outliers, by one or two statements."""
    params = {**_LIMITS, "app_id": app.pk}
    if paid := sql.fetch_into(Run, "apps/read_paid_runs", params):
        return NewestRuns(paid, are_paid=True)
    return NewestRuns(sql.fetch_into(Run, "apps/read_runs_of_hosts", params), are_paid=False)
