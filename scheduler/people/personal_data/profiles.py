"""Reads what everybody may see of accounts that share their statistics."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from django.db.models import QuerySet
from django.db.models.functions import Collate, Lower

from scheduler.models import Account
from scheduler.people import sharing
from scheduler.people.teams.team_lists import Page, sorted_page
from scheduler.sql.prefixes import begins_with

#: Maximum number of accounts that a search returns.
MAX_FOUND: Final = 100
#: Maximum number of accounts that a search sorts, so that a common prefix is not expensive.
MAX_SORTED: Final = 1000
MIN_PREFIX: Final = 3


class Order(StrEnum):
    """The order of accounts that a search returns; each value is a parameter of BOINC's page."""

    NEWEST = "date"
    AVERAGE_CREDIT = "rac"
    TOTAL_CREDIT = "total"


_ORDERINGS: Final = {
    Order.NEWEST: "-pk",
    Order.AVERAGE_CREDIT: "-expavg_credit",
    Order.TOTAL_CREDIT: "-total_credit",
}


def find(account_id: int) -> Account | None:
    """Return the account if it is active and shares its statistics, else None."""
    return _shared().filter(pk=account_id).first()


def search(
    prefix: str, *, country: str = "", in_team: bool | None = None, order: Order = Order.NEWEST
) -> list[Account]:
    """Return at most `MAX_FOUND` accounts whose names begin with `prefix`, in any case.

    `country` "" and `in_team` None do not limit the search.  Returns nothing for a prefix shorter
    than `MIN_PREFIX`.  If more than `MAX_SORTED` accounts match, the first of them by name are
    sorted.  The accounts' teams are read with them.
    """
    matches = _matches(prefix, country=country, in_team=in_team)
    return list(matches.order_by(_ORDERINGS[order], "pk")[:MAX_FOUND])


def search_page(
    prefix: str,
    *,
    country: str = "",
    in_team: bool | None = None,
    order: str,
    after: str | None = None,
    count: int,
) -> Page[Account]:
    """Return at most `count` of the accounts that `search` sorts.

    `order` is a key of `team_lists.TEAM_ORDERS`, with "-" for the descending order.  `after` is the
    position in `next` of the previous page; raises `BadPosition` if it is not one of this order.
    """
    matches = _matches(prefix, country=country, in_team=in_team)
    return sorted_page(matches, "accounts", order=order, after=after, count=count)


def _matches(prefix: str, *, country: str, in_team: bool | None) -> QuerySet[Account]:
    """Return at most `MAX_SORTED` accounts, the first by name, with their teams."""
    if len(prefix) < MIN_PREFIX or "\0" in prefix + country:
        return Account.objects.none()
    accounts = _shared().alias(lower_name=Collate(Lower("name"), "C"))
    accounts = accounts.filter(begins_with("lower_name", prefix.lower()))
    if country:
        accounts = accounts.filter(country=country)
    if in_team is not None:
        accounts = accounts.filter(team__isnull=not in_team)
    # As a list: with a subquery, PostgreSQL may read all accounts in the order of their ids.
    first = list(accounts.order_by("lower_name")[:MAX_SORTED].values_list("pk", flat=True))
    return Account.objects.filter(pk__in=first).select_related("team")


def _shared() -> QuerySet[Account]:
    return Account.objects.filter(sharing.shares())
