"""SQL files contain names of states; loading replaces them by numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scheduler import sql
from tests.house.tracked import read, statements

#: Columns with states, and values computed from them (`was_state`, `server_state * 10 + outcome`).
STATE = r"\b(?:\w+_state|outcome|target_kind)\b"
NUMBER = r"\d+\b(?!\s*\*)"
#: A number that is compared with a state, assigned to it, or selected AS a column of states.
BARE = re.compile(
    rf"{STATE}\s*(?:=|<>|<=?|>=?|(?:NOT )?IN \()\s*{NUMBER}"
    rf"|\b\d+ AS (?:\w+_state|outcome|target_kind|axis|source|target|because|by)\b",
    re.IGNORECASE,
)
MOVE = re.compile(r"INSERT INTO ledger_entry\b(.*?)\bFROM\b", re.DOTALL)


def loaded(path: str) -> str:
    return sql.load(Path(path).stem, ".".join(Path(path).parts[:-1]))


def bare_states(text: str) -> list[str]:
    code = re.sub(r"--[^\n]*", "", text)
    moves = [number for move in MOVE.findall(code) for number in re.findall(r"(?<!\w)\d+\b", move)]
    return [match[0] for match in BARE.finditer(code)] + moves


@pytest.mark.parametrize("path", statements())
def test_every_state_name_in_a_statement_is_replaced(path: str) -> None:
    assert not re.search(r"\{\{(?![a-z_]+\}\})", loaded(path))


@pytest.mark.parametrize("path", statements())
def test_no_statement_contains_a_state_as_a_literal_number(path: str) -> None:
    assert bare_states(read(path)) == []


@pytest.mark.parametrize(
    "text",
    [
        "WHERE server_state = 4",
        "AND r.server_state * 10 + r.outcome = 40",
        "WHERE validate_state IN (1, 2)",
        "WHERE was_state <> 40",
        "SELECT 5 AS server_state",
        "SELECT 1 AS axis",
        "INSERT INTO ledger_entry (at, axis) SELECT now(), 1 FROM sent",
    ],
)
def test_literal_state_number_is_detected(text: str) -> None:
    assert bare_states(text)


def test_state_name_is_replaced_by_its_number() -> None:
    assert sql.with_numbers("a = {{ServerState.OVER}} -- {{ErrorMask.EXPIRED}}") == "a = 5 -- 64"


@pytest.mark.parametrize("name", ["ServerState.GONE", "State.OVER", "R.UNSENT", "OVER"])
def test_unknown_state_name_is_reported_when_the_statement_is_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = f"misnamed_{name.replace('.', '_').lower()}"
    (tmp_path / package).mkdir()
    (tmp_path / package / f"{package}.sql").write_text(f"SELECT {{{{{name}}}}}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(sql.UnknownConstant, match=rf"'{package}' .* '{name}'"):
        sql.load(package, package)


def test_identifiers_of_the_call_are_inserted_into_the_statement() -> None:
    text = "SELECT id FROM {{table}} WHERE {{time}} < now()"
    assert (
        sql._bare(text, table="host", time="seen_at") == "SELECT id FROM host WHERE seen_at < now()"
    )
    with pytest.raises(KeyError, match="table"):
        sql._bare(text, time="seen_at")
