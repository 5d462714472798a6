"""Reads accounts, teams and hosts for statistics sites, as streams of rows.

An account that does not share its statistics is left out, together with its hosts, and must not be
named as the founder of a team.  Rows are read through a server-side cursor, so that memory use does
not grow with the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any
from xml.sax.saxutils import escape

from django.db.models import F, QuerySet, Sum

from scheduler.boinc.wire.documents import INVALID
from scheduler.models import (
    Account,
    AccountBadge,
    App,
    Badge,
    Host,
    StatisticsDeletion,
    Team,
    TeamBadge,
)
from scheduler.people import sharing

CHUNK = 2000

Row = Mapping[str, Any]


def element_text(value: object) -> str:
    """Return a value as the content of an element, without characters that XML forbids."""
    return escape(INVALID.sub("", str(value)))


def accounts() -> Iterator[Row]:
    """Yield a row for each account with credit, ordered by id."""
    return _stream(
        Account.objects.filter(sharing.shares(), total_credit__gt=0),
        "id name created_at total_credit expavg_credit expavg_at cross_project_id email country url"
        " team_id",
    )


def teams() -> Iterator[Row]:
    """Yield a row for each team with credit, ordered by id.

    `founder_shares` is true if the founder's account is active and shares its statistics.  The
    founder may be named only if it is true.
    """
    return _stream(
        Team.objects.filter(total_credit__gt=0).annotate(
            founder_name=F("founder__name"),
            founder_shares=sharing.shares("founder"),
        ),
        "id kind name founder_id founder_name founder_shares total_credit expavg_credit expavg_at"
        " created_at url description country",
    )


def hosts() -> Iterator[Row]:
    """Yield a row for each host with credit, ordered by id.

    The owner may be named only if `names_owner` is true.
    """
    return _stream(
        Host.objects.filter(
            sharing.shares("account"), merged_into__isnull=True, total_credit__gt=0
        ).annotate(names_owner=sharing.shown_hosts()),
        "id account_id names_owner total_credit expavg_credit expavg_at p_vendor p_model os_name"
        " os_version capabilities created_at rpc_at timezone p_ncpus p_fpops p_iops p_membw"
        " m_nbytes m_cache m_swap d_total d_free n_bwup n_bwdown turnaround_seconds host_cpid",
    )


def badges() -> list[Badge]:
    """Return the published badges, ordered by id."""
    return list(Badge.objects.filter(is_published=True).order_by("pk"))


def account_badges() -> Iterator[Row]:
    """Yield the awards of published badges to the accounts of `accounts`, ordered by id."""
    awards = AccountBadge.objects.filter(
        sharing.shares("account"), account__total_credit__gt=0, badge__is_published=True
    )
    return _stream(awards, "account_id badge_id created_at")


def team_badges() -> Iterator[Row]:
    """Yield the awards of published badges to the teams of `teams`, ordered by id."""
    awards = TeamBadge.objects.filter(team__total_credit__gt=0, badge__is_published=True)
    return _stream(awards, "team_id badge_id created_at")


def deletions(kind: StatisticsDeletion.Kind) -> Iterator[Row]:
    """Yield the id and the public id of accounts or hosts that sites must delete, by id."""
    rows = StatisticsDeletion.objects.filter(kind=kind).order_by("number")
    return rows.values("number", "cpid").iterator(chunk_size=CHUNK)


def _stream(rows: QuerySet[Any], columns: str) -> Iterator[Row]:
    return rows.order_by("pk").values(*columns.split()).iterator(chunk_size=CHUNK)


def applications() -> list[str]:
    """Return the names of all apps, in the order of their creation."""
    return list(App.objects.order_by("pk").values_list("name", flat=True))


def total_credit() -> Decimal:
    """Return the total credit of all accounts."""
    return Account.objects.aggregate(sum=Sum("total_credit"))["sum"] or Decimal(0)
