"""Deletes a computer at the request of its owner.

Theory of operation.  Credit refers to the row, so the row stays, without any data that identify the
computer, and refers to itself in `merged_into`.  It is therefore on no list, like a merged row, and
a client that still sends its id gets a new row.  As in BOINC, a computer can be deleted only when
the project keeps none of its results.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F, Q

from scheduler.hosts import recognition
from scheduler.hosts.own_hosts import UnknownHost
from scheduler.lifecycle import ServerState
from scheduler.models import (
    Account,
    CreditSample,
    FileRequest,
    Host,
    HostAppVersion,
    HostToken,
    Result,
    Workunit,
)
from scheduler.people import audit
from scheduler.people.account_keys import AccountRefused
from scheduler.people.personal_data import consents, erasure


class DeletionRefused(AccountRefused):
    """The computer cannot be deleted now. Hint: see the message."""


def delete(account: Account, host_id: int, *, now: datetime) -> None:
    """Delete the account's computer; its credit stays in the account's.

    Raises `UnknownHost`, `DeletionRefused`.
    """
    with transaction.atomic():
        lock(account, host_id)
        own = Host.objects.filter(pk=host_id, account=account, merged_into__isnull=True)
        # Also waits for submissions of work for the computer.
        host = own.select_for_update().first()
        if host is None:
            raise _unknown(host_id)
        if obstacle := obstacle_to_deletion(host, now=now):
            raise DeletionRefused(obstacle)
        if account.share_statistics:
            consents.list_deleted_host(host, now=now)
        HostAppVersion.objects.filter(host=host).delete()
        FileRequest.objects.filter(host=host).delete()
        CreditSample.objects.filter(kind=CreditSample.Kind.HOST, holder_id=host_id).delete()
        # With the rows that were merged into it, whose clients would otherwise get its id.
        rows = Host.objects.filter(Q(pk=host_id) | Q(merged_into=host))
        rows.update(merged_into=F("pk"), last_decisions=[], **erasure.HOST_COLUMNS)
        audit.record(
            audit.Event.HOST_CHANGED, now=now, subject=f"host {host_id}", details={"deleted": True}
        )


def lock(account: Account, host_id: int) -> None:
    """Wait for a request of the account's computer, and block others until the transaction ends.

    Call this before the row is locked, because a request locks in this order.  Raises
    `UnknownHost`: otherwise anyone could block the computers of others.
    """
    if not Host.objects.filter(pk=host_id, account=account).exists():
        raise _unknown(host_id)
    recognition.lock_hosts([host_id])


def _unknown(host_id: int) -> UnknownHost:
    return UnknownHost(
        f"The account has no computer {host_id}. Hint: list the account's computers."
    )


def obstacle_to_deletion(host: Host, *, now: datetime) -> str:
    """Return why the owner cannot delete a computer now, or an empty text."""
    # Otherwise, the computer could return without the decision of staff.
    if host.denied or host.max_in_progress is not None:
        return (
            f"Computer {host.pk} is denied or limited by the project. "
            "Hint: ask the project's staff."
        )
    of_host = Result.objects.filter(host=host)
    if of_host.filter(server_state=ServerState.IN_PROGRESS).exists():
        return (
            f"Computer {host.pk} has results in progress. "
            "Hint: report or abort them, or wait for their deadline."
        )
    if of_host.filter(server_state=ServerState.OVER).exists():
        return (
            f"The project still keeps results of computer {host.pk}. "
            "Hint: delete it when they are no longer listed."
        )
    if Workunit.objects.filter(target_host=host).exists():
        return (
            f"The project has work that only computer {host.pk} may do. "
            "Hint: ask the project's staff."
        )
    valid = Q(expire_at__isnull=True) | Q(expire_at__gt=now)
    if HostToken.objects.filter(valid, host=host, revoked_at__isnull=True).exists():
        return f"Computer {host.pk} is in a pool. Hint: have its tokens revoked first."
    return ""
