"""Finds rows of tables of any size by indexes, for the searches of the admin.

Theory of operation.  PostgreSQL would read a large table in the order of the list until it has
found a page of matches.  So the ids of the first matches are read first, in the order of the index
that finds them, and the list has the rows with these ids.  Prefixes are ranges (`sql.prefixes`),
which are correct in the collation C that this project's databases have (docs/database.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import F, Lookup, Model, Q, QuerySet
from django.db.models.expressions import Combinable

from scheduler.admin.lists.sorting import LOWER_NAME
from scheduler.models import Account, Batch, File, Host, Team
from scheduler.sql.prefixes import begins_with

#: Maximum number of rows that a text finds by an index.
MAX_MATCHES: Final = 1000
#: Maximum number of accounts, hosts and other rows whose own rows a text finds.
MAX_OWNERS: Final = 100


@dataclass(frozen=True, slots=True)
class Prefix:
    """An indexed column or expression, by which a search finds the beginnings of texts.

    With `is_lower`, the texts of the index are in lower case.  `only` is the condition of a partial
    index.
    """

    key: str | Combinable
    is_lower: bool = False
    only: Q = field(default_factory=Q)


NAME: Final = Prefix("name")
NAME_IN_ANY_CASE: Final = Prefix(LOWER_NAME, is_lower=True)
_ADDRESS: Final = Prefix("email", is_lower=True)


class _OneOf(Lookup):
    """The condition that an integer column has one of the values of a list."""

    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        left, params = self.process_lhs(compiler, connection)
        return f"{left} = ANY(%s::bigint[])", [*params, self.rhs]


def beginning(
    rows: QuerySet[Any], prefix: Prefix, term: str, *, at_most: int | None = None
) -> list[Any]:
    """Return the ids of the first rows, by the key of `prefix`, that begin with the term.

    At most `at_most` ids, or by default `MAX_MATCHES`.
    """
    text = term.lower() if prefix.is_lower else term
    key: Any = F(prefix.key) if isinstance(prefix.key, str) else prefix.key
    keyed = rows.filter(prefix.only).alias(search_key=key)
    matches = keyed.filter(begins_with("search_key", text))
    return list(
        matches.order_by("search_key").values_list("pk", flat=True)[: at_most or MAX_MATCHES]
    )


def having(
    rows: QuerySet[Any], column: str, values: Sequence[Any], *, leading: Q | None = None
) -> Q | None:
    """Return the condition for the rows with one of the values; None if there are no such rows.

    The column has an index.  `leading` is a condition on the columns before it in the index.  With
    more than `MAX_MATCHES` rows, returns the plain condition: a scan in list order soon fills a
    page.
    """
    condition = Q(**{f"{column}__in": values}) & (leading or Q())
    matches = rows.filter(condition).order_by(column).values_list("pk", flat=True)
    ids = list(matches[: MAX_MATCHES + 1])
    if not ids:
        return None
    return one_of(ids) if len(ids) <= MAX_MATCHES else condition


def one_of(ids: Sequence[int]) -> Q:
    """Return the condition for the rows with these ids, as one parameter.

    With a parameter for each id, as for `pk__in`, Django and psycopg take milliseconds.
    """
    condition: Lookup[Any] = _OneOf(F("pk"), list(ids))
    return Q(condition)


def accounts(term: str) -> list[int]:
    """Return the ids of accounts whose address or name begins with the term, in any case."""
    return _owners(Account.objects.all(), (_ADDRESS, NAME_IN_ANY_CASE), term)


def batches(term: str) -> list[int]:
    return _owners(Batch.objects.all(), (NAME,), term)


def files(term: str) -> list[int]:
    return _owners(File.objects.all(), (NAME,), term)


def hosts(term: str) -> list[int]:
    return _owners(Host.objects.all(), (Prefix("domain_name"),), term)


def teams(term: str) -> list[int]:
    return _owners(Team.objects.all(), (NAME_IN_ANY_CASE,), term)


def _owners(rows: QuerySet[Model], prefixes: Iterable[Prefix], term: str) -> list[int]:
    ids = (id_ for each in prefixes for id_ in beginning(rows, each, term, at_most=MAX_OWNERS))
    return list(dict.fromkeys(ids))
