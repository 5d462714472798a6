"""PostgreSQL reads a list that a statement contains as the values of the list."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as some

from scheduler import sql

pytestmark = pytest.mark.django_db

#: Strings that PostgreSQL's text can hold.
TEXT = some.text(some.characters(exclude_characters="\0", exclude_categories=["Cs"]))


def read_back(values: list[Any], kind: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT %s::{kind}[]", [sql._written(values)])
        (found,) = cursor.fetchone()
    return found


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "text"),
        ([1, -2, 2**40, None], "bigint"),
        ([0.1, -1e300, 1e-9, None, float("inf")], "double precision"),
        ([True, False], "boolean"),
        (["", "NULL", "null", "{}", "a,b", '"', "\\", '\\"', " x ", "\n\t", "ü€😀"], "text"),
        ([None, "a"], "text"),
    ],
)
def test_a_list_is_read_as_it_was_written(values: list[Any], kind: str) -> None:
    assert read_back(values, kind) == values


@given(some.lists(TEXT, max_size=4))
def test_any_texts_are_read_as_they_were_written(values: list[str]) -> None:
    assert read_back(values, "text") == values


def test_what_is_no_list_of_numbers_or_texts_is_left_to_psycopg() -> None:
    for value in ((1, 2), [[1]], ["a", 1], "abc", 5, None):
        assert sql._written(value) is value


def test_a_statement_loses_its_comments_and_nothing_else() -> None:
    assert sql._bare("-- Reads. \nSELECT ' -' || x # -1  -- why\nFROM t") == (
        "SELECT ' -' || x # -1 FROM t"
    )
