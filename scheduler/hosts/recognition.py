"""Recognizes callers: the account of a key, and a client's host, old or new."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from scheduler import sql
from scheduler.hosts.facts import HostDescription
from scheduler.hosts.identity import (
    Caller,
    Credentials,
    HostBusy,
    HostDenied,
    Rejection,
    TooManyHosts,
    UnknownKey,
    columns_of,
    key_hash,
    stored_cpid,
)
from scheduler.models import AccountKey, Host

DAY = timedelta(days=1)


class CallerRequest(NamedTuple):
    """The credentials of a caller, and the description of its computer."""

    credentials: Credentials
    description: HostDescription


class NewHostLimit(NamedTuple):
    """How many hosts an account may add in the 24 hours before `now`; 0 means no limit."""

    per_day: int
    now: datetime


def recognize(
    requests: Sequence[CallerRequest], *, hosts_per_account: int, now: datetime
) -> list[Caller | Rejection]:
    """Find the account of each key and the host of each client; create the hosts that are new.

    Runs inside the transaction of a batch of RPCs: the hosts stay locked until it ends.  A refusal
    is returned, not raised, because the other callers of the batch are still served.  An account
    gets at most `hosts_per_account` new hosts within 24 hours; 0 means no limit.
    """
    limit = NewHostLimit(hosts_per_account, now)
    rows = sql.fetch(
        "hosts/recognise",
        {
            "key_hashes": [key_hash(request.credentials.key) for request in requests],
            "host_ids": [request.credentials.host_id for request in requests],
        },
    )
    rows_by_position = {row["position"]: row for row in rows}
    unrecognized = _unrecognized(requests, rows_by_position)
    # Two first requests of one computer must find one host, not create two.
    for account_id in sorted(
        {rows_by_position[position]["account_id"] for position in unrecognized}
    ):
        _lock_account_hosts(account_id)
    callers: list[Caller | Rejection] = []
    present: set[int] = set()
    for position, request in enumerate(requests, start=1):
        row = rows_by_position.get(position)
        try:
            caller = _admit(
                row, request, present, is_unrecognized=position in unrecognized, limit=limit
            )
        except Rejection as rejection:
            callers.append(rejection)
        else:
            present.add(caller.host_id)
            callers.append(caller)
    return callers


def _unrecognized(
    requests: Sequence[CallerRequest], rows_by_position: Mapping[int, dict[str, Any]]
) -> set[int]:
    """Return the positions of callers with a valid key whose host is not the named one."""
    return {
        position
        for position, row in rows_by_position.items()
        if _is_admissible(row)
        and (row["host_id"] is None or _is_different_host(row, requests[position - 1].credentials))
    }


def _is_admissible(row: Mapping[str, Any]) -> bool:
    return row["revoked_at"] is None and row["is_active"]


def _admit(
    row: dict[str, Any] | None,
    request: CallerRequest,
    present: Collection[int],
    *,
    is_unrecognized: bool,
    limit: NewHostLimit,
) -> Caller:
    """Return the caller of a row; raises `Rejection`."""
    if row is None or not _is_admissible(row):
        raise UnknownKey
    assigned = is_unrecognized or row["was_merged"]
    if is_unrecognized:
        row = row | _find_or_create(row, *request, limit=limit)
    if row["denied"]:
        raise HostDenied
    # A lock of our own transaction excludes all others, but not a second caller in this batch.
    if not row["locked"] or row["host_id"] in present:
        raise HostBusy
    return _caller(row, assigned=assigned)


def _is_different_host(row: dict[str, Any], credentials: Credentials) -> bool:
    # An equal sequence number is the same client after a lost reply; a lower one is a copy of it
    # (PROTOCOL 2.5, trap 9).
    return bool(
        row["host_account_id"] != row["account_id"] or credentials.rpc_seqno < row["rpc_seqno"]
    )


def _find_or_create(
    row: dict[str, Any],
    credentials: Credentials,
    description: HostDescription,
    *,
    limit: NewHostLimit,
) -> dict[str, Any]:
    cpid = stored_cpid(description.host_cpid, row["email"])
    facts = columns_of(description) | {
        "account_id": row["account_id"],
        # A copy of a client sends the cpid of the original: then only its other facts count.
        "host_cpid": cpid if credentials.host_id == 0 else "",
        "allow_multiple_clients": credentials.allow_multiple_clients,
    }
    host_row = sql.fetch_one("hosts/find_host", facts)
    if host_row is None:
        return _create(row, description, cpid, limit)
    detached = not credentials.holds_results and not credentials.allow_multiple_clients
    return _host_columns(host_row) | {"locked": _lock_host(host_row["id"]), "detached": detached}


def _create(
    row: dict[str, Any], description: HostDescription, cpid: str, limit: NewHostLimit
) -> dict[str, Any]:
    # The lock on the account's hosts is held, so this count cannot change before the insert.
    added = Host.objects.filter(account_id=row["account_id"], created_at__gt=limit.now - DAY)
    if limit.per_day and added.count() >= limit.per_day:
        raise TooManyHosts
    facts = columns_of(description) | {"host_cpid": cpid}
    facts["last_ip_addr"] = facts.pop("ip_addr")
    host = Host.objects.create(
        account_id=row["account_id"],
        venue=row["account_venue"],
        created_at=limit.now,
        rpc_at=limit.now,
        **facts,
    )
    return {
        "host_id": host.pk,
        "denied": False,
        "host_venue": host.venue,
        "host_created_at": limit.now,
        "host_total_credit": 0,
        "host_expavg_credit": 0,
        "max_in_progress": None,
        "last_decisions": [],
        "locked": True,
    }


def _host_columns(host_row: dict[str, Any]) -> dict[str, Any]:
    return {
        "host_id": host_row["id"],
        "denied": host_row["denied"],
        "host_venue": host_row["venue"],
        "host_created_at": host_row["created_at"],
        "host_total_credit": host_row["total_credit"],
        "host_expavg_credit": host_row["expavg_credit"],
        "max_in_progress": host_row["max_in_progress"],
        "last_decisions": host_row["last_decisions"],
    }


def _lock_account_hosts(account_id: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('hosts of account ' || %s::text, 0))",
            [str(account_id)],
        )


def _lock_host(host_id: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_xact_lock(hashtextextended('host ' || %s::text, 0))",
            [str(host_id)],
        )
        row = cursor.fetchone()
    return bool(row and row[0])


def _caller(row: dict[str, Any], *, assigned: bool) -> Caller:
    return Caller(
        account_id=row["account_id"],
        email=row["email"],
        name=row["name"],
        cross_project_id=row["cross_project_id"],
        account_created_at=row["account_created_at"],
        account_total_credit=float(row["account_total_credit"]),
        account_expavg_credit=row["account_expavg_credit"],
        project_prefs=row["project_prefs"],
        global_prefs=row["global_prefs"],
        global_prefs_mod_time=row["global_prefs_mod_time"],
        team_id=row["team_id"],
        team_name=row["team_name"],
        is_strong=row["key_kind"] == AccountKey.Kind.STRONG,
        venue=row["host_venue"] or "",
        host_id=row["host_id"],
        host_created_at=row["host_created_at"],
        host_total_credit=float(row["host_total_credit"]),
        host_expavg_credit=row["host_expavg_credit"],
        max_in_progress=row["max_in_progress"],
        last_decisions=tuple(row["last_decisions"]),
        any_sensor=row["any_sensor"],
        any_broadcast=row["any_broadcast"],
        any_targeted=row["any_targeted"],
        catalog_sign=row["catalog_sign"] or "",
        # If the host was found by its facts, work for it follows with its next request.
        any_for_host=row["any_for_host"],
        assigned=assigned,
        detached=bool(row.get("detached")),
    )
