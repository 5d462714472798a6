"""Reading the progress of batches reads only the pages of the batches' rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection, transaction

from scheduler import sql
from scheduler.models import Batch
from scheduler.work.progress import costs_of, progress_of
from tests.conftest import NOON
from tests.rows import an_account, an_app
from tests.scientists import a_batch

# Tests commit and truncate afterwards: rolled-back rows would bloat the tables of other tests.
pytestmark = pytest.mark.django_db(transaction=True)

_FILL = """
WITH made AS (
    INSERT INTO workunit (name, app_id, batch_id, outputs, meta, created_at)
    SELECT 'w' || %(batch)s::bigint || '_' || n, %(app)s, %(batch)s, '[]', '{}', now()
    FROM generate_series(1, %(count)s::integer) AS n
    RETURNING id, app_id
)
INSERT INTO result (
    workunit_id, app_id, name, attempt, created_at, server_state, host_id, account_id,
    sent_at, report_deadline, cpu_time
)
SELECT id, app_id, 'r' || id, 0, now(), 4, 1, 1, now(), now(), 2 FROM made
"""


def filled(batch: Batch, count: int) -> Batch:
    """Add workunits with a result in progress to a batch, and return the batch."""
    with transaction.atomic(), connection.cursor() as cursor:
        # Triggers and foreign keys are off, because they would slow the bulk load down.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_FILL, {"batch": batch.pk, "app": batch.app_id, "count": count})
        cursor.execute("SET LOCAL session_replication_role = origin")
    with connection.cursor() as cursor:
        # Autovacuum would do it between two measurements, and scans read fewer pages afterwards.
        cursor.execute("VACUUM (ANALYZE) workunit, result, batch_usage")
    return batch


def pages(name: str, batches: list[Batch]) -> int:
    """Return the number of pages that a statement touches, without the catalog's pages."""
    params = {
        "batch_ids": [batch.pk for batch in batches],
        "batch_id": batches[0].pk,
        "limit": 1000,
        "now": NOON,
        "lately": NOON,
    }
    text = sql.load(name)
    plan: Any = None
    with connection.cursor() as cursor:
        for _ in ("to read the catalog", "to count"):
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {text}", params)
            (plan,) = cursor.fetchone()
    top = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


@pytest.mark.lengthy
@pytest.mark.parametrize(
    "name",
    [
        "work/batch_progress",
        "work/batch_costs",
        "health/read_held_waits",
        "health/read_unsent_of_batch",
    ],
)
def test_counting_a_batch_reads_only_pages_of_its_own_rows(name):
    eve, app = an_account("eve"), an_app()
    mine = filled(a_batch("mine", eve, app=app), 500)
    alone = pages(name, [mine])
    filled(a_batch("others", eve, app=app), 20_000)
    assert pages(name, [mine]) <= 2 * alone + 10


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["work/batch_progress", "work/batch_costs"])
def test_counting_several_batches_reads_no_more_pages_than_counting_each_alone(name):
    eve, app = an_account("eve"), an_app()
    several = [filled(a_batch(f"b{n}", eve, app=app), 50) for n in range(40)]
    filled(a_batch("others", eve, app=app), 20_000)
    assert pages(name, several) <= sum(pages(name, [batch]) for batch in several) + 10
    assert [one.in_progress for one in progress_of(several, now=NOON).values()] == [50] * 40
    assert [one.cpu_seconds for one in costs_of(several).values()] == [100] * 40
