"""Changes and figures of a queue read few pages, however much work the queue has."""

from __future__ import annotations

import importlib
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from scheduler import sql
from scheduler.models import App, Queue
from scheduler.queues import named_queues
from scheduler.queues.facts import FOREVER
from tests import rows
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

COUNT = 20_000
#: A descent of the index and one row, for each of two probes; all work has hundreds of pages.
MAX_PAGES = 12

_FILL = """
INSERT INTO workunit
(name, app_id, queue_id, delay_bound, finished_at, outputs, meta, created_at)
SELECT
    'q' || %(queue_id)s::bigint || 'a' || %(app_id)s::bigint || '_' || n,
    %(app_id)s::bigint, %(queue_id)s::bigint, %(delay_bound)s::interval,
    %(finished_at)s::timestamptz, '[]'::jsonb, '{}'::jsonb, now()
FROM generate_series(1, %(count)s::integer) AS n
"""


def fill(
    queue: Queue,
    app: App,
    *,
    delay_bound: timedelta = timedelta(days=7),
    finished_at: datetime | None = None,
) -> None:
    params = {
        "queue_id": queue.pk,
        "app_id": app.pk,
        "delay_bound": delay_bound,
        "finished_at": finished_at,
        "count": COUNT,
    }
    with connection.cursor() as cursor:
        cursor.execute(_FILL, params)


@pytest.fixture
def queue() -> Queue:
    """Return a queue whose work its app and finite deadlines allow, beside other work."""
    before, own, after = (rows.an_app(name) for name in ("before", "own", "after"))
    queue = named_queues.create(name="lab", trusted=True, now=NOON)
    other = named_queues.create(name="other", trusted=True, now=NOON)
    with connection.cursor() as cursor:
        # Otherwise the planner would count the pages of rows that earlier tests rolled back.
        cursor.execute("TRUNCATE workunit CASCADE")
        cursor.execute("SET LOCAL session_replication_role = replica")
    fill(queue, own)
    # Rows that only look like a match: finished ones, and those of another queue.
    for app in (before, after):
        fill(queue, app, finished_at=NOON, delay_bound=FOREVER)
        fill(other, app, delay_bound=FOREVER)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("ANALYZE workunit, queue, app")
    return queue


def pages(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", ()) for node in nodes(child))]


def set_options(options: str) -> None:
    with connection.cursor() as cursor:
        for option in options.split("-c ")[1:]:
            cursor.execute(f"SET LOCAL {option}")


def executed(name: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the plan of a statement with its costs, as its second run has them."""
    with connection.cursor() as cursor:
        for _ in ("to read the catalog", "to count"):
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql.load(name)}", params)
            (plan,) = cursor.fetchone()
    return (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]


@pytest.mark.parametrize("options", [settings.PLANS, settings.WEB_PLANS], ids=["daemons", "web"])
@pytest.mark.parametrize("name", ["read_work_of_other_apps", "read_endless_work"])
def test_a_probe_of_a_large_queue_reads_few_pages(queue: Queue, name: str, options: str) -> None:
    set_options(options)
    params = {"queue_id": queue.pk}
    if name == "read_work_of_other_apps":
        params["app_id"] = App.objects.get(name="own").pk
    plan = executed(f"queues/{name}", params)
    scans = [node for node in nodes(plan) if "Relation Name" in node]
    assert {node["Index Name"] for node in scans} == {name}
    assert all("Index Cond" in node for node in scans)
    assert plan["Actual Rows"] == 0
    assert pages(plan) <= MAX_PAGES


_FILL_RESULTS = """
INSERT INTO result (
    workunit_id, app_id, name, attempt, created_at, server_state, target_kind, target_id,
    host_id, account_id, sent_at, report_deadline
)
SELECT
    w.id, w.app_id, w.name || '_0', 0, now(), CASE WHEN w.id % 2 = 0 THEN 2 ELSE 4 END,
    4, w.queue_id, 1, 1, now(), now()
FROM workunit AS w
"""


@pytest.mark.parametrize("options", [settings.PLANS, settings.WEB_PLANS], ids=["daemons", "web"])
def test_the_figures_of_a_large_queue_read_few_pages(queue: Queue, options: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(_FILL_RESULTS)
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute("ANALYZE result")
    set_options(options)
    queue_ids = [*Queue.objects.values_list("pk", flat=True)]
    params: dict[str, Any] = {"queue_ids": queue_ids, "max_unsent": 100, "max_in_progress": 100}
    plan = executed("queues/count_results", params)
    scans = [node for node in nodes(plan) if "Relation Name" in node]
    assert {node["Index Name"] for node in scans} == {"results_of_queue"}
    assert [node["Actual Rows"] for node in scans] == [100, 100]
    assert pages(plan) <= 4 * (100 + MAX_PAGES)
    plan = executed("queues/read_oldest_work", params)
    scans = [node for node in nodes(plan) if "Relation Name" in node]
    assert {node["Index Name"] for node in scans} == {"results_of_queue", "workunit_pkey"}
    assert all("Index Cond" in node for node in scans)
    # Two queues have work of at most three apps.
    assert pages(plan) <= 2 * 4 * MAX_PAGES
    assert plan["Actual Rows"] == len(queue_ids)


@pytest.mark.django_db(transaction=True)
def test_interrupted_migration_of_the_indexes_can_be_repeated() -> None:
    name = "0035_unfinished_work_of_queues"
    module = importlib.import_module(f"scheduler.migrations.{name}")
    before = MigrationLoader(connection).project_state(("scheduler", "0034_hardware_counts"))
    indexes = [operation.index.name for operation in module.Migration.operations]
    with connection.cursor() as cursor:
        # As an interruption leaves them: one does not exist yet.
        cursor.execute(f"DROP INDEX {indexes[-1]}")
    with connection.schema_editor(atomic=False) as editor:
        module.Migration(name, "scheduler").apply(before, editor)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_indexes WHERE indexname = ANY(%s)", [indexes])
        assert cursor.fetchone() == (4,)
