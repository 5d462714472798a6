"""After a bulk load and before ANALYZE, no pass reads a whole large table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from daemons import timeout_checker, transitioner, validator
from daemons.loop import Drive, StopSign
from daemons.registry import find
from scheduler import sql
from scheduler.models import AppVersion, Host, Workunit, WorkunitWakeup
from scheduler.sql import plans
from scheduler.work.explain import WOKEN_AT
from scheduler.work.submission import submit
from scheduler.work.submission.facts import NewFile, NewWorkunit
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.scripted_client import a_client
from tests.work import an_app

# Tests commit and truncate afterwards: rolled-back rows would bloat the tables of other tests.
pytestmark = pytest.mark.django_db(transaction=True)

#: Tables that grow with the work.
LARGE = (
    "workunit",
    "result",
    "result_file",
    "workunit_file",
    "credit_entry",
    "ledger_entry_default",
)
#: Loads 50 000 workunits: 500 new, 1000 reported, 1000 overdue, the others unsent.
_LOAD = (
    """
    INSERT INTO workunit (
        name, app_id, outputs, meta, created_at, min_quorum, target_nresults
    )
    SELECT
        'bulk_' || n, %(app)s::bigint, '[{"open_name": "out", "max_nbytes": 9}]', '{}', %(now)s, 2, 2
    FROM generate_series(1, 50000) AS n
    """,
    """
    INSERT INTO workunit_wakeup (workunit_id, inserted_at)
    SELECT id, %(now)s FROM workunit ORDER BY id LIMIT 1500
    """,
    """
    INSERT INTO result (
        workunit_id, app_id, name, attempt, created_at, host_id, account_id, app_version_id,
        server_state, outcome, sent_at, report_deadline, credit_deadline, received_at,
        elapsed_time, flops_estimate
    )
    SELECT
        w.id, w.app_id, w.name || '_' || a, a, %(now)s,
        h.id, h.account_id, %(version)s::bigint,
        CASE WHEN w.place <= 1000 THEN 5 WHEN w.place <= 2500 THEN 4 ELSE 2 END,
        CASE WHEN w.place <= 1000 THEN 1 ELSE 0 END,
        %(now)s::timestamptz - interval '1 hour',
        %(now)s::timestamptz - interval '1 minute',
        %(now)s::timestamptz + interval '1 day', %(now)s, 3000, 1e9
    FROM (SELECT *, row_number() OVER (ORDER BY id) AS place FROM workunit) AS w
    CROSS JOIN generate_series(0, 1) AS a
    CROSS JOIN host AS h
    WHERE w.place NOT BETWEEN 1001 AND 1500
    """,
    """
    INSERT INTO result_file (result_id, position, name, nbytes, md5, sha256)
    SELECT id, 0, name || '_0', 1, 'm', 's' FROM result
    """,
)


def load() -> None:
    app = an_app(one_result_per="nothing")
    a_client().ask()
    params = {
        "app": app.pk,
        "now": NOON,
        "version": AppVersion.objects.filter(app=app).values_list("id", flat=True)[0],
    }
    assert Host.objects.count() == 1
    with transaction.atomic(), connection.cursor() as cursor:
        # Triggers and foreign keys are off, because they would slow the bulk load down.
        cursor.execute("SET LOCAL session_replication_role = replica")
        for statement in _LOAD:
            cursor.execute(statement, params)


def as_superuser(statement: str, params: list[object]) -> None:
    """Execute a statement as superuser, or with a DATABASE_URL as the role of that URL."""
    if (server := connection.embedded) is None:
        with connection.cursor() as cursor:
            cursor.execute(statement, params)
        return
    where = server.superuser_conninfo() | {"dbname": connection.settings_dict["NAME"]}
    with psycopg.connect(**where) as superuser:
        superuser.execute(statement, params)


@pytest.fixture
def never_analysed() -> Iterator[None]:
    def set_autovacuum(word: str) -> None:
        with connection.cursor() as cursor:
            for table in LARGE:
                cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = {word})")

    set_autovacuum("false")
    # TRUNCATE keeps the statistics of the rows of other tests.
    as_superuser("DELETE FROM pg_statistic WHERE starelid = ANY(%s::regclass[])", [list(LARGE)])
    yield
    set_autovacuum("true")


@pytest.fixture
def read_whole(monkeypatch) -> set[tuple[str, str]]:
    """Record (statement, table) for each large table that a statement scans sequentially."""
    found: set[tuple[str, str]] = set()
    real = sql._run

    def run(name: str, params: Any, package: str, **options: Any) -> Any:
        statement = f"EXPLAIN (FORMAT JSON) {sql.load(name, package)}"
        with connection.cursor() as cursor:
            cursor.execute(statement, {"ledger": True, **params})
            (plan,) = cursor.fetchone()
        plan = json.loads(plan) if isinstance(plan, str) else plan
        found.update((name, table) for table in scanned(plan[0]["Plan"]) if table in LARGE)
        return real(name, params, package, **options)

    monkeypatch.setattr(sql, "_run", run)
    return found


def scanned(node: dict[str, Any]) -> Iterator[str]:
    if node["Node Type"] == "Seq Scan":
        yield node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from scanned(child)


@pytest.mark.lengthy
def test_passes_do_not_scan_whole_tables_that_were_never_analyzed(never_analysed, read_whole):
    load()
    read_whole.clear()  # of the request that made the host, when the tables were empty
    done = a_pass(transitioner, limit=2000).done
    assert (done["replicated"], done["ready to validate"]) == (500, 1000)
    assert a_pass(validator).done["results paid"] == 2000
    assert a_pass(transitioner).done["ready to assimilate"] == 1000
    ready = Workunit.objects.filter(assimilate_state=1)
    WorkunitWakeup.objects.bulk_create(
        WorkunitWakeup(workunit_id=pk, inserted_at=NOON)
        for pk in ready.values_list("pk", flat=True)
    )
    ready.update(assimilate_state=2, finished_at=NOON)
    assert a_pass(transitioner).done["with files to delete"] == 1000
    assert a_pass(timeout_checker, limit=500).done["timed out"] == 500
    shared = NewFile(open_name="in", content=b"the same for all")
    submit.submit(
        app="upper",
        workunits=[NewWorkunit(input_files=(shared,)) for _ in range(1000)],
        now=NOON,
    )
    assert read_whole == set()


@pytest.mark.lengthy
def test_wake_ups_of_a_workunit_are_read_by_its_index(never_analysed):
    """Without it, fsck took minutes for 40 000 workunits: it read the queue for each of them."""
    as_superuser("DELETE FROM pg_statistic WHERE starelid = %s::regclass", ["workunit_wakeup"])
    load()
    plan = Workunit.objects.filter(pk__gt=0).order_by("pk").values(woken=WOKEN_AT)[:1000].explain()
    assert "wakeups_of_workunit" in plan
    assert "workunit_wakeup_pkey" not in plan


def test_dependencies_are_counted_by_look_ups(never_analysed):
    """PostgreSQL expected many parents for each child, and read all workunits."""
    as_superuser("DELETE FROM pg_statistic WHERE starelid = %s::regclass", ["dependency"])
    app = an_app()
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "INSERT INTO workunit (name, app_id, outputs, meta, created_at, min_quorum,"
            " target_nresults, has_parents) SELECT 'child_' || n, %s, '[]', '{}', %s, 1, 1, TRUE"
            " FROM generate_series(1, 5000) AS n",
            [app.pk, NOON],
        )
        cursor.execute(
            "INSERT INTO dependency (parent_id, child_id) SELECT w.id - n, w.id"
            " FROM workunit AS w CROSS JOIN generate_series(1, 30) AS n"
        )
    ids = sorted(Workunit.objects.values_list("pk", flat=True))[-100:]
    statement = f"EXPLAIN (FORMAT JSON) {sql.load('work/recount_dependencies')}"
    with connection.cursor() as cursor:
        cursor.execute(statement, {"ids": sql.array(ids), "now": NOON})
        (plan,) = cursor.fetchone()
    plan = json.loads(plan) if isinstance(plan, str) else plan
    assert list(scanned(plan[0]["Plan"])) == []


def test_a_pass_does_not_read_the_whole_queue_of_wake_ups(read_whole, monkeypatch):
    """The remainder of the shard made PostgreSQL expect few rows, and read and sort the queue."""
    monkeypatch.setattr("tests.database.sql.test_young_tables.LARGE", ("workunit_wakeup",))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO workunit_wakeup (workunit_id, inserted_at)"
            " SELECT 1000000 + n, %s FROM generate_series(1, 20000) AS n",
            [NOON],
        )
        cursor.execute("ANALYZE workunit_wakeup")
    a_pass(transitioner, limit=1000)
    assert WorkunitWakeup.objects.count() == 19_000
    assert read_whole == set()


def test_every_pass_renews_cached_plans_first(monkeypatch):
    renewed = []
    monkeypatch.setattr(plans, "renew", lambda: renewed.append("before the pass"))
    drive = Drive(lambda: NOON, stop=StopSign(), limit=10, pause=1.0)
    drive.run_pass(find("transitioner"))
    assert renewed == ["before the pass"]


def test_the_generic_plan_for_known_files_does_not_scan_the_whole_table(never_analysed):
    """The prepared statement has a generic plan, made without the actual parameters."""
    statement = sql.load("files/lock_known_files")
    for place, name in enumerate(("contents", "names"), 1):
        statement = statement.replace(f"%({name})s", f"${place}")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO file (name, sha256, md5, nbytes, created_at)"
            " SELECT 'f' || n, 's' || n, '', 0, %s FROM generate_series(1, 50000) AS n",
            [NOON],
        )
        cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        cursor.execute(f"PREPARE known AS {statement}")
        cursor.execute("EXPLAIN (FORMAT JSON) EXECUTE known ('{s7, s9}', '{f8}')")
        (plan,) = cursor.fetchone()
        cursor.execute("EXECUTE known ('{s7, s9}', '{f8}')")
        assert [name for _, name, _, _ in cursor.fetchall()] == ["f7", "f8", "f9"]
        cursor.execute("DEALLOCATE known")
    plan = json.loads(plan) if isinstance(plan, str) else plan
    assert "file" not in set(scanned(plan[0]["Plan"]))


def test_workunits_of_fast_validators_are_not_read_for_other_apps():
    """A join of apps and workunits read all workunits that need validation, in every pass."""
    app = an_app(validator="bitwise")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO workunit (name, app_id, outputs, meta, created_at, min_quorum,"
            " target_nresults, need_validate) SELECT 'w_' || n, %s, '[]', '{}', %s, 1, 1, TRUE"
            " FROM generate_series(1, 5000) AS n",
            [app.pk, NOON],
        )
        cursor.execute("ANALYZE workunit")
        statement = sql.load("read_waiting_apps", "daemons.sql")
        cursor.execute(
            f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}", {"at_once": ["bitwise"]}
        )
        (plan,) = cursor.fetchone()
    plan = json.loads(plan) if isinstance(plan, str) else plan
    nodes = [plan[0]["Plan"]]
    for node in nodes:
        nodes += node.get("Plans", ())
    read = [node for node in nodes if node.get("Relation Name") == "workunit"]
    assert read
    assert {node["Actual Loops"] for node in read} == {0}
