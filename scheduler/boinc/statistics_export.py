"""What statistics sites are told of accounts, teams and hosts, as streams of rows.

Accounts that do not share their statistics are left out, with their hosts and as founders.  Rows
come by a cursor of the server's, so that memory does not grow with the project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from django.db.models import F, Q, Sum

from scheduler.models import Account, App, Host, Team

CHUNK = 2000

Row = Mapping[str, Any]


def accounts() -> Iterator[Row]:
    """Accounts with credit, in ascending id."""
    rows = Account.objects.filter(is_active=True, share_statistics=True, total_credit__gt=0)
    yield from (
        rows.order_by("pk")
        .values(
            "id",
            "name",
            "created_at",
            "total_credit",
            "expavg_credit",
            "expavg_at",
            "cross_project_id",
            "email",
            "country",
            "url",
            "team_id",
        )
        .iterator(chunk_size=CHUNK)
    )


def teams() -> Iterator[Row]:
    """Teams with credit, in ascending id; `founder_shares` says whether he may be named."""
    rows = Team.objects.filter(total_credit__gt=0).annotate(
        founder_name=F("founder__name"),
        founder_shares=Q(founder__is_active=True) & Q(founder__share_statistics=True),
    )
    yield from (
        rows.order_by("pk")
        .values(
            "id",
            "name",
            "founder_id",
            "founder_name",
            "founder_shares",
            "total_credit",
            "expavg_credit",
            "expavg_at",
            "created_at",
            "url",
            "description",
            "country",
        )
        .iterator(chunk_size=CHUNK)
    )


def hosts() -> Iterator[Row]:
    """Hosts with credit, in ascending id; `show_hosts` says whether the owner may be named."""
    rows = Host.objects.filter(
        total_credit__gt=0, account__is_active=True, account__share_statistics=True
    ).annotate(show_hosts=F("account__show_hosts"))
    yield from (
        rows.order_by("pk")
        .values(
            "id",
            "account_id",
            "show_hosts",
            "total_credit",
            "expavg_credit",
            "expavg_at",
            "p_vendor",
            "p_model",
            "os_name",
            "os_version",
            "capabilities",
            "created_at",
            "rpc_at",
            "timezone",
            "p_ncpus",
            "p_fpops",
            "p_iops",
            "p_membw",
            "m_nbytes",
            "m_cache",
            "m_swap",
            "d_total",
            "d_free",
            "n_bwup",
            "n_bwdown",
            "turnaround_seconds",
            "host_cpid",
        )
        .iterator(chunk_size=CHUNK)
    )


def applications() -> list[str]:
    """The names of all apps, in the order in which they were made."""
    return list(App.objects.order_by("pk").values_list("name", flat=True))


def total_credit() -> Decimal:
    """All that was ever granted to accounts."""
    return Account.objects.aggregate(sum=Sum("total_credit"))["sum"] or Decimal(0)
