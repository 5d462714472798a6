"""Hosts: who they are to the server; keeps what RPCs teach of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from hashlib import md5, sha256
from json import dumps
from typing import Any, NamedTuple

from scheduler import sql, wakeups
from scheduler.hosts.facts import HostDescription, Lesson
from scheduler.models import Account

#: So many of a host's last decisions are kept.
MOST_DECISIONS = 5


class UnknownKey(Exception):
    """No account has this key. Hint: remove the project from the client and add it again."""


class HostDenied(Exception):
    """This host is not served. Hint: the project's staff can allow it again in the admin."""


class HostBusy(Exception):
    """Another request of this host is being answered. Hint: ask again in a minute."""


class TooManyHosts(Exception):
    """The account has as many new hosts as it may get in a day. Hint: HOSTS_PER_ACCOUNT."""


Refusal = UnknownKey | HostDenied | HostBusy | TooManyHosts
REFUSALS = (UnknownKey, HostDenied, HostBusy, TooManyHosts)


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
    any_targeted: bool = False
    catalog_sign: str = ""


class Learned(NamedTuple):
    """What one RPC taught of a host: see `keep`."""

    caller: Caller
    description: HostDescription
    rpc_seqno: int
    decision: dict[str, Any] | None
    lessons: Sequence[Lesson]
    acknowledged: Sequence[int]


def keep(learned: Sequence[Learned], *, now: datetime) -> None:
    """Write what each RPC taught of its host; the last locks of the batch's transaction.

    What the client said of its computer, the last decisions (newest first), what was sent and
    reported by app version, and which results the client lists for the first time.
    """
    rows = [_columns(one) for one in learned]
    lessons = [(one.caller.host_id, lesson) for one in learned for lesson in one.lessons]
    sql.execute(
        "hosts/update_hosts",
        {column: [row[column] for row in rows] for column in rows[0]}
        | {
            "taught_host_ids": [host_id for host_id, _lesson in lessons],
            "app_version_ids": [lesson.app_version_id for _host_id, lesson in lessons],
            "pairs": [f"{host_id}:{lesson.app_version_id}" for host_id, lesson in lessons],
            "sent": [lesson.sent for _host_id, lesson in lessons],
            "had_errors": [lesson.had_errors for _host_id, lesson in lessons],
            "quotas_before": [lesson.quota_before for _host_id, lesson in lessons],
            "quotas_after": [lesson.quota_after for _host_id, lesson in lessons],
            "acknowledged_ids": [i for one in learned for i in one.acknowledged],
            "today": now.date(),
            "now": now,
        },
    )


def _columns(one: Learned) -> dict[str, Any]:
    """What is written of one host, by column."""
    caller, described = one.caller, one.description
    decisions = list(caller.last_decisions)
    if one.decision is not None:
        decisions = [one.decision, *decisions][:MOST_DECISIONS]
    return columns_of(described) | {
        "host_ids": caller.host_id,
        "rpc_seqno": 0 if caller.assigned else one.rpc_seqno,
        "host_cpid": stored_cpid(described.host_cpid, caller.email),
        "capabilities": dumps(described.capabilities),
        "last_decisions": dumps(decisions),
    }


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


def columns_of(description: HostDescription) -> dict[str, Any]:
    """What a client said, by column (`dataclasses.asdict` copies each value, for each RPC)."""
    return {name: getattr(description, name) for name in _FACTS}


def key_hash(key: str) -> str:
    """Under which hash a key is found."""
    return sha256(key.encode()).hexdigest()


def stored_cpid(host_cpid: str, email: str) -> str:
    """A host's cross-project id is stored hashed with the owner's e-mail (PROTOCOL 2.5)."""
    return md5((host_cpid + email).encode(), usedforsecurity=False).hexdigest() if host_cpid else ""


def detach(*, host_ids: Sequence[int], workunit_ids: Sequence[int], now: datetime) -> int:
    """End everything that hosts held, because they lost it; returns how many results that were.

    The workunits are locked already: all that the hosts hold results of.
    """
    if not (host_ids and workunit_ids):
        return 0
    wakeups.after_commit("transitioner")
    return len(
        sql.fetch(
            "hosts/detach_results",
            {"host_ids": list(host_ids), "workunit_ids": list(workunit_ids), "now": now},
        )
    )
