"""The cached query plans of a web process never scan a whole large table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

import scheduler
from scheduler import sql

#: Tables that have few rows in every project.
SMALL = {
    "alert_state",
    "app",
    "app_version",
    "app_version_file",
    "batch",
    "check_run",
    "outage",
    "plan_class",
    "platform",
    "queue",
    "status_sample",
}
#: Statement that may read whole tables -> reason.  Commands and passes plan it at each call.
NOT_OF_THE_WEB = {
    "credit/award_account_badge": "of the housekeeper, which plans it at each call, once a day",
    "credit/award_team_badge": "of the housekeeper, which plans it at each call, once a day",
    "credit/count_app_credit": "of the housekeeper, which plans it at each call",
    "credit/count_hardware": "of the housekeeper, which plans it at each call, once a day",
    "credit/drop_credit_samples": "of the housekeeper, which plans it at each call, once a day",
    "credit/drop_orphaned_credit_samples": "of the housekeeper, which plans it at each call",
    "credit/sample_accounts": "of the housekeeper, which plans it at each call, once a day",
    "credit/sample_hosts": "of the housekeeper, which plans it at each call, once a day",
    "credit/sample_project": "of the housekeeper, which plans it at each call, once a day",
    "credit/sample_teams": "of the housekeeper, which plans it at each call, once a day",
    "health/count_hosts_without_work": "reads few hosts: tested by test_hosts_without_work.py",
    "health/count_others": "counts whole tables, shared by all processes for some seconds",
    "health/count_results": "counts whole tables, shared by all processes for some seconds",
    "health/count_workunits": "counts whole tables, shared by all processes for some seconds",
    "health/read_app_loads": "counts whole tables, cached for ten minutes",
    "health/read_population": "counts whole tables, cached for ten minutes",
    "health/read_held_waits": "of one batch: tested by test_progress_costs.py",
    "health/read_signs_of_service": "of `doctor`, which an operator runs",
    "health/read_troubles": "of alerts: reads whole indexes of few rows",
    "queues/read_unbalanced_queues": "of the housekeeper, which plans it at each call",
    "work/submission/copy_first_moves": "COPY has no plan",
    "work/submission/copy_inputs": "COPY has no plan",
    "work/submission/copy_wakeups": "COPY has no plan",
    "work/submission/copy_workunits": "COPY has no plan",
    "dispatch/count_described_hosts": "of the housekeeper, which plans it at each call",
    "files/read_antique_limit": "a minimum over all",
    "work/request_cancellation": "of a filter that may leave all",
    "work/set_release_state": "of a filter that may leave all",
}
#: Indexes with so few entries that reading one whole is cheap.
FEW = {"app_pkey", "read_broadcasts"}

#: Indexes of which a statement reads only the first rows.
FIRST_ROWS = {
    "health/read_due_since": {
        "claim_trickles",
        "lease_unassimilated",
        "lock_purgeable",
        "lock_unvalidated",
        "workunit_wakeup_pkey",
    }
}

READERS = {"Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan"}

ROOMS = Path(scheduler.__file__).parent
STATEMENTS = sorted(
    name
    for path in ROOMS.rglob("*.sql")
    if (name := path.relative_to(ROOMS).with_suffix("").as_posix()) not in NOT_OF_THE_WEB
    and path.parent.name != "invariant_sql"
)


@contextmanager
def kept(name: str) -> Iterator[Callable[[], dict[str, Any]]]:
    """Prepare a statement as a web process does; yield a function that returns its plan."""
    numbers: dict[str, int] = {}

    def number(parameter: re.Match[str]) -> str:
        return f"${numbers.setdefault(parameter[1], len(numbers) + 1)}"

    text = re.sub(r"%\((\w+)\)s", number, sql.load(name)).replace("%%", "%")
    values = f"({', '.join('NULL' for _ in numbers)})" if numbers else ""

    def plan() -> dict[str, Any]:
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE kept {values}")
        (plan,) = cursor.fetchone()
        return (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]

    options = re.findall(r"-c (\w+)=(\w+)", settings.WEB_PLANS)
    with connection.cursor() as cursor:
        for option, value in options:
            cursor.execute(f"SET {option} = {value}")
        cursor.execute(f"PREPARE kept AS {text}".replace("%", "%%"), ())
        try:
            yield plan
        finally:
            cursor.execute("DEALLOCATE kept")
            for option, _ in options:
                cursor.execute(f"RESET {option}")


def read_whole(node: dict[str, Any]) -> Iterator[str]:
    """Yield each scan in a plan that reads the whole of a large table or of its index."""
    kind, table, index = (node.get(key) for key in ("Node Type", "Relation Name", "Index Name"))
    if kind in READERS and "Index Cond" not in node and table not in SMALL and index not in FEW:
        yield f"{kind} of {index or table}"
    for child in node.get("Plans", ()):
        yield from read_whole(child)


#: Large tables; the others have a foreign key to one of them, or stand in SMALL.
LARGE = (
    "account",
    "dependency",
    "file",
    "host",
    "outbox_message",
    "queue_slot",
    "refusal",
    "result",
    "team",
    "throttle_bucket",
    "usage_sample",
    "workunit",
    "workunit_wakeup",
)


@pytest.fixture
def _as_created(db):
    """Truncate the tables, so that they are empty and without statistics, as after their creation."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(LARGE)} CASCADE")


@pytest.mark.usefixtures("_as_created")
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_plan_made_while_tables_are_empty_uses_an_index(name):
    first_rows = FIRST_ROWS.get(name, set())
    with kept(name) as plan:
        scans = list(read_whole(plan()))
    assert [scan for scan in scans if scan.rpartition(" of ")[2] not in first_rows] == []


@pytest.mark.usefixtures("_as_created")
def test_a_sequential_scan_is_detected():
    with kept("files/read_antique_limit") as plan:
        assert list(read_whole(plan())) == ["Seq Scan of workunit"]


def test_every_excepted_name_is_an_existing_statement():
    assert all(sql.load(name) for name in NOT_OF_THE_WEB)
