"""Reads leaderboards of accounts, computers and teams in pages of bounded cost.

Theory of operation.  An index delivers the rows of a board in its order, and a page begins below
the last row of the previous page.  The consents of accounts are in the condition of their index.
The owners of computers, and the rows that an app's board lists, are joined: such a page reads at
most `READ_PER_LINE` rows per line.  If too few of them may be shown, the page is short, and the
next page begins below its last row, which may be hidden: therefore positions leave this module only
sealed.  Places are counted up to `MAX_PLACE`.

A filter needs an index for each of the two orders, which every grant of credit writes.  Teams have
such indexes by type: teams without a type, which are most of them, have no entry there.  A board of
computers by platform would need two more entries for every computer, and does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from django.db.models import BooleanField, Count, ExpressionWrapper, F, Model, Q, QuerySet, Value
from django.db.models.fields.tuple_lookups import Tuple, TupleGreaterThan, TupleLessThan

from scheduler import sealed_positions
from scheduler.credit.rules.board_positions import Order, Position, read_credit
from scheduler.models import (
    Account,
    AccountAppCredit,
    App,
    Host,
    HostAppCredit,
    Team,
    TeamAppCredit,
)
from scheduler.people import sharing

#: The highest place that is counted: a count reads an entry of an index for each place.
MAX_PLACE: Final = 5_000
#: Rows that a page with joined consents reads for each of its lines.
READ_PER_LINE: Final = 4
#: Maximum number of apps that have a board.
MAX_APPS: Final = 50
#: The types of teams that have a board; the index has no entry for teams without a type.
TEAM_KINDS: Final = tuple(kind for kind in Team.Kind if kind is not Team.Kind.NONE)
_ACCOUNT_COLUMNS: Final = ("id", "name", "country", "team__id", "team__name")
_HOST_COLUMNS: Final = ("id", "p_vendor", "p_model", "p_ncpus", "os_name", "account__id")
_CREDIT: Final = ("total_credit", "expavg_credit")
_APP_CREDIT: Final = ("total", "expavg")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a board: an account, computer or team, and its credit.

    `place` is None beyond `MAX_PLACE`.  The owner of a computer may be named only if `names_owner`.
    """

    row: Any
    place: int | None
    total_credit: Decimal
    recent_credit: float
    names_owner: bool = False


@dataclass(frozen=True, slots=True)
class BoardPage:
    """A page of a board; `next` is the sealed position of the next page, None on the last page."""

    lines: tuple[Line, ...]
    next: str | None


@dataclass(frozen=True)
class Board:
    """The rows of a board in one order, and the names of its columns.

    Sealed positions are valid for boards of the same `name` and order.  Rows have the annotation
    `is_shown`.  If it depends on another table, `near` has the rows without this table, and is read
    first.  `joins` is the lookup from a row to the row that is listed; it is empty if these are the
    same.
    """

    name: str
    rows: QuerySet[Any]
    order: Order
    total: str = "total_credit"
    recent: str = "expavg_credit"
    id: str = "id"
    joins: str = ""
    near: QuerySet[Any] | None = None

    @property
    def credit(self) -> str:
        """The column that sorts the board."""
        return self.total if self.order is Order.TOTAL else self.recent


def account_board(order: Order, app: App | None = None) -> Board:
    """Return the board of the accounts that share their statistics, for all apps or one."""
    if app is None:
        accounts = Account.objects.filter(sharing.shares()).annotate(is_shown=Value(True))
        rows = accounts.select_related("team").only(*_ACCOUNT_COLUMNS, *_CREDIT)
        return Board("accounts", rows, order)
    near = AccountAppCredit.objects.filter(app=app)
    columns = [f"account__{name}" for name in _ACCOUNT_COLUMNS]
    return Board(
        f"accounts by app {app.pk}",
        AccountAppCredit.objects.select_related("account__team")
        .annotate(is_shown=_condition(sharing.shares("account")))
        .only(*columns, *_APP_CREDIT),
        order,
        total="total",
        recent="expavg",
        id="account_id",
        joins="account",
        near=near,
    )


def computer_board(order: Order, app: App | None = None) -> Board:
    """Return the board of computers whose owners share their statistics, for all apps or one."""
    columns = (*_HOST_COLUMNS, "account__name")
    if app is None:
        rows = Host.objects.select_related("account").annotate(
            is_shown=_condition(sharing.shares("account")),
            names_owner=_condition(sharing.shown_hosts()),
        )
        near = Host.objects.filter(merged_into__isnull=True)
        return Board("computers", rows.only(*columns, *_CREDIT), order, near=near)
    rows_of_app = HostAppCredit.objects.select_related("host__account").annotate(
        is_shown=_condition(sharing.shares("host__account") & Q(host__merged_into__isnull=True)),
        names_owner=_condition(sharing.shown_hosts("host")),
    )
    return Board(
        f"computers by app {app.pk}",
        rows_of_app.only(*(f"host__{name}" for name in columns), *_APP_CREDIT),
        order,
        total="total",
        recent="expavg",
        id="host_id",
        joins="host",
        near=HostAppCredit.objects.filter(app=app),
    )


def team_board(order: Order, app: App | None = None, kind: Team.Kind | None = None) -> Board:
    """Return the board of the teams, for all apps or one, or of a type of `TEAM_KINDS`.

    With an app, `kind` is ignored: no index has both.
    """
    columns = ("id", "name", "country")
    if app is None:
        rows = Team.objects.annotate(is_shown=Value(True)).only(*columns, *_CREDIT)
        if kind is None:
            return Board("teams", rows, order)
        return Board(f"teams of type {kind.value}", rows.filter(kind=kind), order)
    rows_of_app = TeamAppCredit.objects.select_related("team").annotate(
        is_shown=_condition(Q(team__deleted_at__isnull=True))
    )
    return Board(
        f"teams by app {app.pk}",
        rows_of_app.only(*(f"team__{name}" for name in columns), *_APP_CREDIT),
        order,
        total="total",
        recent="expavg",
        id="team_id",
        joins="team",
        near=TeamAppCredit.objects.filter(app=app),
    )


def apps() -> list[App]:
    """Return at most `MAX_APPS` apps that have a board, by name."""
    columns = App.objects.filter(deprecated=False).only("name", "user_friendly_name")
    return list(columns.order_by("name")[:MAX_APPS])


def read(board: Board, *, below: str | None, count: int) -> BoardPage:
    """Return at most `count` lines below a sealed position, or the first lines; two statements.

    A page can be shorter than `count` although lines follow; see `READ_PER_LINE`.  Raises
    `BadPosition` if `below` is not a position of this board.
    """
    condition = Q()
    if below is not None:
        position = _unseal(board, below)
        condition = Q(TupleLessThan(_key(board), (position.credit, position.id)))
    max_read = (count if board.near is None else READ_PER_LINE * count) + 1
    rows = _nearest(board, condition, (f"-{board.credit}", f"-{board.id}"), max_read)
    read_rows = list(rows)
    shown = [row for row in read_rows[: max_read - 1] if row.is_shown]
    last = None
    if len(shown) > count:
        last = shown[count - 1]
    elif len(read_rows) == max_read:
        last = read_rows[-2]
    first = _place(board, _position(board, shown[0])) if shown and below is not None else 1
    lines = tuple(
        _line(board, row, None if first is None or first + offset > MAX_PLACE else first + offset)
        for offset, row in enumerate(shown[:count])
    )
    return BoardPage(lines, None if last is None else _seal(board, _position(board, last)))


def find(board: Board, row_id: int) -> tuple[Line, str] | None:
    """Return the line of an account, computer or team, and the sealed position above it.

    A page below this position begins with the line.  Returns None if the row is not on the board.
    """
    row = _nearest(board, Q(**{board.id: row_id}), (board.id,), 1).first()
    if row is None or not row.is_shown:
        return None
    own = _position(board, row)
    above = _seal(board, Position(own.credit, own.id + 1))
    return _line(board, row, _place(board, own)), above


def _condition(condition: Q) -> ExpressionWrapper[Q]:
    return ExpressionWrapper(condition, output_field=BooleanField())


def _nearest(board: Board, condition: Q, order: tuple[str, ...], count: int) -> QuerySet[Any]:
    """Return the first `count` rows of a board that match, of which some may not be shown."""
    condition &= Q(**{f"{board.credit}__gt": 0})
    if board.near is None:
        return board.rows.filter(condition).order_by(*order)[:count]
    # With a join in the same SELECT, the planner could read the whole table.
    near = board.near.filter(condition).order_by(*order)[:count]
    return board.rows.filter(pk__in=near.values("pk")).order_by(*order)


def _key(board: Board) -> Tuple:
    return Tuple(F(board.credit), F(board.id))


def _position(board: Board, row: Model) -> Position:
    return Position(getattr(row, board.credit), getattr(row, board.id))


def _seal(board: Board, position: Position) -> str:
    return sealed_positions.seal(_list_name(board), position.credit, position.id)


def _unseal(board: Board, token: str) -> Position:
    credit, row_id = sealed_positions.unseal(_list_name(board), token)
    return Position(read_credit(credit, board.order), row_id)


def _list_name(board: Board) -> str:
    return f"leaderboard of {board.name}, {board.order.value}"


def _place(board: Board, position: Position) -> int | None:
    """Return the place of a shown row: one more than the shown rows above it."""
    above = Q(TupleGreaterThan(_key(board), (position.credit, position.id)))
    # Without an order, a scan of the table could look for the rows.
    rows = _nearest(board, above, (board.credit, board.id), MAX_PLACE)
    counted = rows.aggregate(read=Count("pk"), shown=Count("pk", filter=Q(is_shown=True)))
    return None if counted["read"] == MAX_PLACE else int(counted["shown"]) + 1


def _line(board: Board, row: Model, place: int | None) -> Line:
    return Line(
        row=getattr(row, board.joins) if board.joins else row,
        place=place,
        total_credit=getattr(row, board.total),
        recent_credit=getattr(row, board.recent),
        names_owner=getattr(row, "names_owner", False),
    )
