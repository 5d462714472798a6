"""Creates the guard triggers, which refuse every move that is not in the law.

The triggers are active in every test.  In production, operators switch them with ``manage.py
guard_trigger on|off|status``.  There are two kinds.  The *state* triggers on ``workunit`` and
``result`` check that the law has a move from a row's old state to its new state.  The *ledger*
trigger checks each complete move, including reason and actor.
"""

from __future__ import annotations

from django.db import connection

from scheduler.lifecycle import INITIAL, MOVES, Axis, edges

#: The table of each axis, and the SQL expression of its state.
_EXPRESSIONS: dict[Axis, tuple[str, str]] = {
    Axis.RESULT: ("result", "{row}.server_state * 10 + {row}.outcome"),
    Axis.VALIDATION: ("result", "{row}.validate_state"),
    Axis.RESULT_FILES: ("result", "{row}.file_delete_state"),
    Axis.WORKUNIT: (
        "workunit",
        (
            "CASE WHEN {row}.canonical_result_id = 0 THEN 4"
            " WHEN {row}.canonical_result_id IS NOT NULL THEN 2"
            " WHEN {row}.error_mask <> 0 THEN 3 ELSE 1 END"
        ),
    ),
    Axis.RELEASE: ("workunit", "{row}.release_state"),
    Axis.ASSIMILATION: ("workunit", "{row}.assimilate_state"),
    Axis.WORKUNIT_FILES: ("workunit", "{row}.file_delete_state"),
}


def expression(axis: Axis, row: str) -> str:
    """Return the SQL expression for the state on an axis; `row` is the alias of the row."""
    return _EXPRESSIONS[axis][1].format(row=row)


def install() -> None:
    """Create or replace the guard triggers."""
    with connection.cursor() as cursor:
        for statement in statements():
            cursor.execute(statement)


def remove() -> None:
    """Drop the guard triggers."""
    with connection.cursor() as cursor:
        for table in ("workunit", "result", "ledger_entry"):
            cursor.execute(f"DROP TRIGGER IF EXISTS guard ON {table}")


def is_installed() -> bool:
    """Return whether all three guard triggers exist."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_trigger WHERE tgname = 'guard' AND tgparentid = 0")
        row = cursor.fetchone()
    return bool(row and row[0] == 3)  # noqa: PLR2004  one per guarded table


def statements() -> list[str]:
    """Return the SQL statements that create the triggers and their functions."""
    return [
        _state_function("workunit"),
        _state_function("result"),
        _ledger_function(),
        *(_trigger(table, "INSERT OR UPDATE") for table in ("workunit", "result")),
        _trigger("ledger_entry", "INSERT"),
    ]


def _trigger(table: str, events: str) -> str:
    return (
        f"CREATE OR REPLACE TRIGGER guard BEFORE {events} ON {table} "
        f"FOR EACH ROW EXECUTE FUNCTION guard_{table}()"
    )


def _state_function(table: str) -> str:
    axes = [axis for axis, (axis_table, _) in _EXPRESSIONS.items() if axis_table == table]
    initial_checks = "\n".join(_check_initial(axis) for axis in axes)
    move_checks = "\n".join(_check_move(axis) for axis in axes)
    return f"""
CREATE OR REPLACE FUNCTION guard_{table}() RETURNS trigger LANGUAGE plpgsql AS $guard$
DECLARE was integer; becomes integer;
BEGIN
  IF TG_OP = 'INSERT' THEN
{initial_checks}
  ELSE
{move_checks}
  END IF;
  RETURN NEW;
END $guard$"""


def _check_initial(axis: Axis) -> str:
    legal = ", ".join(str(int(state)) for state in INITIAL[axis])
    return f"""    becomes := {expression(axis, "NEW")};
    IF becomes NOT IN ({legal}) THEN
      RAISE EXCEPTION 'The law does not allow {axis.label} to start in state %.', becomes
        USING ERRCODE = 'check_violation', DETAIL = NEW.name;
    END IF;"""


def _check_move(axis: Axis) -> str:
    legal = ", ".join(f"({source}, {target})" for source, target in edges(axis))
    return f"""    was := {expression(axis, "OLD")};
    becomes := {expression(axis, "NEW")};
    IF was <> becomes AND (was, becomes) NOT IN ({legal}) THEN
      RAISE EXCEPTION 'The law does not contain the move {axis.label}: % to %.', was, becomes
        USING ERRCODE = 'check_violation', DETAIL = NEW.name;
    END IF;"""


def _ledger_function() -> str:
    legal = ", ".join(
        f"({m.axis.value}, {int(m.source)}, {int(m.target)}, {m.because.value}, {m.by.value})"
        for m in MOVES
    )
    return f"""
CREATE OR REPLACE FUNCTION guard_ledger_entry() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
  IF (NEW.axis, NEW.source, NEW.target, NEW.because, NEW."by") NOT IN ({legal}) THEN
    RAISE EXCEPTION 'The law does not contain the move axis % from % to % because % by %.',
      NEW.axis, NEW.source, NEW.target, NEW.because, NEW."by"
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $guard$"""
