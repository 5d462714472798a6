"""Recognises who calls, finds or creates hosts, keeps what they say of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import md5, sha256
from typing import Any

from django.db import connection

from scheduler import sql, wakeups
from scheduler.facts.hosts import HostDescription, Lesson
from scheduler.models import Account, AccountKey, Host

#: So many of a host's last decisions are kept.
MOST_DECISIONS = 5


class UnknownKey(Exception):
    """No account has this key. Hint: remove the project from the client and add it again."""


class HostDenied(Exception):
    """This host is not served. Hint: the project's staff can allow it again in the admin."""


class HostBusy(Exception):
    """Another request of this host is being answered. Hint: ask again in a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """By what a client says who it is (PROTOCOL 2.5)."""

    key: str
    host_id: int = 0
    rpc_seqno: int = 0
    holds_results: bool = False
    allow_multiple_clients: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The account and the host of one RPC, as they were before it.

    `assigned` says that the client must be told its host id, and that its sequence starts anew;
    `detached` that the client came back with empty hands: what the host held is lost.
    """

    account_id: int
    email: str
    name: str
    cross_project_id: str
    account_created_at: datetime
    account_total_credit: float
    account_expavg_credit: float
    project_prefs: str
    global_prefs: str
    global_prefs_mod_time: float
    team_id: int | None
    team_name: str | None
    is_strong: bool
    venue: str
    host_id: int
    host_created_at: datetime
    host_total_credit: float
    host_expavg_credit: float
    max_in_progress: int | None
    last_decisions: tuple[dict[str, Any], ...]
    any_sensor: bool
    any_broadcast: bool
    any_for_host: bool
    assigned: bool
    detached: bool


def recognise(credentials: Credentials, description: HostDescription, *, now: datetime) -> Caller:
    """Find the account of the key and the host of the client; make the host if it is new.

    Inside the transaction of an RPC: the host stays locked until it ends.  Raises `UnknownKey`,
    `HostDenied`, `HostBusy`.
    """
    row = sql.fetch_one(
        "recognise", {"key_hash": key_hash(credentials.key), "host_id": credentials.host_id}
    )
    if row is None or row["revoked_at"] is not None or not row["is_active"]:
        raise UnknownKey
    assigned = False
    if row["host_id"] is None or _is_somebody_else(row, credentials):
        row |= _find_or_create(row, credentials, description, now=now)
        assigned = True
    elif row["was_merged"]:
        assigned = True
    if row["denied"]:
        raise HostDenied
    if not row["locked"]:
        raise HostBusy
    return _caller(row, assigned=assigned)


def keep(
    caller: Caller,
    description: HostDescription,
    *,
    rpc_seqno: int,
    decision: dict[str, Any] | None,
    lessons: Sequence[Lesson],
    acknowledged: Sequence[int],
    now: datetime,
) -> None:
    """Write what this RPC taught of a host; the last locks of the RPC's transaction.

    What the client said of its computer, the last decisions (newest first), what was sent and
    reported by app version, and which results the client lists for the first time.
    """
    decisions = list(caller.last_decisions)
    if decision is not None:
        decisions = [decision, *decisions][:MOST_DECISIONS]
    facts = _facts(description)
    capabilities = facts.pop("capabilities")
    facts["host_cpid"] = stored_cpid(description.host_cpid, caller.email)
    sql.execute(
        "update_host",
        facts
        | {
            "host_id": caller.host_id,
            "rpc_seqno": 0 if caller.assigned else rpc_seqno,
            "capabilities": sql.json_array([capabilities])[0],
            "last_decisions": sql.json_array([decisions])[0],
            "app_version_ids": [lesson.app_version_id for lesson in lessons],
            "sent": [lesson.sent for lesson in lessons],
            "had_errors": [lesson.had_errors for lesson in lessons],
            "quotas_before": [lesson.quota_before for lesson in lessons],
            "quotas_after": [lesson.quota_after for lesson in lessons],
            "acknowledged_ids": list(acknowledged),
            "today": now.date(),
            "now": now,
        },
    )


def adopt(
    *, account_id: int, cross_project_id: str | None, global_prefs: tuple[str, float] | None
) -> None:
    """Take over an identity and newer (preferences, modification time) that a client brought."""
    changes: dict[str, Any] = {}
    if cross_project_id:
        changes["cross_project_id"] = cross_project_id
    if global_prefs:
        changes["global_prefs"], changes["global_prefs_mod_time"] = global_prefs
    Account.objects.filter(pk=account_id).update(**changes)


_FACTS = tuple(one.name for one in fields(HostDescription))


def _facts(description: HostDescription) -> dict[str, Any]:
    """What a client said, by column (`dataclasses.asdict` copies each value, for each RPC)."""
    return {name: getattr(description, name) for name in _FACTS}


def key_hash(key: str) -> str:
    """Under which hash a key is found."""
    return sha256(key.encode()).hexdigest()


def stored_cpid(host_cpid: str, email: str) -> str:
    """A host's cross-project id is stored hashed with the owner's e-mail (PROTOCOL 2.5)."""
    return md5((host_cpid + email).encode(), usedforsecurity=False).hexdigest() if host_cpid else ""


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
    now: datetime,
) -> dict[str, Any]:
    cpid = stored_cpid(description.host_cpid, row["email"])
    facts = _facts(description) | {
        "account_id": row["account_id"],
        # A copy of a client brings the cpid of the original: only its other facts count then.
        "host_cpid": cpid if credentials.host_id == 0 else "",
        "allow_multiple_clients": credentials.allow_multiple_clients,
    }
    _lock_account_hosts(row["account_id"])
    found = sql.fetch_one("find_host", facts)
    if found is None:
        return _create(row, description, cpid, now=now)
    detached = not credentials.holds_results and not credentials.allow_multiple_clients
    return _host_columns(found) | {"locked": _lock_host(found["id"]), "detached": detached}


def detach(*, host_id: int, workunit_ids: Sequence[int], now: datetime) -> int:
    """End everything a host held, because it lost it; returns how many results that were.

    The workunits are locked already: all that the host holds results of.
    """
    if not workunit_ids:
        return 0
    wakeups.after_commit("transitioner")
    return len(
        sql.fetch(
            "detach_results",
            {"host_id": host_id, "workunit_ids": list(workunit_ids), "now": now},
        )
    )


def _create(
    row: dict[str, Any], description: HostDescription, cpid: str, *, now: datetime
) -> dict[str, Any]:
    facts = _facts(description) | {"host_cpid": cpid}
    facts["last_ip_addr"] = facts.pop("ip_addr")
    host = Host.objects.create(
        account_id=row["account_id"],
        venue=row["account_venue"],
        created_at=now,
        rpc_at=now,
        **facts,
    )
    return {
        "host_id": host.pk,
        "denied": False,
        "host_venue": host.venue,
        "host_created_at": now,
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
    # Two first requests of one computer must find one host, not make two.
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
        # Found by its facts: what waits for it comes with its next request.
        any_for_host=row["any_for_host"],
        assigned=assigned,
        detached=bool(row.get("detached")),
    )
