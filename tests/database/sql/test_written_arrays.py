"""PostgreSQL reads a list that a statement contains as the values of the list."""

from __future__ import annotations

from datetime import timedelta
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
def test_a_list_is_read_back_unchanged(values: list[Any], kind: str) -> None:
    assert read_back(values, kind) == values


@given(some.lists(TEXT, max_size=4))
def test_arbitrary_strings_are_read_back_unchanged(values: list[str]) -> None:
    assert read_back(values, "text") == values


@given(some.lists(some.timedeltas(), max_size=4))
def test_arbitrary_durations_are_read_back_unchanged(values: list[timedelta]) -> None:
    assert read_back(values, "interval") == values


def test_values_that_are_not_flat_uniform_lists_are_passed_to_psycopg_unchanged() -> None:
    for value in ((1, 2), [[1]], ["a", 1], [timedelta(), None], "abc", 5, None):
        assert sql._written(value) is value


def test_only_comments_and_line_breaks_are_removed_from_a_statement() -> None:
    assert sql._bare("-- Reads. \nSELECT ' -' || x # -1  -- why\nFROM t") == (
        "SELECT ' -' || x # -1 FROM t"
    )
