"""Lists teams and the members of a team, a page at a time.

Theory of operation.  A page begins after the last row of the previous page, by the sort key and the
id, so its cost does not depend on its position.  Positions are sealed: a reader who could choose
them could compare the names and the credit of members who are not shown.  Indexes deliver the teams
in each order.  A search sorts at most `MAX_MATCHES` teams.  The members of a team are sorted
without an index by credit, which would have to change with every grant; therefore a list contains
only the first `MAX_MEMBERS` active members by id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, Generic, TypeVar

from django.db.models import F, Func, Model, QuerySet, TextField, Value
from django.db.models.functions import Collate, Lower
from django.db.models.lookups import GreaterThan, LessThan

from scheduler import sealed_positions
from scheduler.models import Account, Team
from scheduler.people import sharing
from scheduler.sql.prefixes import begins_with

#: Maximum number of teams that a search sorts.
MAX_MATCHES: Final = 1000
#: Maximum number of active members that are read for a list; those with the lowest ids.
MAX_MEMBERS: Final = 10_000
_LOWER_NAME: Final = Collate(Lower("name"), "C")
#: Sort keys of teams; a leading "-" in an order reverses it.
TEAM_ORDERS: Final[Mapping[str, F | Collate]] = {
    "name": _LOWER_NAME,
    "recent": F("expavg_credit"),
    "total": F("total_credit"),
    # Ids ascend with the time of creation.
    "created": F("pk"),
}
#: Reads the text of a sort key.
_KEY_TYPES: Final[Mapping[str, Callable[[str], object]]] = {
    "name": str,
    "recent": float,
    "total": Decimal,
    "created": int,
}
#: Sort keys of members.
MEMBER_ORDERS: Final = TEAM_ORDERS
_MEMBER_COLUMNS: Final = ("name", "country", "share_statistics", "total_credit", "expavg_credit")
Row = TypeVar("Row", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[Row]):
    """A page of a list; `next` is the sealed position of the next page, None on the last page."""

    rows: tuple[Row, ...]
    next: str | None


def teams(*, prefix: str = "", order: str, after: str | None = None, count: int) -> Page[Team]:
    """Return at most `count` teams whose names begin with `prefix`, in any case.

    `order` is a key of `TEAM_ORDERS`, with "-" for the descending order.  `after` is the position
    in `next` of the previous page; raises `BadPosition` if it is not one of this list and order.
    """
    rows = Team.objects.defer("description")
    if "\0" in prefix:
        rows = rows.none()
    elif prefix:
        matches = Team.objects.alias(key=_LOWER_NAME).filter(begins_with("key", prefix.lower()))
        rows = rows.filter(pk__in=matches.order_by("key", "pk")[:MAX_MATCHES].values("pk"))
    return sorted_page(rows, "teams", order=order, after=after, count=count)


def members(
    team_id: int, *, all_active: bool = False, order: str, after: str | None = None, count: int
) -> Page[Account]:
    """Return at most `count` members of a team who share their statistics.

    With `all_active`, which only the founder and the administrators may use, also the other active
    members.  `order` is one of `MEMBER_ORDERS`; `after` is as for `teams`.
    """
    rows = _members(team_id, all_active=all_active)
    rows = rows.only(*_MEMBER_COLUMNS, "created_at")
    return sorted_page(rows, f"members of team {team_id}", order=order, after=after, count=count)


def count_members(team_id: int, *, all_active: bool = False) -> int:
    """Return the number of members that `members` lists in all."""
    return _members(team_id, all_active=all_active).count()


def member(team_id: int, account_id: int) -> Account | None:
    """Return an active member of a team, for its founder and administrators, or None."""
    rows = Account.objects.filter(pk=account_id, team_id=team_id, is_active=True)
    return rows.only(*_MEMBER_COLUMNS, "created_at").first()


def _members(team_id: int, *, all_active: bool) -> QuerySet[Account]:
    active = Account.objects.filter(team_id=team_id, is_active=True).order_by("pk")
    rows = Account.objects.filter(pk__in=active[:MAX_MEMBERS].values("pk"))
    return rows if all_active else rows.filter(sharing.shares())


def sorted_page(
    rows: QuerySet[Row], name: str, *, order: str, after: str | None, count: int
) -> Page[Row]:
    """Return at most `count` rows of teams or accounts in an order of `TEAM_ORDERS`.

    `name` is that of the list, for which alone its positions are valid.  `after` is as for `teams`.
    """
    column = order.removeprefix("-")
    key, list_name = TEAM_ORDERS[column], f"{name}, {order}"
    if after is not None:
        text, row_id = sealed_positions.unseal(list_name, after)
        rows = rows.filter(_beyond(key, _KEY_TYPES[column](text), row_id, order))
    first, second = (key.desc(), "-pk") if order.startswith("-") else (key.asc(), "pk")
    page_rows = list(rows.annotate(sort_key=key).order_by(first, second)[: count + 1])
    if len(page_rows) <= count or not count:
        return Page(tuple(page_rows[:count]), None)
    last: Any = page_rows[count - 1]
    return Page(tuple(page_rows[:count]), sealed_positions.seal(list_name, last.sort_key, last.pk))


def _beyond(key: F | Collate, value: object, row_id: int, order: str) -> GreaterThan | LessThan:
    """Return the condition for the rows after a row, as a comparison that an index supports."""
    compare = LessThan if order.startswith("-") else GreaterThan
    return compare(_row(key, F("pk")), _row(Value(value), Value(row_id)))


def _row(*parts: Any) -> Func:
    # The type is not used: each side is a row, and PostgreSQL compares its parts.
    return Func(*parts, function="ROW", output_field=TextField())
