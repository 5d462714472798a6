"""Sorts the bounded tables of pages in memory, by the column in the query string."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from django.http import HttpRequest

#: The parameter of the query string: the name of a column, after "-" if it is descending.
PARAMETER: Final = "order"
Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column that sorts a table: its name in the query string, its title, and the key of a row.

    Rows whose key is None come last.  A column of numbers is first sorted descending.
    """

    name: str
    title: str
    key: Callable[[Row], Any]
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column; `direction` is that of ARIA, or empty if it does not sort the table."""

    title: str
    query: str
    is_number: bool
    direction: str


def ordered(
    request: HttpRequest,
    rows: Iterable[Row],
    columns: Sequence[Column[Row]],
    *,
    default: str = "",
) -> tuple[list[Row], list[Head]]:
    """Return the rows in the order of the query string, and the heads of the columns.

    The rows are in the order `default`, and keep it without a known column in the query string.
    """
    order = request.GET.get(PARAMETER, "")
    chosen = next((each for each in columns if each.name == order.removeprefix("-")), None)
    sorted_rows = list(rows)
    if chosen is None:
        order = default
    else:
        sorted_rows = _sorted(sorted_rows, chosen.key, descending=order.startswith("-"))
    return sorted_rows, [_head(request, column, order) for column in columns]


def parameters(request: HttpRequest) -> dict[str, str]:
    """Return the parameter of the order, for links that keep it; empty without an order."""
    order = request.GET.get(PARAMETER, "")
    return {PARAMETER: order} if order else {}


def _sorted(rows: list[Row], key: Callable[[Row], Any], *, descending: bool) -> list[Row]:
    with_key = [row for row in rows if key(row) is not None]
    without_key = [row for row in rows if key(row) is None]
    return [*sorted(with_key, key=key, reverse=descending), *without_key]


def _head(request: HttpRequest, column: Column[Any], order: str) -> Head:
    is_descending = order.startswith("-")
    is_chosen = order.removeprefix("-") == column.name
    next_is_descending = not is_descending if is_chosen else column.is_number
    query = request.GET.copy()
    query[PARAMETER] = f"-{column.name}" if next_is_descending else column.name
    direction = ("descending" if is_descending else "ascending") if is_chosen else ""
    return Head(column.title, query.urlencode(), column.is_number, direction)
