"""Merges computers of an account at the request of its owner.

Theory of operation.  A client that loses its state directory attaches as a new computer, so that
one machine is listed twice.  As in BOINC, owners can merge an entry into a newer one only if it
could be the same machine: the older entry had its last contact before the newer one was created,
and both have the same kind of operating system and processor.  Staff can merge any two entries of
one account (`merge_hosts`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from django.db import transaction

from scheduler.hosts import merge_hosts
from scheduler.hosts.own_hosts import UnknownHost
from scheduler.models import Account, Host
from scheduler.people import audit
from scheduler.people.account_keys import AccountRefused

#: Maximum number of older entries that a page offers.
MAX_OFFERED: Final = 50


class MergeRefused(AccountRefused):
    """The computers cannot be merged. Hint: see the message."""


def mergeable(account: Account, kept: Host) -> list[Host]:
    """Return the older entries that the owner can merge into a computer, the latest first."""
    rows = Host.objects.filter(
        account=account,
        merged_into__isnull=True,
        rpc_at__lte=kept.created_at,
        p_vendor=kept.p_vendor,
    ).exclude(pk=kept.pk)
    newest = rows.order_by("-rpc_at", "-pk")[:MAX_OFFERED]
    return [merged for merged in newest if not _obstacle(kept, merged)]


def merge(account: Account, *, kept_id: int, merged_id: int, now: datetime) -> Host:
    """Merge an older entry of a computer into a newer one; return the newer one.

    Raises `UnknownHost` if one of them is not a computer of the account, and `MergeRefused`.
    """
    with transaction.atomic():
        hosts = Host.objects.filter(account=account, pk__in=(kept_id, merged_id)).in_bulk()
        for host_id in (kept_id, merged_id):
            if host_id not in hosts:
                raise UnknownHost(
                    f"The account has no computer {host_id}. Hint: list the account's computers."
                )
        if obstacle := _obstacle(hosts[kept_id], hosts[merged_id]):
            raise MergeRefused(obstacle)
        try:
            kept = merge_hosts.merge(kept_id=kept_id, merged_id=merged_id)
        except merge_hosts.CannotMerge as refusal:
            raise MergeRefused(str(refusal)) from refusal
        details = {"merged": merged_id}
        audit.record(audit.Event.HOST_CHANGED, now=now, subject=f"host {kept_id}", details=details)
        return kept


def _obstacle(kept: Host, merged: Host) -> str:
    """Return why the owner cannot merge these computers, or an empty text."""
    for host in (kept, merged):
        # Otherwise, a merge would undo the decision of staff.
        if host.denied or host.max_in_progress is not None:
            return (
                f"Computer {host.pk} is denied or limited by the project. "
                "Hint: ask the project's staff to merge it."
            )
    if merged.rpc_at > kept.created_at:
        return (
            f"Computer {merged.pk} contacted the project after computer {kept.pk} was attached, so "
            "they are different machines. Hint: merge an older entry into a newer one."
        )
    if _kind(kept) != _kind(merged):
        return (
            f"Computers {kept.pk} and {merged.pk} have different processors or operating systems. "
            "Hint: ask the project's staff if they are the same machine."
        )
    return ""


def _kind(host: Host) -> tuple[str, str]:
    return host.p_vendor.casefold(), host.os_name.casefold().partition(" ")[0]
