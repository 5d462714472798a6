"""Sorts the lists of the admin by columns for which an index delivers the order.

A list of millions of rows is quick only in the order of an index.  So a column of a large table
sorts only if the class of its page names a `Sort`; the tables with few rows in every project sort
by each of their columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.db.models import F, Lookup, Q, QuerySet
from django.db.models.expressions import Combinable, OrderBy, RawSQL
from django.db.models.functions import Collate, Lower
from django.db.models.lookups import Exact, GreaterThan
from django.http import HttpRequest

#: Maximum number of digits of the number of a column in the query string.
_MAX_DIGITS: Final = 3


@dataclass(frozen=True, slots=True)
class Sort:
    """The keys of an index, in ascending order.

    `only` is the condition of a partial index: other rows are not listed in this order, and `note`
    above the list states it.  The condition needs literals instead of parameters (`is_number`,
    `is_positive`), because a plan for any parameter does not use a partial index.
    """

    keys: tuple[str | Combinable, ...]
    only: Q | None = None
    note: str = ""

    def ordering(self, *, descending: bool) -> list[str | OrderBy]:
        """Return the keys for `order_by`; PostgreSQL reads the index backwards for descending."""
        return [_ordered(key, descending=descending) for key in self.keys]


#: Ids ascend with the time of creation, as rows of these tables are created with the present time.
BY_ID: Final = Sort(("id",))
#: The expression of the indexes of names, which find the beginnings of names in any case.
LOWER_NAME: Final = Collate(Lower("name"), "C")


def is_number(column: str, number: int) -> Q:
    """Return the condition that a column has this value, as a literal in the statement."""
    return Q(Exact(F(column), _literal(number)))


def is_positive(column: str) -> Q:
    """Return the condition that a column is greater than 0, as a literal in the statement."""
    condition: Lookup[Any] = GreaterThan(F(column), _literal(0))
    return Q(condition)


def _literal(number: int) -> RawSQL:
    return RawSQL(str(int(number)), ())  # noqa: S611  a number of this code


def _ordered(key: str | Combinable, *, descending: bool) -> str | OrderBy:
    if isinstance(key, str):
        return f"-{key}" if descending else key
    expression: Any = key
    ordered: OrderBy = expression.desc() if descending else expression.asc()
    return ordered


class ChosenSort(NamedTuple):
    """The column that sorts the list, by its place in `list_display`."""

    place: int
    sort: Sort
    descending: bool


class SortedChangeList(ChangeList):
    """A list that is sorted by one column at most, of those for which its page has a `Sort`.

    Django's own list would sort by every column that the query string names.
    """

    model_admin: Any

    @property
    def sort_note(self) -> str:
        """The text about rows that are left out in this order, or an empty text."""
        chosen = self._chosen()
        return "" if chosen is None else chosen.sort.note

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Return the order of the chosen column, or the default of the page."""
        chosen = self._chosen()
        if chosen is None:
            return list(self.model_admin.get_ordering(request))
        return chosen.sort.ordering(descending=chosen.descending)

    def get_ordering_field_columns(self) -> dict[int, Any]:
        """Return the place of the column that sorts the list, and its direction."""
        chosen = self._chosen() or self._default()
        if chosen is None:
            return {}
        return {chosen.place: "desc" if chosen.descending else "asc"}

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        """Return the rows; those of the partial index if the chosen order has one."""
        rows: QuerySet[Any] = super().get_queryset(request, exclude_parameters)
        chosen = self._chosen()
        if chosen is None or chosen.sort.only is None:
            return rows
        return rows.filter(chosen.sort.only)

    def _chosen(self) -> ChosenSort | None:
        text = str(self.params.get(ORDER_VAR, "")).partition(".")[0]
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS):
            return None
        place = int(digits)
        if place >= len(self.list_display):
            return None
        sort = self.model_admin.sort_of(self.list_display[place])
        return None if sort is None else ChosenSort(place, sort, text.startswith("-"))

    def _default(self) -> ChosenSort | None:
        """Return the column whose order is the default of the page, if there is one."""
        first = next(iter(self.model_admin.ordering), "")
        for place, column in enumerate(self.list_display):
            sort = self.model_admin.sort_of(column)
            if sort is not None and sort.keys[0] == first.removeprefix("-"):
                return ChosenSort(place, sort, first.startswith("-"))
        return None
