"""The number of pages that a claim reads does not grow with the backlog."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduler import sql
from scheduler.models import App, Host
from tests.scripted_client import a_client
from tests.work import an_app

# Committed and truncated afterwards: a million rows rolled back would bloat the tables of others.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.lengthy]

_FILL = """
INSERT INTO workunit (name, app_id, outputs, meta, created_at, min_quorum, target_nresults)
SELECT 'bulk_' || n, %s::bigint, '[]'::jsonb, '{}'::jsonb, now(), 1, 1
FROM generate_series(%s::integer, %s::integer) AS n
"""
_REPLICATE = """
INSERT INTO result (workunit_id, app_id, name, attempt, created_at)
SELECT w.id, w.app_id, w.name || '_0', 0, now()
FROM workunit AS w
WHERE NOT EXISTS (SELECT 1 FROM result AS r WHERE r.workunit_id = w.id)
"""


def fill(app: App, first: int, last: int) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        # A bulk load of a million rows: triggers and foreign keys would only cost time.
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_FILL, [app.pk, first, last])
        cursor.execute(_REPLICATE)
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("ANALYZE workunit, result")


def pages_touched(name: str, params: dict[str, Any]) -> int:
    """Return the number of pages that a statement reads, by EXPLAIN.

    The statement runs twice, because the first run may also read the catalog; both runs are rolled
    back.
    """
    explained = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql.load(name)}"
    plan: Any = None
    with transaction.atomic(), connection.cursor() as cursor:
        for _ in ("to read the catalog", "to count"):
            before = transaction.savepoint()
            cursor.execute(explained, params)
            (plan,) = cursor.fetchone()
            transaction.savepoint_rollback(before)
    if isinstance(plan, str):
        plan = json.loads(plan)
    top = plan[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


def claim_pages(app: App, host: Host, now: datetime) -> dict[str, int]:
    """Return the pages that each statement reads in a claim of one result."""
    who = {"host_ids": [host.pk], "account_ids": [host.account_id], "now": now, "ledger": True}
    streams = {
        "app_ids": [app.pk],
        "one_result_per": ["account"],
        "retry_after": [timedelta(0)],
        "streams": [0],
        "target_kinds": [0],
        "target_ids": [0],
        "after_priority": [2**31 - 1],
        "after_id": [0],
        "pages": [50],
        "lanes": [],
        "lane_app_ids": [],
        "lane_queue_ids": [],
        "lane_one_result_per": [],
        "lane_retry_after": [],
        "lane_after_id": [],
        "lane_pages": [],
        "lane_is_lifo": [],
        "near_workunit_ids": [],
    }
    candidates = sql.fetch("dispatch/read_candidates", who | streams)
    workunit_ids = [row["workunit_id"] for row in candidates]
    versions = [app.versions.get().pk] * len(workunit_ids)
    lock = {"workunit_ids": workunit_ids, "most": 1, "queue_ids": [], "now": now}
    claim = who | {
        "result_ids": [candidates[0]["result_id"]],
        "app_version_ids": versions[:1],
        "flops": [1e9],
        "delays": [timedelta(days=7)],
        "queue_ids": [0],
        "queue_versions": [0],
    }
    return {
        "dispatch/read_candidates": pages_touched("dispatch/read_candidates", who | streams),
        "dispatch/lock_chosen_workunits": pages_touched("dispatch/lock_chosen_workunits", lock),
        "dispatch/read_chosen_results": pages_touched(
            "dispatch/read_chosen_results", {"workunit_ids": workunit_ids[:1]}
        ),
        "dispatch/claim_results": pages_touched("dispatch/claim_results", claim),
        "results/lock_workunits": pages_touched(
            "results/lock_workunits", {"workunit_ids": workunit_ids[:1]}
        ),
        "results/read_reported": pages_touched("results/read_reported", {"names": ["bulk_7_0"]}),
        "dispatch/read_results": pages_touched(
            "dispatch/read_results",
            {"reported_ids": [], "names": ["bulk_7_0"], "host_ids": [host.pk]},
        ),
        "results/read_workunits_of_hosts": pages_touched(
            "results/read_workunits_of_hosts", {"host_ids": [host.pk]}
        ),
    }


def test_claim_reads_about_as_many_pages_with_a_million_results_as_with_ten_thousand() -> None:
    app = an_app()
    a_client().ask()
    host = Host.objects.get()
    now = timezone.now()
    fill(app, 1, 10_000)
    small = claim_pages(app, host, now)
    fill(app, 10_001, 1_000_000)
    large = claim_pages(app, host, now)
    # With 100 times the rows an index may be one level deeper: one more page per looked-up row.
    for name, pages in small.items():
        assert large[name] <= pages * 1.5 + 2, (name, small, large)
    assert all(small.values()), "each statement reads some pages"
    assert small["dispatch/read_candidates"] < 1000, (small, large)
