"""Merges two hosts that are one computer whose client attached twice."""

from __future__ import annotations

from django.db import transaction
from django.db.models import Count, Sum

from scheduler import sql
from scheduler.hosts import recognition
from scheduler.lifecycle import ServerState, Target
from scheduler.models import (
    Bundle,
    CreditEntry,
    Host,
    HostAppVersion,
    Result,
    Workunit,
)
from scheduler.queues import named_queues


class CannotMerge(ValueError):
    """Two hosts cannot be merged.  Hint: merge two different, unmerged hosts of one account."""


def merge(*, kept_id: int, merged_id: int) -> Host:
    """Move results, targeted work and credit of a host to another host; return the kept host.

    The merged row stays and refers to the kept host, so that a client that still sends the old id
    receives the new id (PROTOCOL 2.5).  The kept host is hidden from others if one of the hosts
    was.  Raises `CannotMerge`.
    """
    with transaction.atomic():
        recognition.lock_hosts({kept_id, merged_id})
        _retarget(kept_id, merged_id)
        # As in every other writer, hosts are locked after results, in ascending order.
        _move_results(kept_id, merged_id)
        hosts = {
            host.pk: host
            for host in Host.objects.select_for_update(no_key=True)
            .filter(pk__in=(kept_id, merged_id))
            .order_by("pk")
        }
        _check_mergeable(kept_id, merged_id, hosts)
        kept, merged = hosts[kept_id], hosts[merged_id]
        _lock_app_credit_cursor()
        CreditEntry.objects.filter(host_id=merged_id).update(host_id=kept_id)
        sql.execute("hosts/merge_app_credit", {"kept_id": kept_id, "merged_id": merged_id})
        # The records of the merged host are deleted and will be measured again, because averages
        # of different numbers of samples cannot be combined in a useful way.
        sql.execute("hosts/merge_uncounted", {"kept_id": kept_id, "merged_id": merged_id})
        HostAppVersion.objects.filter(host_id=merged_id).delete()
        kept.total_credit = (
            CreditEntry.objects.filter(host_id=kept_id).aggregate(sum=Sum("amount"))["sum"] or 0
        )
        kept.expavg_credit += merged.expavg_credit
        kept.created_at = min(kept.created_at, merged.created_at)
        # Otherwise, a merge would show to others what the owner has hidden from them.
        kept.hidden |= merged.hidden
        kept.save(update_fields=["total_credit", "expavg_credit", "created_at", "hidden"])
        Host.objects.filter(merged_into_id=merged_id).update(merged_into_id=kept_id)
        merged.merged_into = kept
        merged.total_credit, merged.expavg_credit = 0, 0
        merged.save(update_fields=["merged_into", "total_credit", "expavg_credit"])
        sql.execute("hosts/merge_credit_samples", {"kept_id": kept_id, "merged_id": merged_id})
        Bundle.objects.filter(host_id=merged_id).update(host_id=kept_id)
        named_queues.replace_host(merged_id=merged_id, kept_id=kept_id)
    return kept


def _lock_app_credit_cursor() -> None:
    """Wait while credit entries are counted by computer and app (`credit.app_credits`)."""
    sql.fetch("credit/lock_app_credit_cursor", {})


def _retarget(kept_id: int, merged_id: int) -> None:
    """Retarget work for the merged host to the kept host; otherwise no host could receive it."""
    targeted = Workunit.objects.filter(target_host_id=merged_id)
    ids = list(targeted.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    Workunit.objects.filter(pk__in=ids).update(target_host_id=kept_id)
    Result.objects.filter(workunit_id__in=ids, target_kind=Target.HOST).update(target_id=kept_id)


def _move_results(kept_id: int, merged_id: int) -> None:
    """Move the results of a host; raises `CannotMerge` if both hosts hold one workunit."""
    # A statement for each state, because each state has an index of its own.
    for state in (ServerState.IN_PROGRESS, ServerState.OVER):
        Result.objects.filter(server_state=state, host_id=merged_id).update(host_id=kept_id)
    held_results = Result.objects.filter(server_state=ServerState.IN_PROGRESS, host_id=kept_id)
    numbers = held_results.order_by("workunit__name").values("workunit__name")
    twice = numbers.annotate(number=Count("pk")).filter(number__gt=1).first()
    if twice is not None and kept_id != merged_id:
        raise CannotMerge(
            f"Host {kept_id} and host {merged_id} both have results of the workunit "
            f"{twice['workunit__name']} in progress. Hint: merge them after one is reported."
        )


def _check_mergeable(kept_id: int, merged_id: int, hosts: dict[int, Host]) -> None:
    if kept_id == merged_id:
        msg = f"Host {kept_id} cannot be merged into itself. Hint: name two different hosts."
        raise CannotMerge(msg)
    if missing := {kept_id, merged_id} - set(hosts):
        raise CannotMerge(f"There is no host {min(missing)}. Hint: look hosts up in the admin.")
    kept, merged = hosts[kept_id], hosts[merged_id]
    if kept.account_id != merged.account_id:
        raise CannotMerge(
            f"Host {kept_id} belongs to account {kept.account_id}, host {merged_id} to account "
            f"{merged.account_id}. Hint: merge hosts of one account."
        )
    for host in (kept, merged):
        if host.is_deleted:
            raise CannotMerge(f"Host {host.pk} was deleted by its owner.")
        if host.merged_into_id is not None:
            raise CannotMerge(f"Host {host.pk} is merged into host {host.merged_into_id} already.")
