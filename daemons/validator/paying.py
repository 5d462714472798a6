"""Grants credit for what was judged, and remembers how hosts did.

Host and account totals are sums of ``credit_entry``: each entry and what it adds are written in the
same transaction, and an entry that exists already adds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from scheduler import sql
from scheduler.policy.credit import recent_average, running_average

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemons.validator.comparing import Judged, Success

PACKAGE = "daemons.sql"
#: The name of the rule under which valid results are paid, once each.
RULE = "validated"


@dataclass(slots=True)
class _Purse:
    """What one host or account gains in this pass."""

    granted: Decimal = Decimal(0)
    age: float = 0.0

    def add(self, amount: Decimal, age: float) -> None:
        """Take the pay of one result, sent `age` seconds ago."""
        self.granted += amount
        self.age = max(self.age, age)

    def average(self, row: dict[str, Any], now: datetime) -> float:
        """The owner's recent average with this gain."""
        return recent_average(
            row["expavg_credit"],
            row["expavg_at"],
            float(self.granted),
            work_began_at=now - timedelta(seconds=self.age),
            now=now,
        )


@dataclass(slots=True)
class _Record:
    """How one app version did on one host (PROTOCOL 9.4)."""

    n_valid: int = 0
    consecutive_valid: int = 0
    et_n: float = 0.0
    et_avg: float = 0.0
    turnaround_n: float = 0.0
    turnaround_avg: float = 0.0

    def add_valid(self, success: Success, fpops: float) -> None:
        """Learn from a valid result of `fpops` operations."""
        self.n_valid += 1
        self.consecutive_valid += 1
        self.turnaround_avg, self.turnaround_n = running_average(
            self.turnaround_avg, self.turnaround_n, max(0.0, success.turnaround)
        )
        # A run too short for the client's clock would teach that the host is infinitely fast.
        if success.elapsed_time > 0:
            self.et_avg, self.et_n = running_average(
                self.et_avg, self.et_n, success.elapsed_time / fpops
            )


@dataclass(slots=True)
class _Gains:
    hosts: dict[int, _Purse] = field(default_factory=lambda: defaultdict(_Purse))
    accounts: dict[int, _Purse] = field(default_factory=lambda: defaultdict(_Purse))


def pay_and_learn(judged: Sequence[Judged], *, now: datetime) -> int:
    """Write credit, averages and host records in the caller's transaction; how many were paid."""
    on_hosts = any(s.host_id is not None for one in judged for s in (*one.valid, *one.refused))
    if not on_hosts:
        return 0
    gains, paid = _grant(judged, now=now)
    _update_hosts(judged, gains, now=now)
    _update_accounts(gains, now=now)
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
            "result_ids": [success.id for success, _, _ in rows],
            "account_ids": [success.account_id for success, _, _ in rows],
            "host_ids": [success.host_id for success, _, _ in rows],
            "app_ids": [app_id for _, app_id, _ in rows],
            "amounts": [amount for _, _, amount in rows],
        },
        PACKAGE,
    )
    for row in granted:
        success, _, amount = due[row["result_id"]]
        if amount and success.host_id is not None and success.account_id is not None:
            gains.hosts[success.host_id].add(amount, success.age)
            gains.accounts[success.account_id].add(amount, success.age)
    return gains, len(granted)


def _update_hosts(judged: Sequence[Judged], gains: _Gains, *, now: datetime) -> None:
    valid = [
        (success, one.workunit.rsc_fpops_est)
        for one in judged
        for success in one.valid
        if success.host_id is not None
    ]
    refused = [s for one in judged for s in one.refused if s.host_id is not None]
    ids = {s.host_id for s, _ in valid} | {s.host_id for s in refused}
    hosts = sql.fetch("lock_paid_hosts", {"ids": sorted(i for i in ids if i)}, PACKAGE)
    _learn(valid, refused)
    turnarounds = {row["id"]: row["turnaround_seconds"] for row in hosts}
    for success, _ in valid:
        before = turnarounds.get(success.host_id or 0, 0)
        new = max(0.0, success.turnaround)
        turnarounds[success.host_id or 0] = 0.7 * before + 0.3 * new if before else new
    is_paid = {row["id"]: row["id"] in gains.hosts for row in hosts}
    sql.execute(
        "pay_hosts",
        {
            "ids": [row["id"] for row in hosts],
            "granted": [
                gains.hosts[row["id"]].granted if is_paid[row["id"]] else Decimal(0)
                for row in hosts
            ],
            "expavg_credits": [
                gains.hosts[row["id"]].average(row, now)
                if is_paid[row["id"]]
                else row["expavg_credit"]
                for row in hosts
            ],
            "expavg_ats": [now if is_paid[row["id"]] else row["expavg_at"] for row in hosts],
            "turnarounds": [turnarounds[row["id"]] for row in hosts],
        },
        PACKAGE,
    )


def _update_accounts(gains: _Gains, *, now: datetime) -> None:
    if not gains.accounts:
        return
    accounts = sql.fetch("lock_paid_accounts", {"ids": sorted(gains.accounts)}, PACKAGE)
    sql.execute(
        "pay_accounts",
        {
            "now": now,
            "ids": [row["id"] for row in accounts],
            "granted": [gains.accounts[row["id"]].granted for row in accounts],
            "expavg_credits": [gains.accounts[row["id"]].average(row, now) for row in accounts],
        },
        PACKAGE,
    )


def _learn(valid: Sequence[tuple[Success, float]], refused: Iterable[Success]) -> None:
    """Bring the records of the locked hosts up to date, oldest result first."""
    fpops = {success.id: estimate for success, estimate in valid}
    lessons = sorted(
        (s for s in (*(one for one, _ in valid), *refused) if s.app_version_id is not None),
        key=lambda success: success.id,
    )
    pairs = sorted({(s.host_id or 0, s.app_version_id or 0) for s in lessons})
    if not pairs:
        return
    params = {
        "host_ids": [host for host, _ in pairs],
        "app_version_ids": [version for _, version in pairs],
    }
    records = {pair: _Record() for pair in pairs}
    for row in sql.fetch("read_host_app_versions", params, PACKAGE):
        pair = (row.pop("host_id"), row.pop("app_version_id"))
        records[pair] = _Record(**row)
    for success in lessons:
        record = records[success.host_id or 0, success.app_version_id or 0]
        if success.id in fpops:
            record.add_valid(success, fpops[success.id])
        else:
            record.consecutive_valid = 0
    kept = [records[pair] for pair in pairs]
    sql.execute(
        "learn_host_app_versions",
        {
            **params,
            "consecutive_valids": [record.consecutive_valid for record in kept],
            "n_valids": [record.n_valid for record in kept],
            "et_ns": [record.et_n for record in kept],
            "et_avgs": [record.et_avg for record in kept],
            "turnaround_ns": [record.turnaround_n for record in kept],
            "turnaround_avgs": [record.turnaround_avg for record in kept],
        },
        PACKAGE,
    )
