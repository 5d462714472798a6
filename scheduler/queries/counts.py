"""Reads: how many rows are in which state, at a bounded cost.

A small table is counted exactly, in one scan.  A big one is not: what has a partial index is
counted through it up to `COUNT_AT_MOST`, and beyond that the planner's own estimates are used and
marked so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count as CountRows
from django.db.models import Model, Q, QuerySet

from scheduler import sql
from scheduler.lifecycle import AssimilateState, FileDeleteState, Outcome, ServerState
from scheduler.models import Account, Host, Result, Workunit

#: A table up to this size is counted exactly: scanning it takes some tens of milliseconds.
SMALL_NBYTES = 16 * 1024 * 1024
#: How many rows of a partial index are counted one by one.
COUNT_AT_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Count:
    """A number of rows; `exact` is False where it is an estimate."""

    value: int
    exact: bool = True

    @property
    def label(self) -> str:
        """The number as people read it: estimates by two digits, for more would be a lie.

        >>> Count(12345).label, Count(12345, exact=False).label
        ('12,345', 'about 12,000')
        >>> Count(0, exact=False).label
        'few'
        """
        if self.exact:
            return f"{self.value:,}"
        if self.value == 0:
            return "few"  # too rare to be seen by the planner
        return f"about {round(self.value, 2 - len(str(self.value))):,}"


# How big things are


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of the counted tables; rows of these and of their indexes, as the planner believes."""

    nbytes: Mapping[str, int]
    rows: Mapping[str, float]

    @classmethod
    def read(cls) -> Sizes:
        """Ask the catalogue, in one statement."""
        tables = [model._meta.db_table for model in (Workunit, Result, Account, Host)]
        names = [*tables, *_INDEXES]
        found = sql.fetch("status_sizes", {"names": names}, package="scheduler.queries")
        return cls(
            nbytes={row["relation"]: row["nbytes"] for row in found},
            rows={row["relation"]: row["believed"] for row in found},
        )

    def is_small(self, table: str) -> bool:
        """Whether a table is counted exactly."""
        return self.nbytes.get(table, 0) <= SMALL_NBYTES


#: The partial indexes through which big tables are counted.
_INDEXES = (
    "lock_unvalidated",
    "lease_unassimilated",
    "read_deletable_inputs",
    "lock_purgeable",
    "read_candidates",
    "results_held_by_host",
)


def rows(model: type[Model], sizes: Sizes) -> Count:
    """Count a table, or say how many rows the planner believes it to have."""
    table = model._meta.db_table
    if sizes.is_small(table):
        return Count(model._default_manager.count())
    return Count(round(sizes.rows[table]), exact=False)


def _through(index: str, rows: QuerySet[Any], sizes: Sizes) -> Count:
    """Count the rows of a partial index one by one up to `COUNT_AT_MOST`, else estimate them."""
    counted = rows.order_by()[: COUNT_AT_MOST + 1].count()
    if counted <= COUNT_AT_MOST:
        return Count(counted)
    return Count(max(counted, round(sizes.rows.get(index, 0))), exact=False)


def _shares(table: str, column: str) -> dict[int, float]:
    params = {"table_name": table, "column_name": column}
    found = sql.fetch("status_shares", params, package="scheduler.queries")
    return {row["found"]: row["frequency"] for row in found}


# Workunits

_UNVALIDATED = Q(need_validate=True)
_UNASSIMILATED = Q(assimilate_state=AssimilateState.READY)
_DELETABLE = Q(file_delete_state__in=[FileDeleteState.READY, FileDeleteState.ERROR])
_PURGEABLE = Q(file_delete_state=FileDeleteState.DONE)


def workunits(sizes: Sizes) -> dict[str, Count]:
    """Sort every workunit into one of five stations of its life, and count the failed beside."""
    if sizes.is_small("workunit"):
        assimilated = Q(assimilate_state=AssimilateState.DONE)
        computing = Q(assimilate_state=AssimilateState.INIT)
        counted = Workunit.objects.aggregate(
            in_progress=CountRows("id", filter=computing & ~_UNVALIDATED),
            waiting_for_validation=CountRows("id", filter=computing & _UNVALIDATED),
            waiting_for_assimilation=CountRows("id", filter=_UNASSIMILATED),
            waiting_for_deletion=CountRows("id", filter=assimilated & ~_PURGEABLE),
            finished=CountRows("id", filter=_PURGEABLE),
            failed=CountRows("id", filter=~Q(error_mask=0)),
        )
        return {name: Count(value) for name, value in counted.items()}
    return _many_workunits(sizes)


def _many_workunits(sizes: Sizes) -> dict[str, Count]:
    found = Workunit.objects
    later = {
        "waiting_for_validation": _through("lock_unvalidated", found.filter(_UNVALIDATED), sizes),
        "waiting_for_assimilation": _through(
            "lease_unassimilated", found.filter(_UNASSIMILATED), sizes
        ),
        "waiting_for_deletion": _through("read_deletable_inputs", found.filter(_DELETABLE), sizes),
        "finished": _through("lock_purgeable", found.filter(_PURGEABLE), sizes),
    }
    total = round(sizes.rows["workunit"])
    without_error = _shares("workunit", "error_mask").get(0, 1.0)
    return {
        "in_progress": Count(max(0, total - sum(c.value for c in later.values())), exact=False),
        **later,
        "failed": Count(round(total * (1 - without_error)), exact=False),
    }


# Results


def results(sizes: Sizes) -> tuple[dict[str, Count], dict[str, Count]]:
    """Count results by server state, and those that are over by outcome."""
    if sizes.is_small("result"):
        return _few_results()
    found = Result.objects
    total = sizes.rows["result"]
    states = _shares("result", "server_state")
    shares = _shares("result", "outcome")
    return (
        {
            "inactive": Count(round(total * states.get(ServerState.INACTIVE, 0)), exact=False),
            "unsent": _through(
                "read_candidates", found.filter(server_state=ServerState.UNSENT), sizes
            ),
            "in_progress": _through(
                "results_held_by_host", found.filter(server_state=ServerState.IN_PROGRESS), sizes
            ),
            "over": Count(round(total * states.get(ServerState.OVER, 0)), exact=False),
        },
        {
            outcome.name.lower(): Count(round(total * shares.get(outcome, 0)), exact=False)
            for outcome in Outcome
            if outcome is not Outcome.INIT
        },
    )


def _few_results() -> tuple[dict[str, Count], dict[str, Count]]:
    states = dict.fromkeys(ServerState, 0)
    outcomes = dict.fromkeys(Outcome, 0)
    del outcomes[Outcome.INIT]
    groups = Result.objects.order_by().values_list("server_state", "outcome")
    for state, outcome, found in groups.annotate(found=CountRows("id")):
        states[ServerState(state)] += found
        if state == ServerState.OVER:
            outcomes[Outcome(outcome)] += found
    return (
        {state.name.lower(): Count(found) for state, found in states.items()},
        {outcome.name.lower(): Count(found) for outcome, found in outcomes.items()},
    )


def deletable_outputs() -> Count:
    """Count the results whose outputs are to be deleted, as far as it is worth while."""
    return capped(Result.objects.filter(_DELETABLE))


def capped(rows: QuerySet[Any]) -> Count:
    """Count rows that an index leads to, `COUNT_AT_MOST` of them at the most."""
    counted = rows.order_by()[: COUNT_AT_MOST + 1].count()
    return Count(min(counted, COUNT_AT_MOST), exact=counted <= COUNT_AT_MOST)
