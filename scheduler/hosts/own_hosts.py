"""Reads the computers of an account, and sets the venue of one."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import QuerySet

from scheduler.models import Account, Host
from scheduler.people import audit
from scheduler.people.account_keys import AccountRefused

#: Maximum number of computers that one reply lists.
MAX_HOSTS: Final = 5000
#: The columns of computers that lists show.
_LISTED_COLUMNS: Final = (
    "created_at",
    "rpc_seqno",
    "rpc_at",
    "host_cpid",
    "total_credit",
    "expavg_credit",
    "expavg_at",
    "domain_name",
    "p_ncpus",
    "p_vendor",
    "p_model",
    "p_fpops",
    "p_iops",
    "os_name",
    "os_version",
    "m_nbytes",
    "d_free",
    "d_total",
    "venue",
)
#: Clients read at most 255 bytes, and match the name in preferences.
_MAX_VENUE: Final = 60


class UnknownHost(AccountRefused):
    """The account has no such computer. Hint: list the account's computers."""

    error_num = -136


class BadVenue(AccountRefused):
    """This is not the name of a venue. Hint: use home, school or work."""


def of_account(account: Account) -> list[Host]:
    """Return at most `MAX_HOSTS` computers of the account, in ascending id.

    A computer that was merged into another is left out.  Only the columns that lists show are read.
    """
    own = _unmerged().filter(account=account).only(*_LISTED_COLUMNS)
    return list(own.order_by("pk")[:MAX_HOSTS])


def find_shown(host_id: int) -> Host | None:
    """Return a computer with its account if everybody may see it, else None.

    The owner must be active and show their computers.
    """
    shown = _unmerged().filter(account__is_active=True, account__show_hosts=True)
    return shown.select_related("account").filter(pk=host_id).first()


def set_venue(account: Account, host_id: int, venue: str, *, now: datetime) -> None:
    """Set the venue of the account's computer; the next scheduler reply has it.

    An empty venue selects the preferences that belong to no venue.  Raises `UnknownHost`,
    `BadVenue`.
    """
    if len(venue) > _MAX_VENUE or not venue.isprintable() or set("<>&\"'") & set(venue):
        raise BadVenue(f"{venue[:60]!r} is not a venue. Hint: use home, school or work.")
    own = _unmerged().filter(pk=host_id, account=account)
    with transaction.atomic():
        if not own.update(venue=venue):
            raise UnknownHost(
                f"The account has no computer {host_id}. Hint: list the account's computers."
            )
        subject = f"host {host_id}"
        audit.record(audit.Event.HOST_CHANGED, now=now, subject=subject, details={"venue": venue})


def _unmerged() -> QuerySet[Host]:
    return Host.objects.filter(merged_into__isnull=True)
