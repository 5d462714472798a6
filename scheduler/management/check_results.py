"""Stores the results of commands that check the project."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core.management.base import OutputWrapper
from django.db import Error as DatabaseError
from django.utils import timezone

from scheduler.health.checks import check_runs
from scheduler.health.checks.check_runs import Outcome
from scheduler.health.checks.statement_limit import first_line
from scheduler.models import CheckRun


def store(
    stderr: OutputWrapper,
    kind: CheckRun.Kind,
    outcome: Outcome,
    *,
    options: Mapping[str, Any],
    started_at: datetime,
) -> None:
    """Store a run that ends now; if that is not possible, print the reason in one line.

    The database may be read-only or of an earlier release, or its role may lack the right.
    """
    try:
        check_runs.store(
            kind, outcome, options=options, started_at=started_at, ended_at=timezone.now()
        )
    except DatabaseError as error:
        stderr.write(f"The result was not stored: {first_line(error)}")
