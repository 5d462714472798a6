"""Reads the causes of stalled work of a batch or of the project."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.conf import settings

from scheduler import sql
from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.dispatch.rules.launching import COMMAND, COMMANDS_ARE_OFF
from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.health import maintenance
from scheduler.health.rules.standstill_causes import (
    MAX_EXAMINED,
    HeldFacts,
    UnsentFacts,
    Wait,
    waits,
)
from scheduler.models import Batch


def waits_of(batch: Batch, *, now: datetime) -> tuple[Wait, ...]:
    """Return the causes that stall open work of a batch.

    Runs at most three statements if `batch.app` and `batch.after` are already loaded.
    Workunits that target a host, account or team are not examined; `explain` shows their reasons.
    """
    params = {"batch_id": batch.pk, "now": now, "limit": MAX_EXAMINED}
    ids = [workunit_id for (workunit_id,) in sql.fetch_rows("health/read_unsent_of_batch", params)]
    held_row: dict[str, Any] = sql.fetch_one("health/read_held_waits", params) or {}
    predecessor = batch.after.name if batch.after is not None else ""
    not_served = ""
    if batch.app is not None and batch.app.kind == COMMAND and not settings.PROJECT.command_apps:
        not_served = COMMANDS_ARE_OFF
    return waits(
        _unsent_facts(ids, now=now),
        HeldFacts(**held_row, predecessor=predecessor),
        now=now,
        maintenance=_maintenance(),
        not_served=not_served,
    )


def waits_of_project(*, now: datetime) -> tuple[Wait, ...]:
    """Return the causes that stall unsent work of the project, with at most two statements."""
    rows = sql.fetch_rows("health/read_unsent_of_project", {"limit": MAX_EXAMINED})
    ids = [workunit_id for (workunit_id,) in rows]
    return waits(_unsent_facts(ids, now=now), HeldFacts(), now=now, maintenance=_maintenance())


def _unsent_facts(ids: Collection[int], *, now: datetime) -> UnsentFacts:
    if not ids:
        return UnsentFacts()
    params = {
        "workunit_ids": sorted(ids),
        "now": now,
        "seen_since": now - SEEN_WITHIN,
        "anonymous": ANONYMOUS,
    }
    return UnsentFacts(**sql.fetch_one("health/read_unsent_waits", params) or {})


def _maintenance() -> str:
    notice = maintenance.current()
    if notice is None or not (notice.ended or notice.scheduler):
        return ""
    if notice.ended:
        return "The project has ended: no work is sent."
    return "The project is shut down for maintenance: no work is sent."
