"""Each SQL statement begins with a comment on its purpose, and is used."""

from __future__ import annotations

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
