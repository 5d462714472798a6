"""Each SQL statement begins with a comment on its purpose, and is used."""

from __future__ import annotations

import ast
import re

import pytest

from tests.house.tracked import modules, read, statement_name, statements


def uncommented(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


STATES = r"server_state|validate_state|assimilate_state|file_delete_state|release_state"


@pytest.mark.parametrize("statement", statements())
def test_sql_statement_begins_with_a_comment_on_its_purpose(statement):
    text = read(statement)
    comment = re.match(r"(?:--[^\n]*\n)+", text)
    assert comment, f"{statement} does not say what it is for"
    sentence = " ".join(line[2:].strip() for line in comment[0].splitlines())
    assert sentence[:1].isupper()
    assert "." in sentence or ":" in sentence


@pytest.mark.parametrize("statement", statements())
def test_sql_statement_that_sets_a_state_checks_the_old_state_or_has_locked_rows(statement):
    text = read(statement)
    if "locked" in text.partition("\n")[0]:
        return
    for update in re.findall(r"\bUPDATE\b(.*?)(?=\bUPDATE\b|\Z)", uncommented(text), re.DOTALL):
        assigned, _, rest = update.partition("WHERE")
        for state in set(re.findall(rf"\b({STATES})\s*=(?!\s*ANY)", assigned)):
            assert re.search(rf"\b{state}\b", rest), f"{statement} sets {state} unguarded"


def test_no_sql_statement_is_unused():
    source = "\n".join(read(module) for module in modules() if not module.startswith("tests/"))
    unused = [name for name in statements() if f'"{statement_name(name)}"' not in source]
    assert unused == []


def test_every_sql_statement_named_in_code_exists():
    known = {statement_name(name) for name in statements()}
    call = re.compile(r"\bsql\.(?:load|fetch|fetch_one|execute)\(\s*\"([\w/]+)\"")
    into = re.compile(r"\bsql\.fetch_into\(\s*\w+,\s*\"([\w/]+)\"")
    for module in modules():
        named = set(call.findall(read(module))) | set(into.findall(read(module)))
        assert named <= known, module


# Statements that write results

WRITES_RESULT = re.compile(
    r"\b(?:UPDATE|INSERT\s+INTO|DELETE\s+FROM|MERGE\s+INTO|COPY)\s+(?:ONLY\s+)?\"?result\"?(?![\w.])"
)
CHANGES_STATE = re.compile(
    r"\b(?:INSERT\s+INTO|DELETE\s+FROM)\s+result\b"
    r"|\bUPDATE\s+result\b(?:(?!\bWHERE\b).)*?"
    r"\b(?:server_state|outcome|validate_state|file_delete_state)\s*=",
    re.DOTALL,
)
LOCKS = re.compile(r"\bFOR (?:NO KEY )?UPDATE\b")
ORM_WRITES = {"update", "delete", "create", "bulk_create", "bulk_update", "get_or_create", "save"}
ORM_WRITES |= {"update_or_create", "asave", "aupdate", "adelete", "acreate", "abulk_create"}
PRODUCT = ("project/", "scheduler/", "daemons/")


def documented_writers():
    """Return the rows of the table of statements that write results: name and lock."""
    page = read("docs/reference/result-writers.md")
    rows = re.findall(r"^\| `([\w/.]+)` \|.*\| ([^|]*) \|$", page, re.MULTILINE)
    assert rows
    return rows


def base_name(node):
    """Return the name with which a chain of attributes and calls begins."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def writers_in_python(module):
    """Yield the functions of a module that write results by the ORM, or by a text with SQL."""
    for function in ast.walk(ast.parse(read(module))):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            match node:
                case ast.Call(func=ast.Attribute(value=value, attr=attr)) if (
                    attr in ORM_WRITES and base_name(value) in {"Result", "result"}
                ):
                    yield f"{module.removesuffix('.py').rpartition('/')[2]}.{function.name}"
                case ast.Constant(value=str(text)) if WRITES_RESULT.search(text):
                    yield f"{module.removesuffix('.py').rpartition('/')[2]}.{function.name}"


def test_table_of_statements_that_write_results_is_complete():
    product = [name for name in modules() if name.startswith(PRODUCT)]
    writers = {writer for module in product for writer in writers_in_python(module)}
    writers |= {
        name.removesuffix(".sql")
        for name in statements()
        if WRITES_RESULT.search(uncommented(read(name)))
    }
    assert len(writers) > 15
    assert {name for name, _ in documented_writers()} == writers


def test_statements_that_change_a_state_of_results_run_under_the_lock_of_the_workunit():
    locks = {name.rpartition("/")[2].removesuffix(".sql"): read(name) for name in statements()}
    for name, lock in documented_writers():
        if "/" not in name:
            continue
        text = uncommented(read(f"{name}.sql"))
        if CHANGES_STATE.search(text):
            assert lock.startswith("workunit: "), f"{name} changes a state"
        if lock.startswith("result: "):
            assert LOCKS.search(text), f"{name} locks no result"
        for locking in re.findall(r"`(\w+)`", lock):
            if locking in locks:
                assert LOCKS.search(uncommented(locks[locking])), locking
                assert re.search(r"\bFROM workunit\b|\bworkunit AS w\b", locks[locking]), locking
        if "in itself" in lock:
            assert re.search(r"\bFROM workunit\b.*?\bFOR NO KEY UPDATE\b", text, re.DOTALL), name
