"""Grants credit for what was judged: by double entry, once each, into exact sums.

An entry debits the app and credits the host, the account and the account's team of that moment.
Their totals are sums of ``credit_entry``: each entry and what it adds are written in the same
transaction, and an entry that exists already adds nothing.  Locks are taken in one order, each
table in ascending ids: hosts, their records, accounts, teams, app versions, apps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from daemons.validator.learning import Lesson, learn, lessons_of, version_averages
from scheduler import sql
from scheduler.credit.rules.credit import recent_average

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from daemons.validator.comparing import Judged, Success

PACKAGE = "daemons.sql"
#: The name of the rule under which valid results are paid, once each.
RULE = "validated"
#: How much one new turnaround moves a host's average (PROTOCOL 9.4).
TURNAROUND_WEIGHT = 0.3
_NEVER: Mapping[str, Any] = {"expavg_credit": 0.0, "expavg_at": None}


@dataclass(slots=True)
class _Purse:
    """What one host, account, team or app gains in this pass."""

    granted: Decimal = Decimal(0)
    age: float = 0.0

    def add(self, amount: Decimal, age: float) -> None:
        """Take the pay of one result, sent `age` seconds ago."""
        self.granted += amount
        self.age = max(self.age, age)

    def average(self, row: Mapping[str, Any], now: datetime) -> float:
        """The owner's recent average with this gain."""
        return recent_average(
            row["expavg_credit"],
            row["expavg_at"],
            float(self.granted),
            work_began_at=now - timedelta(seconds=self.age),
            now=now,
        )


def _purses() -> defaultdict[Any, _Purse]:
    return defaultdict(_Purse)


@dataclass(slots=True)
class _Gains:
    hosts: dict[int, _Purse] = field(default_factory=_purses)
    accounts: dict[int, _Purse] = field(default_factory=_purses)
    account_apps: dict[tuple[int, int], _Purse] = field(default_factory=_purses)
    teams: dict[int, _Purse] = field(default_factory=_purses)
    apps: dict[int, _Purse] = field(default_factory=_purses)


def pay_and_learn(judged: Sequence[Judged], *, now: datetime) -> int:
    """Write credit, averages and host records in the caller's transaction; how many were paid.

    The workunits and results are locked by the caller.
    """
    lessons = lessons_of(judged)
    if not lessons:
        return 0
    gains, paid = _grant(judged, now=now)
    _update_hosts(lessons, gains, now=now)
    _update_accounts(gains, now=now)
    _update_teams(gains, now=now)
    _update_apps(lessons, gains)
    return paid


def _grant(judged: Iterable[Judged], *, now: datetime) -> tuple[_Gains, int]:
    due = {
        success.id: (success, one.workunit.app_id, one.pay)
        for one in judged
        for success in one.valid
        if one.pay and success.host_id is not None and success.account_id is not None
    }
    gains = _Gains()
    if not due:
        return gains, 0
    rows = [due[result_id] for result_id in sorted(due)]
    granted = sql.fetch(
        "insert_credit",
        {
            "now": now,
            "rule": RULE,
            "result_ids": sql.array(success.id for success, _, _ in rows),
            "account_ids": sql.array(success.account_id for success, _, _ in rows),
            "host_ids": sql.array(success.host_id for success, _, _ in rows),
            "app_ids": sql.array(app_id for _, app_id, _ in rows),
            "amounts": sql.array(amount for _, _, amount in rows),
        },
        PACKAGE,
    )
    for row in granted:
        success, app_id, amount = due[row["result_id"]]
        _enter(gains, success, app_id, row["team_id"], amount)
    return gains, len(granted)


def _enter(
    gains: _Gains, success: Success, app_id: int, team_id: int | None, amount: Decimal
) -> None:
    host_id, account_id = success.host_id or 0, success.account_id or 0
    gains.hosts[host_id].add(amount, success.age)
    gains.accounts[account_id].add(amount, success.age)
    gains.account_apps[account_id, app_id].add(amount, success.age)
    gains.apps[app_id].add(amount, success.age)
    if team_id is not None:
        gains.teams[team_id].add(amount, success.age)


def _update_hosts(lessons: Sequence[Lesson], gains: _Gains, *, now: datetime) -> None:
    ids = sorted({lesson.success.host_id or 0 for lesson in lessons})
    hosts = sql.fetch("lock_paid_hosts", {"ids": ids}, PACKAGE)
    learn(lessons)
    turnarounds = {row["id"]: row["turnaround_seconds"] for row in hosts}
    for lesson in lessons:
        if lesson.is_valid:
            host_id, new = lesson.success.host_id or 0, max(0.0, lesson.success.turnaround)
            before = turnarounds.get(host_id, 0)
            weight = TURNAROUND_WEIGHT if before else 1.0
            turnarounds[host_id] = (1 - weight) * before + weight * new
    is_paid = {row["id"]: row["id"] in gains.hosts for row in hosts}
    sql.execute(
        "pay_hosts",
        {
            "ids": sql.array(row["id"] for row in hosts),
            "granted": sql.array(
                gains.hosts[row["id"]].granted if is_paid[row["id"]] else Decimal(0)
                for row in hosts
            ),
            "expavg_credits": sql.array(
                gains.hosts[row["id"]].average(row, now)
                if is_paid[row["id"]]
                else row["expavg_credit"]
                for row in hosts
            ),
            "expavg_ats": sql.array(
                now if is_paid[row["id"]] else row["expavg_at"] for row in hosts
            ),
            "turnarounds": sql.array(turnarounds[row["id"]] for row in hosts),
        },
        PACKAGE,
    )


def _update_accounts(gains: _Gains, *, now: datetime) -> None:
    if not gains.accounts:
        return
    accounts = sql.fetch("lock_paid_accounts", {"ids": sorted(gains.accounts)}, PACKAGE)
    pairs = sorted(gains.account_apps)
    pair_params = {
        "account_ids": sql.array(account for account, _ in pairs),
        "app_ids": sql.array(app for _, app in pairs),
    }
    # Only now: whoever pays the same account waits for its lock, and what he wrote is seen here.
    known = {
        (row["account_id"], row["app_id"]): row
        for row in sql.fetch("read_app_credits", pair_params, PACKAGE)
    }
    sql.execute(
        "pay_accounts",
        {
            **pair_params,
            "now": now,
            "ids": sql.array(row["id"] for row in accounts),
            "granted": sql.array(gains.accounts[row["id"]].granted for row in accounts),
            "expavg_credits": sql.array(
                gains.accounts[row["id"]].average(row, now) for row in accounts
            ),
            "app_granted": sql.array(gains.account_apps[pair].granted for pair in pairs),
            "app_expavg_credits": sql.array(
                gains.account_apps[pair].average(known.get(pair, _NEVER), now) for pair in pairs
            ),
        },
        PACKAGE,
    )


def _update_teams(gains: _Gains, *, now: datetime) -> None:
    if not gains.teams:
        return
    teams = sql.fetch("lock_paid_teams", {"ids": sorted(gains.teams)}, PACKAGE)
    sql.execute(
        "pay_teams",
        {
            "now": now,
            "ids": [row["id"] for row in teams],
            "granted": [gains.teams[row["id"]].granted for row in teams],
            "expavg_credits": [gains.teams[row["id"]].average(row, now) for row in teams],
        },
        PACKAGE,
    )


def _update_apps(lessons: Sequence[Lesson], gains: _Gains) -> None:
    """Debit the apps; last of all, for every pass wants these few rows."""
    versions = version_averages(lessons)
    if not gains.apps and not versions:
        return
    apps = sorted(gains.apps)
    sql.execute(
        "pay_apps",
        {
            "version_ids": list(versions),
            "pfc_ns": [samples for samples, _ in versions.values()],
            "pfc_avgs": [average for _, average in versions.values()],
            "app_ids": apps,
            "granted": [gains.apps[app].granted for app in apps],
        },
        PACKAGE,
    )
