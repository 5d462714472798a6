"""Rules of holds, runners, filters, queries and database roles."""

from __future__ import annotations

from typing import Any

from tests.mutate.switching import Code, Sql, Switch, always

HOLDING = "tests/database/work/test_holding.py"
API_HOLDING = "tests/faces/api/test_api_holding.py"
STAFF_HOLDS = "tests/security/test_holds_by_staff.py"
REPORTS = "tests/faces/boinc/test_success_rules.py"
FILTERS = "tests/security/test_search_filters.py"
SEARCH = "tests/faces/api/test_api_search.py"
QUERIES = "tests/faces/api/test_api_query_submissions.py"
TEMPLATES = "tests/pure/work/test_document_templates.py"
_EXPRESSIONS = "scheduler.api.search.expressions"
_TEMPLATES = "scheduler.work.submission.rules.document_templates"


def _as_it_is(_original: Any) -> Any:
    return lambda value: value if isinstance(value, int) else 2


def _unquoted(original: Any) -> Any:
    return lambda value, path, is_command: original(value, path, is_command and not path)


RULES = (
    Switch(
        "Codes of holds that mean something else in Disbatch are refused",
        Code("scheduler.work.rules.statuses:hold_code_fault", always("")),
        (HOLDING,),
    ),
    Switch(
        "Submitters release only workunits with a code",
        Sql("work/set_release_state", "AND hold_code IS NULL\n", "AND FALSE\n"),
        (f"{API_HOLDING}::test_submitter_cannot_release_what_staff_hold_but_staff_can",),
    ),
    Switch(
        "A hold without a code replaces the code of the submitter",
        Sql(
            "work/set_release_state",
            "hold_code IS NOT DISTINCT FROM %(hold_code)s::smallint",
            "coalesce(hold_code = %(hold_code)s::smallint, TRUE)",
        ),
        (HOLDING, STAFF_HOLDS),
    ),
    Switch(
        "A dependency does not end a hold by staff",
        Sql("work/read_linked_workunits", "AND w.hold_code IS NULL", "AND FALSE"),
        (STAFF_HOLDS,),
    ),
    Switch(
        "A hold stores its code",
        Sql(
            "work/set_release_state", "hold_code = %(hold_code)s::smallint\n", "hold_code = NULL\n"
        ),
        (HOLDING, API_HOLDING),
    ),
    Switch(
        "A dependency ends a hold and its code",
        Sql(
            "work/insert_dependencies",
            "CASE WHEN linked.is_child THEN NULL ELSE w.hold_code END",
            "w.hold_code",
        ),
        (HOLDING,),
    ),
    Switch(
        "A status of a runner that is not positive counts as failed",
        Code("scheduler.results.rules.runner_reports:_status", made=_as_it_is),
        (REPORTS,),
    ),
    Switch(
        "The status and the output of a runner are stored",
        Sql("results/settle_reports", "app_status = report.app_status", "app_status = NULL"),
        (REPORTS,),
    ),
    Switch(
        "The setting decides where the output of a runner is stored",
        Code("scheduler.dispatch.rules.launching:inline_bytes", always(30_000)),
        (REPORTS,),
    ),
    Switch(
        "The levels of a filter are limited",
        Code(f"{_EXPRESSIONS}:MAX_DEPTH", 100),
        (FILTERS,),
    ),
    Switch(
        "The conditions of a filter are limited",
        Code(f"{_EXPRESSIONS}:MAX_CONDITIONS", 1000),
        (f"{FILTERS}::test_everything_that_is_no_listed_field_operator_or_value_is_refused",),
    ),
    Switch(
        "The values of a filter have the type of the field",
        Code(f"{_EXPRESSIONS}:_READERS", made=lambda readers: dict.fromkeys(readers, str)),
        (f"{FILTERS}::test_everything_that_is_no_listed_field_operator_or_value_is_refused",),
    ),
    Switch(
        "A value in a command line is quoted",
        Code(f"{_TEMPLATES}:_as_text", made=_unquoted),
        (TEMPLATES,),
    ),
    Switch(
        "The number of documents of a query is limited",
        Code(f"{_TEMPLATES}:MAX_DOCUMENTS", 10**9),
        (TEMPLATES,),
    ),
    Switch(
        "Every table has a decision about the rights of the roles on it",
        Code(
            "scheduler.sql.table_rights:TABLES",
            made=lambda tables: {name: tables[name] for name in tables if name != "workunit"},
        ),
        ("tests/security/test_database_roles.py",),
    ),
)
