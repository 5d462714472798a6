"""Defines the callers of RPCs, and writes the changes of RPCs to their hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import md5, sha256
from json import dumps
from typing import Any, NamedTuple

from scheduler import sql, wakeups
from scheduler.hosts.facts import HostDescription, RecordUpdate
from scheduler.lifecycle import Target
from scheduler.models import Account
from scheduler.queues import slots

#: The number of last decisions kept per host.
MAX_DECISIONS = 5


class CallerRefused(Exception):
    """The RPC of a caller is refused; each subclass is one reason."""


class UnknownKey(CallerRefused):
    """The key is unknown or revoked, or its account is not active.

    Hint: remove the project from the client and add it again.
    """


class HostDenied(CallerRefused):
    """This host is denied.  Hint: the project's staff can allow the host in the admin."""


class HostBusy(CallerRefused):
    """Another request of this host is being answered.  Hint: retry in a minute."""


class TooManyHosts(CallerRefused):
    """The account has reached the limit of new hosts per day, which HOSTS_PER_ACCOUNT sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials in a client's request (PROTOCOL 2.5).

    `holds_results` is True if the client lists results of this project.
    """

    key: str
    host_id: int = 0
    rpc_seqno: int = 0
    holds_results: bool = False
    allow_multiple_clients: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The account and the host of one RPC, as they were before the RPC.

    Most fields are columns of `recognize.sql`.  `password_digest` is an MD5 of the stored password
    hash, from which the address of the account's feed is made.  `assigned` is set if the reply must
    contain the host id; the sequence number of the host's RPCs then restarts.  `detached` is set if
    the client attached again without results, so that the results in progress on the host are lost.
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
    password_digest: str
    venue: str
    host_id: int
    host_created_at: datetime
    host_total_credit: float
    host_expavg_credit: float
    max_in_progress: int | None
    own_max_held: int | None
    own_max_cpus: int | None
    last_decisions: Sequence[dict[str, Any]]
    any_sensor: bool
    any_broadcast: bool
    any_for_host: bool
    assigned: bool
    detached: bool
    any_targeted: bool = False
    catalog_sign: str = ""


class HostUpdate(NamedTuple):
    """The changes that one RPC makes to a host; `keep` writes them.

    `decision` is the outcome of a work request, or None.  `acknowledged` has the ids of results
    that the client lists.
    """

    caller: Caller
    description: HostDescription
    rpc_seqno: int
    decision: dict[str, Any] | None
    record_updates: Sequence[RecordUpdate]
    acknowledged: Sequence[int]


def keep(host_updates: Sequence[HostUpdate], *, now: datetime) -> None:
    """Write the changes that each RPC makes to its host.

    The changes are the description of the computer, the last decisions (newest first), the record
    of each app version, and the acknowledgement of results that the client lists for the first
    time.  Call this last in the transaction of a batch: hosts are locked after all other rows.
    """
    rows = [_columns(host_update) for host_update in host_updates]
    record_updates = [
        (host_update.caller.host_id, update)
        for host_update in host_updates
        for update in host_update.record_updates
    ]
    sql.execute(
        "hosts/update_hosts",
        {column: [row[column] for row in rows] for column in rows[0]}
        | {
            "record_host_ids": [host_id for host_id, _update in record_updates],
            "app_version_ids": [update.app_version_id for _host_id, update in record_updates],
            "pairs": [f"{host_id}:{update.app_version_id}" for host_id, update in record_updates],
            "sent": [update.sent for _host_id, update in record_updates],
            "had_errors": [update.errors > 0 for _host_id, update in record_updates],
            "reported": [update.reported for _host_id, update in record_updates],
            "errors": [update.errors for _host_id, update in record_updates],
            "quotas_before": [update.quota_before for _host_id, update in record_updates],
            "quotas_after": [update.quota_after for _host_id, update in record_updates],
            "acknowledged_ids": [
                i for host_update in host_updates for i in host_update.acknowledged
            ],
            "today": now.date(),
            "now": now,
        },
    )


def _columns(host_update: HostUpdate) -> dict[str, Any]:
    """Return the columns written for one host."""
    caller, described = host_update.caller, host_update.description
    decisions = list(caller.last_decisions)
    if host_update.decision is not None:
        decisions = [host_update.decision, *decisions][:MAX_DECISIONS]
    return columns_of(described) | {
        "host_ids": caller.host_id,
        "rpc_seqno": 0 if caller.assigned else host_update.rpc_seqno,
        "host_cpid": stored_cpid(described.host_cpid, caller.email),
        "capabilities": dumps(described.capabilities),
        "last_decisions": dumps(decisions),
    }


def adopt(
    account_id: int, *, cross_project_id: str | None, global_prefs: tuple[str, float] | None
) -> None:
    """Store a client's cross-project id and global preferences; None leaves a value unchanged.

    `global_prefs` is the text of the preferences and its modification time.  Newer preferences,
    which the owner may have saved since the caller was read, are kept.
    """
    if not (cross_project_id or global_prefs):
        # As in most RPCs; to build a query takes longer than many a part of the reply.
        return
    account = Account.objects.filter(pk=account_id)
    if cross_project_id:
        account.update(cross_project_id=cross_project_id)
    if global_prefs:
        text, mod_time = global_prefs
        older = account.filter(global_prefs_mod_time__lt=mod_time)
        older.update(global_prefs=text, global_prefs_mod_time=mod_time)


_FACTS = tuple(each.name for each in fields(HostDescription))


def columns_of(description: HostDescription) -> dict[str, Any]:
    """Return the values of a description by field name.

    Unlike `dataclasses.asdict`, this does not copy the values.
    """
    return {name: getattr(description, name) for name in _FACTS}


def key_hash(key: str) -> str:
    """Return the SHA-256 of an account key in hexadecimal digits."""
    return sha256(key.encode()).hexdigest()


def stored_cpid(host_cpid: str, email: str) -> str:
    """Return the stored form of a host's cross-project id (PROTOCOL 2.5).

    This is the MD5 of the id and the owner's e-mail address, or an empty string without an id.
    """
    return md5((host_cpid + email).encode(), usedforsecurity=False).hexdigest() if host_cpid else ""


def detach(*, host_ids: Sequence[int], workunit_ids: Sequence[int], now: datetime) -> int:
    """Set the results in progress on detached hosts to CLIENT_DETACHED; return their number.

    Only results of `workunit_ids` are changed.  The caller must have locked these workunits.
    """
    if not (host_ids and workunit_ids):
        return 0
    wakeups.after_commit("transitioner")
    rows = sql.fetch(
        "hosts/detach_results",
        {"host_ids": list(host_ids), "workunit_ids": list(workunit_ids), "now": now},
    )
    slots.free([row["id"] for row in rows if row["target_kind"] == Target.QUEUE])
    return len(rows)
