"""Finds the account of a caller by its key, and finds or creates the host."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import connection

from scheduler import sql
from scheduler.hosts.facts import HostDescription
from scheduler.hosts.identity import (
    Caller,
    CallerRefused,
    Credentials,
    HostBusy,
    HostDenied,
    TooManyHosts,
    UnknownKey,
    columns_of,
    key_hash,
    stored_cpid,
)
from scheduler.models import Host

DAY = timedelta(days=1)
#: Statements that take an advisory lock until the transaction ends; `recognize.sql` uses the same
#: names for the locks of hosts.
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%s::text, 0))"
_TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s::text, 0))"
_CALLER_FIELDS: Final = tuple(each.name for each in fields(Caller))
#: The columns of `recognize.sql` that are equal for all hosts that were just created.
_NEW_HOST: Final = {
    "denied": False,
    "host_total_credit": 0.0,
    "host_expavg_credit": 0.0,
    "max_in_progress": None,
    "own_max_held": None,
    "own_max_cpus": None,
    "last_decisions": (),
    "locked": True,
}


def recognize(
    requests: Sequence[tuple[Credentials, HostDescription]],
    *,
    hosts_per_account: int,
    now: datetime,
) -> list[Caller | CallerRefused]:
    """Find the account of each key and the host of each client; create new hosts.

    Returns a caller or a refusal for each request.  A refusal is not raised, because the other
    callers of the batch are still served.  Call this inside the transaction of a batch of RPCs: the
    hosts stay locked until the transaction ends.  An account gets at most `hosts_per_account` new
    hosts within 24 hours; 0 means no limit.
    """
    rows = {
        row["position"]: row
        for row in sql.fetch(
            "hosts/recognize",
            {
                "key_hashes": [key_hash(credentials.key) for credentials, _ in requests],
                "host_ids": [credentials.host_id for credentials, _ in requests],
            },
        )
    }
    unrecognized = {
        position
        for position, row in rows.items()
        if _is_admissible(row) and _names_no_own_host(row, requests[position - 1][0])
    }
    # Two concurrent first requests of one computer must not create two hosts.
    for account_id in sorted({rows[position]["account_id"] for position in unrecognized}):
        _lock(_LOCK, f"hosts of account {account_id}")
    callers: list[Caller | CallerRefused] = []
    present: set[int] = set()
    for position, request in enumerate(requests, start=1):
        try:
            caller = _admit(
                rows.get(position),
                request,
                present,
                is_unrecognized=position in unrecognized,
                hosts_per_account=hosts_per_account,
                now=now,
            )
        except CallerRefused as refusal:
            callers.append(refusal)
        else:
            present.add(caller.host_id)
            callers.append(caller)
    return callers


def lock_hosts(host_ids: Collection[int]) -> None:
    """Wait for the RPCs of these hosts, and block others until the transaction ends.

    Call this before anything else is locked.
    """
    for host_id in sorted(host_ids):
        _lock(_LOCK, f"host {host_id}")


def _is_admissible(row: dict[str, Any]) -> bool:
    return row["revoked_at"] is None and row["is_active"]


def _names_no_own_host(row: dict[str, Any], credentials: Credentials) -> bool:
    """Return whether a request lacks a host id of its account, or comes from a copied client."""
    # An equal sequence number means a retry after a lost reply, a lower sequence number a copy of
    # the client (PROTOCOL 2.5, trap 9).
    return bool(
        row["host_id"] is None
        or row["host_account_id"] != row["account_id"]
        or credentials.rpc_seqno < row["rpc_seqno"]
    )


def _admit(
    row: dict[str, Any] | None,
    request: tuple[Credentials, HostDescription],
    present: Collection[int],
    *,
    is_unrecognized: bool,
    hosts_per_account: int,
    now: datetime,
) -> Caller:
    """Return the caller of a row of `recognize.sql`; raises `CallerRefused`."""
    if row is None or not _is_admissible(row):
        raise UnknownKey
    row |= {"assigned": is_unrecognized or row["was_merged"], "detached": False}
    if is_unrecognized:
        row |= _find_or_create(row, *request, hosts_per_account=hosts_per_account, now=now)
    if row["denied"]:
        raise HostDenied
    # An advisory lock excludes other transactions, but not a second caller in this batch.
    if not row["locked"] or row["host_id"] in present:
        raise HostBusy
    return Caller(**{name: row[name] for name in _CALLER_FIELDS})


def _find_or_create(
    row: dict[str, Any],
    credentials: Credentials,
    description: HostDescription,
    *,
    hosts_per_account: int,
    now: datetime,
) -> dict[str, Any]:
    """Return the columns of the host that matches the client's computer, or of a new host.

    Raises `TooManyHosts`.
    """
    account_id, allows_several = row["account_id"], credentials.allow_multiple_clients
    columns = columns_of(description)
    columns["host_cpid"] = stored_cpid(description.host_cpid, row["email"])
    host_row = sql.fetch_one(
        "hosts/find_host",
        columns
        | {
            "account_id": account_id,
            # A copy of a client sends the cpid of the original, so the cpid is not compared.
            "host_cpid": columns["host_cpid"] if credentials.host_id == 0 else "",
            "allow_multiple_clients": allows_several,
        },
    )
    if host_row is not None:
        detached = not (credentials.holds_results or allows_several)
        locked = _lock(_TRY_LOCK, f"host {host_row['host_id']}")
        return host_row | {"locked": locked, "detached": detached}
    # The transaction holds the lock on the account's hosts: this count does not change before the
    # insert.
    added = Host.objects.filter(account_id=account_id, created_at__gt=now - DAY)
    if hosts_per_account and added.count() >= hosts_per_account:
        raise TooManyHosts
    columns["last_ip_addr"] = columns.pop("ip_addr")
    host = Host.objects.create(
        account_id=account_id, venue=row["account_venue"], created_at=now, rpc_at=now, **columns
    )
    return _NEW_HOST | {"host_id": host.pk, "venue": host.venue, "host_created_at": now}


def _lock(statement: str, name: str) -> bool:
    """Run `_LOCK` or `_TRY_LOCK` for a lock name; return whether `_TRY_LOCK` took the lock.

    `_LOCK` waits until it has taken the lock, and its return value has no meaning.
    """
    with connection.cursor() as cursor:
        cursor.execute(statement, [name])
        row = cursor.fetchone()
    return bool(row and row[0])
