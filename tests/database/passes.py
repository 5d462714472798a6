"""Helpers for tests of passes: run one, read the ledger, count statements."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons import timeout_checker, transitioner
from daemons.tally import Tally
from scheduler.lifecycle import Axis, state_label
from scheduler.models import LedgerEntry
from tests.conftest import NOON


def a_pass(daemon: Any, *, now: Any = NOON, limit: int = 1000, **options: Any) -> Tally:
    """Run one pass of a daemon's module, by default at noon."""
    tally: Tally = daemon.run_pass(now=now, limit=limit, **options)
    return tally


def transitioner_pass_later(now: datetime) -> Tally:
    """Run one pass of the timeout checker and then one of the transitioner, at a later time."""
    a_pass(timeout_checker, now=now)
    return a_pass(transitioner, now=now)


def moves(row: Any) -> list[str]:
    """Return the moves of a workunit or a result as texts, oldest first."""
    if row._meta.db_table == "workunit":
        entries = LedgerEntry.objects.filter(workunit_id=row.pk, result_id=None)
    else:
        entries = LedgerEntry.objects.filter(result_id=row.pk)
    return [
        f"{Axis(e.axis).label}: {state_label(Axis(e.axis), e.source)}"
        f"→{state_label(Axis(e.axis), e.target)}"
        for e in entries.order_by("id")
    ]


def statements_of(act: Callable[[], object]) -> int:
    """Return the number of statements that a call executes."""
    with CaptureQueriesContext(connection) as captured:
        act()
    return len(captured.captured_queries)
