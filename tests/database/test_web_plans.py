"""What a web process plans once for ever reads no table whole that grows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from scheduler import sql

#: What a project has a handful of.
SMALL = {
    "app",
    "app_version",
    "app_version_file",
    "batch",
    "outage",
    "plan_class",
    "platform",
}
#: Statements of commands and passes, which are planned each time for the tables as they are.
NOT_OF_THE_WEB = {
    "choose_revalidation": "of a filter that may leave all",
    "doom_unused_files": "of thousands of files",
    "lock_known_files": "of thousands of files",
    "read_antique_limit": "a minimum over all",
    "request_cancellation": "of a filter that may leave all",
    "set_release_state": "of a filter that may leave all",
}
#: Indexes of so little that reading one whole is a look-up.
FEW = {"read_broadcasts"}

READERS = {"Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan"}

STATEMENTS = sorted(
    file.name.removesuffix(".sql")
    for file in files("scheduler.sql").iterdir()
    if file.name.endswith(".sql") and file.name.removesuffix(".sql") not in NOT_OF_THE_WEB
)


def kept_plan(name: str) -> dict[str, Any]:
    """The plan that a connection of a web process makes of a statement, once for all parameters."""
    numbers: dict[str, int] = {}

    def number(parameter: re.Match[str]) -> str:
        return f"${numbers.setdefault(parameter[1], len(numbers) + 1)}"

    text = re.sub(r"%\((\w+)\)s", number, sql.load(name)).replace("%%", "%")
    values = f"({', '.join('NULL' for _ in numbers)})" if numbers else ""
    with connection.cursor() as cursor:
        # As they are created: neither other tests' rows nor what was ever known of them.
        cursor.execute("TRUNCATE workunit, result, file, host, account, team CASCADE")
        for option, value in re.findall(r"-c (\w+)=(\w+)", settings.WEB_PLANS):
            cursor.execute(f"SET LOCAL {option} = {value}")
        cursor.execute(f"PREPARE kept AS {text}".replace("%", "%%"), ())
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE kept {values}")
        (plan,) = cursor.fetchone()
        cursor.execute("DEALLOCATE kept")
    return (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]


def read_whole(node: dict[str, Any]) -> Iterator[str]:
    """Tables that grow, and indexes on them, that a plan reads from the first row to the last."""
    kind, table, index = (node.get(key) for key in ("Node Type", "Relation Name", "Index Name"))
    if kind in READERS and "Index Cond" not in node and table not in SMALL and index not in FEW:
        yield f"{kind} of {index or table}"
    for child in node.get("Plans", ()):
        yield from read_whole(child)


@pytest.mark.django_db
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_plan_made_while_tables_are_empty_still_goes_by_an_index(name):
    assert list(read_whole(kept_plan(name))) == []


@pytest.mark.django_db
def test_what_reads_a_table_whole_is_noticed():
    assert list(read_whole(kept_plan("read_antique_limit"))) == ["Seq Scan of workunit"]


def test_exceptions_are_statements():
    assert all(sql.load(name) for name in NOT_OF_THE_WEB)
