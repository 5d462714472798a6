"""Recognises who calls: the account of a key, the host of a client, or a new one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

from scheduler import sql
from scheduler.hosts.facts import HostDescription
from scheduler.hosts.identity import (
    REFUSALS,
    Caller,
    Credentials,
    HostBusy,
    HostDenied,
    Refusal,
    TooManyHosts,
    UnknownKey,
    columns_of,
    key_hash,
    stored_cpid,
)
from scheduler.models import AccountKey, Host

DAY = timedelta(days=1)


class Knock(NamedTuple):
    """One who calls: by what he says who he is, and what he says of his computer."""

    credentials: Credentials
    description: HostDescription


class NewHostLimit(NamedTuple):
    """How many hosts an account may add in the 24 hours before `now`; 0 means no limit."""

    per_day: int
    now: datetime


def recognise(
    knocks: Sequence[Knock], *, hosts_per_account: int, now: datetime
) -> list[Caller | Refusal]:
    """Find the account of each key and the host of each client; make the hosts that are new.

    Inside the transaction of a batch of RPCs: the hosts stay locked until it ends.  A refusal is
    returned, not raised, because the other callers of the batch are served all the same.  An
    account gets at most `hosts_per_account` new hosts within 24 hours; 0 means no limit.
    """
    limit = NewHostLimit(hosts_per_account, now)
    rows = sql.fetch(
        "hosts/recognise",
        {
            "key_hashes": [key_hash(knock.credentials.key) for knock in knocks],
            "host_ids": [knock.credentials.host_id for knock in knocks],
        },
    )
    found = {row["position"]: row for row in rows}
    strangers = _strangers(knocks, found)
    # Two first requests of one computer must find one host, not make two.
    for account_id in sorted({found[position]["account_id"] for position in strangers}):
        _lock_account_hosts(account_id)
    callers: list[Caller | Refusal] = []
    present: set[int] = set()
    for position, knock in enumerate(knocks, start=1):
        row = found.get(position)
        try:
            caller = _admit(row, knock, present, is_stranger=position in strangers, limit=limit)
        except REFUSALS as refusal:
            callers.append(refusal)
        else:
            present.add(caller.host_id)
            callers.append(caller)
    return callers


def _strangers(knocks: Sequence[Knock], found: Mapping[int, dict[str, Any]]) -> set[int]:
    """The places of those whose key is good, and whose host is not the one that they name."""
    return {
        position
        for position, row in found.items()
        if _is_welcome(row)
        and (row["host_id"] is None or _is_somebody_else(row, knocks[position - 1].credentials))
    }


def _is_welcome(row: Mapping[str, Any]) -> bool:
    return row["revoked_at"] is None and row["is_active"]


def _admit(
    row: dict[str, Any] | None,
    knock: Knock,
    present: Collection[int],
    *,
    is_stranger: bool,
    limit: NewHostLimit,
) -> Caller:
    """The caller of a row; raises `UnknownKey`, `HostDenied`, `HostBusy`, `TooManyHosts`."""
    if row is None or not _is_welcome(row):
        raise UnknownKey
    assigned = is_stranger or row["was_merged"]
    if is_stranger:
        row = row | _find_or_create(row, *knock, limit=limit)
    if row["denied"]:
        raise HostDenied
    # A lock of our own transaction keeps out all others, but not a second caller in this batch.
    if not row["locked"] or row["host_id"] in present:
        raise HostBusy
    return _caller(row, assigned=assigned)


def _is_somebody_else(row: dict[str, Any], credentials: Credentials) -> bool:
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
        # A copy of a client brings the cpid of the original: only its other facts count then.
        "host_cpid": cpid if credentials.host_id == 0 else "",
        "allow_multiple_clients": credentials.allow_multiple_clients,
    }
    found = sql.fetch_one("hosts/find_host", facts)
    if found is None:
        return _create(row, description, cpid, limit)
    detached = not credentials.holds_results and not credentials.allow_multiple_clients
    return _host_columns(found) | {"locked": _lock_host(found["id"]), "detached": detached}


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


def _host_columns(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "host_id": found["id"],
        "denied": found["denied"],
        "host_venue": found["venue"],
        "host_created_at": found["created_at"],
        "host_total_credit": found["total_credit"],
        "host_expavg_credit": found["expavg_credit"],
        "max_in_progress": found["max_in_progress"],
        "last_decisions": found["last_decisions"],
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
        # Found by its facts: what waits for it comes with its next request.
        any_for_host=row["any_for_host"],
        assigned=assigned,
        detached=bool(row.get("detached")),
    )
