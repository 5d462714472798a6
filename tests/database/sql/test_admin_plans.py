"""Orders and searches of the administration's lists use indexes.

Statements of the ORM are planned at each execution, and for any parameters (decision 7), so that
the tables have rows and statistics here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models
from django.test import RequestFactory

from scheduler.admin import base
from scheduler.admin.base import BoundedPaginator, StaffAdmin
from scheduler.admin.lists import searching
from scheduler.admin.site import staff
from scheduler.models import Account, Host, Team
from tests.conftest import NOON
from tests.database.any_plans import plan_of

pytestmark = [pytest.mark.django_db, pytest.mark.lengthy]

#: The rows of each large table, and of each table with few rows in every project.
ROWS, FEW = 15_000, 20
PAGES: dict[Any, Any] = {
    model: page
    for model, page in staff._registry.items()
    if isinstance(page, StaffAdmin) and not page.is_small
}
#: Tables that have few rows in every project, or at most some hundred thousand.
BOUNDED = {"host_outcomes", "version_outcomes"} | {
    model._meta.db_table
    for model, page in staff._registry.items()
    if isinstance(page, StaffAdmin) and page.is_small
}
#: A filter that leaves almost all rows of the list.
HARMLESS = "(deleted_at IS NULL)"


# The rows


def expression(field: Any) -> str:
    """Return the value of a column in row `n`; half of the values that may be NULL are NULL."""
    related = field.related_model
    if related is not None:
        value = "n" if related in PAGES else f"n % {FEW} + 1"
    elif isinstance(field, models.BooleanField):
        value = "n % 3 > 0"
    elif isinstance(field, models.SmallIntegerField):
        value = "n % 5 + 1"
    elif isinstance(field, models.IntegerField | models.FloatField | models.DecimalField):
        value = "n"
    elif isinstance(field, models.DateTimeField):
        value = "now() - n * interval '1 second'"
    elif isinstance(field, models.DateField):
        value = "current_date - n"
    else:
        others = {
            models.DurationField: "interval '1 second'",
            models.GenericIPAddressField: "'192.0.2.1'::inet",
            models.JSONField: "'{}'::jsonb",
            models.UUIDField: "gen_random_uuid()",
            models.BinaryField: "''::bytea",
        }
        value = next((text for kind, text in others.items() if isinstance(field, kind)), "'x' || n")
    return f"CASE WHEN n % 2 = 0 THEN {value} END" if field.null else value


def fill() -> None:
    """Fill the tables with rows that obey no constraint but those of uniqueness."""
    filled = list(apps.get_app_config("scheduler").get_models())
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        names = ", ".join(f'"{model._meta.db_table}"' for model in filled)
        cursor.execute(f"TRUNCATE {names} CASCADE")
        cursor.execute(
            "SELECT conrelid::regclass::text, conname FROM pg_constraint"
            " WHERE contype = 'c' AND conislocal AND conrelid::regclass::text = ANY(%s)",
            [[model._meta.db_table for model in filled]],
        )
        for table, name in cursor.fetchall():
            cursor.execute(f'ALTER TABLE "{table}" DROP CONSTRAINT "{name}"')
        for model in filled:
            fields = [each for each in model._meta.concrete_fields if not each.primary_key]
            columns = ", ".join(f'"{each.column}"' for each in (model._meta.pk, *fields))
            values = ", ".join(["n", *map(expression, fields)])
            count = ROWS if model in PAGES else FEW
            cursor.execute(
                f'INSERT INTO "{model._meta.db_table}" ({columns}) OVERRIDING SYSTEM VALUE '
                f"SELECT {values} FROM generate_series(1, {count}) AS n"
            )
        cursor.execute("SET LOCAL session_replication_role = origin")
        cursor.execute(f"ANALYZE {names}")


@pytest.fixture
def chief(monkeypatch: pytest.MonkeyPatch) -> Account:
    fill()
    # Lists with one page are read without a limit.
    monkeypatch.setattr(BoundedPaginator, "count", 10_000)
    # The limits have the same ratio to the rows as in tables with millions of rows.
    monkeypatch.setattr(base, "MAX_LISTED_ROWS", 100)
    monkeypatch.setattr(searching, "MAX_MATCHES", 10)
    monkeypatch.setattr(searching, "MAX_OWNERS", 3)
    account = Account(pk=ROWS + 1, email="chief@example.org", created_at=NOON)
    account.is_staff = account.is_superuser = True
    account.save(force_insert=True)
    return account


# The plans


class Recorded(list[tuple[str, Any]]):
    """The statements that read rows, with their parameters."""

    def __call__(self, execute: Any, statement: str, params: Any, *more: Any) -> Any:
        if statement.startswith("SELECT"):
            self.append((statement, params))
        return execute(statement, params, *more)


def shown(page: Any, chief: Account, query: str = "") -> Any:
    """Return a list, without rendering its rows."""
    request = RequestFactory().get(f"/{query}")
    request.user = chief
    return page.get_changelist_instance(request)


def statements_of(page: Any, chief: Account, query: str = "") -> Recorded:
    recorded = Recorded()
    with connection.execute_wrapper(recorded):
        list(shown(page, chief, query).result_list)
    return recorded


def slow_parts(node: dict[str, Any], *, is_limited: bool = False) -> Iterator[str]:
    """Yield the parts of a plan that read a whole large table.

    The first rows in the order of an index are quick, unless most rows are filtered out.
    """
    kind, table = str(node["Node Type"]), node.get("Relation Name")
    is_filtered = node.get("Filter", HARMLESS) != HARMLESS
    if kind == "Limit":
        is_limited = True
    elif kind in {"Sort", "Aggregate", "Hash", "Unique"}:
        is_limited = False
    is_large = table not in BOUNDED and kind not in {"Bitmap Heap Scan", "Subquery Scan"}
    is_unbounded = kind == "Bitmap Index Scan" or is_filtered or not is_limited
    if "Scan" in kind and is_large and "Index Cond" not in node and is_unbounded:
        yield f"{kind} of {node.get('Index Name') or table}"
    for child in node.get("Plans", ()):
        yield from slow_parts(child, is_limited=is_limited)


def sorts_of(node: dict[str, Any]) -> list[str]:
    """Return the keys of the sorts in a plan."""
    own = node["Sort Key"] if node["Node Type"] in {"Sort", "Incremental Sort"} else []
    return [*own, *(key for child in node.get("Plans", ()) for key in sorts_of(child))]


def name_of(column: Any) -> str:
    return column if isinstance(column, str) else column.__name__


def test_each_order_of_a_large_list_is_read_from_an_index(chief):
    faults, count = [], 0
    for model, page in PAGES.items():
        usual = shown(page, chief)
        places = {name_of(column): place for place, column in enumerate(usual.list_display)}
        assert {name_of(column) for column in usual.sortable_by} == set(page.sorts), model
        for name in page.sorts:
            for direction in ("", "-"):
                query = f"?o={direction}{places[name]}"
                [(statement, params)] = [
                    each
                    for each in statements_of(page, chief, query)
                    if f'FROM "{page.opts.db_table}"' in each[0]
                    and re.search(r"ORDER BY .* LIMIT 50$", each[0])
                ]
                order = statement.rpartition("ORDER BY")[2]
                assert ("DESC" in order) is (direction == "-"), statement
                plan = plan_of(statement, params)
                if parts := [*sorts_of(plan), *slow_parts(plan)]:
                    faults.append((model.__name__, name, direction, parts))
                count += 1
    assert faults == []
    assert count > 100


@pytest.mark.parametrize("term", ["abc", "4711", "x1"])
def test_each_search_of_a_large_list_reads_by_indexes(chief, term):
    faults = []
    for model, page in PAGES.items():
        usual = {statement for statement, _ in statements_of(page, chief)}
        for statement, params in statements_of(page, chief, f"?q={term}"):
            if statement not in usual and (parts := [*slow_parts(plan_of(statement, params))]):
                faults.append((model.__name__, parts, statement[-300:]))
    assert faults == []


def test_slow_orders_and_searches_are_detected(chief):
    for rows in (
        Host.objects.order_by("p_ncpus")[:50],
        Host.objects.filter(domain_name__icontains="x").order_by("-pk")[:50],
        Host.objects.filter(domain_name__startswith="x").order_by("-pk")[:50],
        Account.objects.filter(total_credit__gt=0, is_active=True).order_by("-total_credit")[:50],
        Account.objects.filter(url="x"),
    ):
        plan = plan_of(*rows.query.sql_with_params())
        assert [*slow_parts(plan), *sorts_of(plan)], rows.query
    quick = Team.objects.order_by("-total_credit", "-pk")[:50]
    plan = plan_of(*quick.query.sql_with_params())
    assert [*slow_parts(plan), *sorts_of(plan)] == []


def test_conditions_of_partial_indexes_have_literals_and_no_parameters():
    for page in PAGES.values():
        for sort in page.sorts.values():
            if sort.only is not None:
                statement, params = page.model.objects.filter(sort.only).query.sql_with_params()
                assert params == (), statement
