"""The table of wake-ups is complete and names existing daemons."""

from __future__ import annotations

import ast
import re

import pytest

from daemons.registry import BY_NAME
from daemons.wakes import WAKES
from tests.house.tracked import modules, read, statement_name, statements

#: A statement that adds to the transitioner's queue.
MAKES_DUE = re.compile(r"(?:INSERT INTO|COPY) workunit_wakeup\b")


def words_of(daemon):
    """Return every string in a daemon's modules."""
    own = [m for m in modules() if m.startswith((f"daemons/{daemon}.py", f"daemons/{daemon}/"))]
    assert own, f"there is no module of {daemon}"
    return {
        node.value
        for module in own
        for node in ast.walk(ast.parse(read(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def waking_statements():
    due = [name for name in statements() if MAKES_DUE.search(read(name))]
    return {statement_name(name) for name in due}


def test_sql_statements_that_make_workunits_due_are_found():
    assert {
        "results/settle_reports",
        "work/submission/copy_wakeups",
        "settle_validated",
        "time_out_results",
    } <= (waking_statements())


@pytest.mark.parametrize("daemon", WAKES)
def test_wakes_table_names_existing_daemons_and_counts(daemon):
    assert daemon in BY_NAME
    assert WAKES[daemon].keys() <= words_of(daemon)
    for woken in WAKES[daemon].values():
        assert set(woken) <= BY_NAME.keys()
        assert woken


@pytest.mark.parametrize("daemon", BY_NAME)
def test_a_daemon_that_makes_workunits_due_wakes_the_transitioner(daemon):
    wakes = {name for names in WAKES.get(daemon, {}).values() for name in names}
    if waking_statements() & words_of(daemon):
        assert "transitioner" in wakes


@pytest.mark.parametrize(
    "module", [m for m in modules() if m.startswith("scheduler/") and "/models/" not in m]
)
def test_module_that_makes_workunits_due_wakes_the_transitioner_after_commit(module):
    tree = ast.parse(read(module))
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    if waking_statements() & {text for text in strings if isinstance(text, str)}:
        assert 'wakeups.after_commit("transitioner")' in read(module)
