"""Grants credit for judged results by double entry, once per result.

An entry debits the app and credits the host, the account and the team to which the account belongs
at that time.  Totals are sums of ``credit_entry``: an entry and the changes of the totals are
written in the same transaction, and an entry that already exists changes no total.  Locks are taken
in one order, each table in ascending ids: hosts, host records, accounts, teams, app versions, apps.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from daemons.validator.learning import (
    JudgedResult,
    judged_results,
    update_records,
    version_averages,
)
from scheduler import sql
from scheduler.credit.rules.credit import recent_average
from scheduler.models import CreditEntry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from daemons.validator.comparing import Judged

PACKAGE = "daemons.sql"
#: The weight of a new turnaround in a host's average (PROTOCOL 9.4).
TURNAROUND_WEIGHT = 0.3
_NEVER: Mapping[str, Any] = {"expavg_credit": 0.0, "expavg_at": None}


@dataclass(slots=True)
class _Gain:
    """The credit that one host, account, team or app gains in this pass."""

    granted: Decimal = Decimal(0)
    age: float = 0.0

    def add(self, amount: Decimal, age: float) -> None:
        """Add the pay of one result that was sent `age` seconds ago."""
        self.granted += amount
        self.age = max(self.age, age)

    def average(self, row: Mapping[str, Any], now: datetime) -> float:
        """Return the recent average after this gain; `row` has the average before it."""
        return recent_average(
            row["expavg_credit"],
            row["expavg_at"],
            float(self.granted),
            work_began_at=now - timedelta(seconds=self.age),
            now=now,
        )


def _gain_map() -> defaultdict[Any, _Gain]:
    return defaultdict(_Gain)


@dataclass(slots=True)
class _Gains:
    hosts: dict[int, _Gain] = field(default_factory=_gain_map)
    accounts: dict[int, _Gain] = field(default_factory=_gain_map)
    account_apps: dict[tuple[int, int], _Gain] = field(default_factory=_gain_map)
    teams: dict[int, _Gain] = field(default_factory=_gain_map)
    apps: dict[int, _Gain] = field(default_factory=_gain_map)


def pay_and_learn(judged: Sequence[Judged], *, now: datetime) -> int:
    """Write credit, averages and host statistics; return the number of paid results.

    Runs in the caller's transaction, which has locked the workunits and results.
    """
    results = judged_results(judged)
    if not results:
        return 0
    gains, paid = _grant(judged, now=now)
    _update_hosts(results, gains, now=now)
    _update_accounts(gains, now=now)
    _update_teams(gains, now=now)
    _update_apps(results, gains)
    return paid


def _grant(judged: Iterable[Judged], *, now: datetime) -> tuple[_Gains, int]:
    due = {
        success.id: (success, entry.workunit.app_id, entry.pay)
        for entry in judged
        for success in entry.valid
        if entry.pay and success.host_id is not None and success.account_id is not None
    }
    gains = _Gains()
    if not due:
        return gains, 0
    rows = [due[result_id] for result_id in sorted(due)]
    params = {
        "now": now,
        "rule": CreditEntry.VALIDATED,
        "result_ids": sql.array(success.id for success, _, _ in rows),
        "account_ids": sql.array(success.account_id for success, _, _ in rows),
        "host_ids": sql.array(success.host_id for success, _, _ in rows),
        "app_ids": sql.array(app_id for _, app_id, _ in rows),
        "amounts": sql.array(amount for _, _, amount in rows),
    }
    granted = sql.fetch("insert_credit", params, PACKAGE)
    for row in granted:
        success, app_id, amount = due[row["result_id"]]
        host_id, account_id = success.host_id or 0, success.account_id or 0
        gains.hosts[host_id].add(amount, success.age)
        gains.accounts[account_id].add(amount, success.age)
        gains.account_apps[account_id, app_id].add(amount, success.age)
        gains.apps[app_id].add(amount, success.age)
        if row["team_id"] is not None:
            gains.teams[row["team_id"]].add(amount, success.age)
    return gains, len(granted)


def _update_hosts(results: Sequence[JudgedResult], gains: _Gains, *, now: datetime) -> None:
    ids = sorted({result.success.host_id or 0 for result in results})
    hosts = sql.fetch("lock_paid_hosts", {"ids": ids}, PACKAGE)
    update_records(results)
    turnarounds = {row["id"]: row["turnaround_seconds"] for row in hosts}
    for result in results:
        if result.is_valid:
            host_id, new = result.success.host_id or 0, max(0.0, result.success.turnaround)
            before = turnarounds.get(host_id, 0)
            weight = TURNAROUND_WEIGHT if before else 1.0
            turnarounds[host_id] = (1 - weight) * before + weight * new
    is_paid = {row["id"]: row["id"] in gains.hosts for row in hosts}
    params = {
        "ids": sql.array(row["id"] for row in hosts),
        "granted": sql.array(
            gains.hosts[row["id"]].granted if is_paid[row["id"]] else Decimal(0) for row in hosts
        ),
        "expavg_credits": sql.array(
            gains.hosts[row["id"]].average(row, now) if is_paid[row["id"]] else row["expavg_credit"]
            for row in hosts
        ),
        "expavg_ats": sql.array(now if is_paid[row["id"]] else row["expavg_at"] for row in hosts),
        "turnarounds": sql.array(turnarounds[row["id"]] for row in hosts),
    }
    sql.execute("pay_hosts", params, PACKAGE)


def _update_accounts(gains: _Gains, *, now: datetime) -> None:
    if not gains.accounts:
        return
    accounts = sql.fetch("lock_paid_accounts", {"ids": sorted(gains.accounts)}, PACKAGE)
    pairs = sorted(gains.account_apps)
    pair_params = {
        "account_ids": sql.array(account for account, _ in pairs),
        "app_ids": sql.array(app for _, app in pairs),
    }
    # Read after the accounts are locked, so that all earlier payments to them are visible.
    app_credits = {
        (row["account_id"], row["app_id"]): row
        for row in sql.fetch("read_app_credits", pair_params, PACKAGE)
    }
    params = {
        **pair_params,
        "now": now,
        "ids": sql.array(row["id"] for row in accounts),
        "granted": sql.array(gains.accounts[row["id"]].granted for row in accounts),
        "expavg_credits": sql.array(
            gains.accounts[row["id"]].average(row, now) for row in accounts
        ),
        "app_granted": sql.array(gains.account_apps[pair].granted for pair in pairs),
        "app_expavg_credits": sql.array(
            gains.account_apps[pair].average(app_credits.get(pair, _NEVER), now) for pair in pairs
        ),
    }
    sql.execute("pay_accounts", params, PACKAGE)


def _update_teams(gains: _Gains, *, now: datetime) -> None:
    if not gains.teams:
        return
    teams = sql.fetch("lock_paid_teams", {"ids": sorted(gains.teams)}, PACKAGE)
    params = {
        "now": now,
        "ids": [row["id"] for row in teams],
        "granted": [gains.teams[row["id"]].granted for row in teams],
        "expavg_credits": [gains.teams[row["id"]].average(row, now) for row in teams],
    }
    sql.execute("pay_teams", params, PACKAGE)


def _update_apps(results: Sequence[JudgedResult], gains: _Gains) -> None:
    """Debit apps and update app versions.

    This is the last step, because all passes lock these rows.
    """
    versions = version_averages(results)
    if not gains.apps and not versions:
        return
    apps = sorted(gains.apps)
    params = {
        "version_ids": list(versions),
        "pfc_ns": [samples for samples, _ in versions.values()],
        "pfc_avgs": [average for _, average in versions.values()],
        "app_ids": apps,
        "granted": [gains.apps[app].granted for app in apps],
    }
    sql.execute("pay_apps", params, PACKAGE)
