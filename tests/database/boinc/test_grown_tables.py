"""Query plans made for empty tables are renewed after the tables have grown."""

from __future__ import annotations

import pytest
from django.db import connection

from scheduler.boinc import scheduler_rpc
from scheduler.sql import plans
from tests.database.sql.test_web_plans import kept, read_whole
from tests.work import an_app

# Tests commit and truncate afterwards: VACUUM must see that the tables are empty.
pytestmark = pytest.mark.django_db(transaction=True)

SOME_PAGES = """
INSERT INTO workunit (name, app_id, outputs, meta, created_at, min_quorum, target_nresults)
SELECT 'bulk_' || n, %(app)s::bigint, '[]', '{}', now(), 2, 2
FROM generate_series(1, 1000) AS n
"""


@pytest.fixture(autouse=True)
def _known_to_be_empty():
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE workunit, result CASCADE")
        cursor.execute("VACUUM (ANALYZE) workunit, result")
    # Otherwise, sizes that another test's call has read in the last second would be compared.
    plans._seen.clear()
    plans.renew()


def asks_again(monkeypatch) -> None:
    """Let the next `plans.renew` check the tables, as if a second had passed."""
    monkeypatch.setattr(plans, "CHECK_INTERVAL_SECONDS", 0.0)


def test_plans_made_for_empty_tables_are_renewed_after_growth(monkeypatch):
    app = an_app()
    with kept("results/read_reported") as plan:
        assert list(read_whole(plan())) != []
        with connection.cursor() as cursor:
            cursor.execute(SOME_PAGES, {"app": app.pk})
            cursor.execute(
                "INSERT INTO result (workunit_id, app_id, name, attempt, created_at)"
                " SELECT id, app_id, name || '_0', 0, now() FROM workunit"
            )
        plans.renew()
        assert list(read_whole(plan())) != []
        asks_again(monkeypatch)
        plans.renew()
        assert list(read_whole(plan())) == []


def test_cached_plans_are_kept_while_table_sizes_do_not_change(
    monkeypatch, django_assert_num_queries
):
    asks_again(monkeypatch)
    with django_assert_num_queries(1):
        plans.renew()


def test_plans_are_renewed_before_each_batch(monkeypatch):
    renewed = []
    monkeypatch.setattr(plans, "renew", lambda: renewed.append("before the batch"))
    assert scheduler_rpc._answer_all([]) == []
    assert renewed == ["before the batch"]
