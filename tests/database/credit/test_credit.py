"""Each grant is recorded once and added to all sums: host, account, team and app."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest
from django.db import transaction

from daemons import validator
from daemons.validator import learning, paying
from scheduler.health.invariants import invariants
from scheduler.models import (
    AccountAppCredit,
    App,
    AppVersion,
    CreditEntry,
    HostAppVersion,
    Platform,
    Team,
    Workunit,
)
from tests import rows
from tests.conftest import NOON
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile, stopped_in
from tests.database.passes import a_pass, statements_of

pytestmark = pytest.mark.django_db

#: Credit for 3000 seconds at 1 GFLOPS.
PAY = Decimal("6.944444")


def a_team(name="team"):
    return Team.objects.create(name=name, created_at=NOON)


def asking(app, hosts, letters="", **fields):
    """Create a workunit with a successful result of each host, with one-letter outputs."""
    result_fields = {
        name: fields.pop(name)
        for name in ("app_version", "flops_estimate", "elapsed_time", "runtime_outlier")
        if name in fields
    }
    workunit = rows.a_workunit(app, need_validate=True, transition_at=None, **fields)
    results = [
        rows.a_result(workunit, "success", host=host, output=letter.encode(), **result_fields)
        for host, letter in zip(hosts, letters or "a" * len(hosts), strict=True)
    ]
    return workunit, results


def unbalanced():
    """Return the names of the violated invariants of credit."""
    return [one.name for one in invariants() if "credit" in one.name and one.find(NOON)]


def fresh(row):
    row.refresh_from_db()
    return row


# The sums


def test_a_grant_debits_the_app_and_credits_host_account_and_team():
    team = a_team()
    app = rows.an_app()
    member = rows.an_account(team=team)
    hosts = [rows.a_host(member), rows.a_host(rows.an_account())]
    asking(app, hosts)
    a_pass(validator)
    assert [fresh(host).total_credit for host in hosts] == [PAY, PAY]
    assert fresh(member).total_credit == PAY
    assert fresh(team).total_credit == PAY
    assert fresh(app).total_credit == 2 * PAY
    entries = CreditEntry.objects.order_by("id")
    assert [(one.amount, one.team_id) for one in entries] == [(PAY, team.pk), (PAY, None)]
    assert unbalanced() == []


def test_team_average_credit_counts_from_when_the_result_was_sent():
    team = a_team()
    hosts = [rows.a_host(rows.an_account(team=team)) for _ in range(2)]
    asking(rows.an_app(), hosts)
    a_pass(validator)
    assert fresh(team).expavg_credit == pytest.approx(24 * float(PAY))
    assert team.expavg_at == NOON


def test_credit_stays_with_the_team_at_the_time_of_the_grant():
    before, after = a_team("before"), a_team("after")
    app, account = rows.an_app(), rows.an_account(team=before)
    hosts = [rows.a_host(account), rows.a_host()]
    asking(app, hosts)
    a_pass(validator)
    rows.update(account, team=after)
    asking(app, hosts)
    a_pass(validator)
    assert (fresh(before).total_credit, fresh(after).total_credit) == (PAY, PAY)
    assert unbalanced() == []


def test_account_credit_is_summed_per_app():
    account = rows.an_account()
    hosts = [rows.a_host(account), rows.a_host()]
    first, second = rows.an_app(), rows.an_app()
    for app in (first, second, first):
        asking(app, hosts)
    a_pass(validator)
    kept = {row.app_id: row for row in AccountAppCredit.objects.filter(account=account)}
    assert (kept[first.pk].total, kept[second.pk].total) == (2 * PAY, PAY)
    assert kept[first.pk].expavg == pytest.approx(24 * float(PAY))
    a_week_later = NOON + timedelta(days=7)
    asking(second, hosts)
    a_pass(validator, now=a_week_later)
    later = AccountAppCredit.objects.get(account=account, app=second)
    # After a week, half of the old average, plus half of one grant per seven days.
    assert later.total == 2 * PAY
    assert later.expavg == pytest.approx(6 * float(PAY) + float(PAY) / 14)
    assert unbalanced() == []


def test_a_late_valid_result_is_granted_the_credit_of_the_canonical_result():
    app = rows.an_app(credit_rule="adaptive")
    workunit, results = asking(app, [rows.a_host() for _ in range(2)])
    a_pass(validator)
    paid = fresh(workunit).canonical_credit
    late = rows.a_result(workunit, "success", host=rows.a_host(), output=b"a", elapsed_time=9e9)
    rows.update(workunit, need_validate=True)
    a_pass(validator)
    assert fresh(late).granted_credit == paid == fresh(results[0]).granted_credit
    assert fresh(late.host).total_credit == paid
    assert unbalanced() == []


def test_a_revalidated_workunit_grants_new_results_the_credit_already_granted():
    app = rows.an_app()
    workunit, (first, second) = asking(app, [rows.a_host(), rows.a_host()])
    CreditEntry.objects.create(
        result_id=first.pk,
        rule="validated",
        account=first.account,
        host=first.host,
        app=app,
        amount=2,
        granted_at=NOON,
    )
    rows.update(first, granted_credit=2)
    a_pass(validator)
    assert fresh(workunit).canonical_credit == 2
    assert (fresh(first).granted_credit, fresh(second).granted_credit) == (2, 2)
    assert CreditEntry.objects.count() == 2
    assert fresh(app).total_credit == 2


def test_granted_credit_does_not_change_with_later_results():
    app = rows.an_app()
    workunit, results = asking(app, [rows.a_host() for _ in range(3)])
    for result, amount in zip(results, (2, 3), strict=False):
        CreditEntry.objects.create(
            result_id=result.pk,
            rule="validated",
            account=result.account,
            host=result.host,
            app=app,
            amount=amount,
            granted_at=NOON,
        )
        rows.update(result, granted_credit=amount)
    a_pass(validator)
    assert fresh(workunit).canonical_credit == 3
    assert [fresh(result).granted_credit for result in results] == [2, 3, 3]
    assert "granted_credit_is_entered" not in unbalanced()


def test_a_negative_credit_per_workunit_grants_zero():
    app = rows.an_app(credit_rule="fixed", credit_per_workunit=Decimal(-5))
    workunit, _ = asking(app, [rows.a_host(), rows.a_host()])
    a_pass(validator)
    assert fresh(workunit).canonical_credit == 0
    assert not CreditEntry.objects.exists()


# Adaptive credit


@pytest.fixture
def market():
    """An app, a version with 200 samples, an honest host and a host that claims double."""
    app = rows.an_app(credit_rule="adaptive")
    version = rows.an_app_version(app, pfc_n=200, pfc_avg=1.0, pfc_scale=1.0)
    hosts = [rows.a_host(), rows.a_host()]
    for host, average in zip(hosts, (1.0, 2.0), strict=True):
        HostAppVersion.objects.create(host=host, app_version=version, pfc_n=50, pfc_avg=average)
    return app, version, hosts


def test_claimed_credit_is_scaled_by_the_average_claim_of_the_host(market):
    app, version, (honest, greedy) = market
    workunit = rows.a_workunit(app, need_validate=True, rsc_fpops_est=7.2e12, rsc_fpops_bound=1e15)
    for host, seconds in ((honest, 3600.0), (greedy, 7200.0)):
        rows.a_result(
            workunit,
            "success",
            host=host,
            app_version=version,
            elapsed_time=seconds,
            flops_estimate=2e9,
            output=b"a",
        )
    a_pass(validator)
    assert float(fresh(workunit).canonical_credit) == pytest.approx(7.2e12 * 200 / 86_400e9)
    assert unbalanced() == []


def test_results_without_an_app_version_are_granted_the_estimated_credit():
    app = rows.an_app(credit_rule="adaptive", min_avg_pfc=0.5)
    workunit, _ = asking(
        app,
        [rows.a_host(), rows.a_host()],
        rsc_fpops_est=8.64e13,
        rsc_fpops_bound=1e16,
        elapsed_time=1e9,
    )
    a_pass(validator)
    assert fresh(workunit).canonical_credit == 100


def test_claims_of_the_anonymous_platform_are_replaced_by_the_estimate(market):
    app, version, hosts = market
    version.platform, _ = Platform.objects.get_or_create(name="anonymous")
    version.save()
    numbers = {"rsc_fpops_est": 8.64e13, "rsc_fpops_bound": 1e20, "elapsed_time": 1e6}
    workunit, _ = asking(app, hosts, app_version=version, flops_estimate=1e12, **numbers)
    a_pass(validator)
    assert fresh(workunit).canonical_credit == 200


def test_averages_of_claims_are_updated_for_hosts_and_versions(market):
    app, version, hosts = market
    asking(
        app, hosts, app_version=version, flops_estimate=2e9, elapsed_time=1000, rsc_fpops_est=1e12
    )
    a_pass(validator)
    assert (fresh(version).pfc_n, version.pfc_avg) == (202, pytest.approx(1.001999))
    first = HostAppVersion.objects.get(host=hosts[0])
    assert (first.pfc_n, first.pfc_avg) == (51, pytest.approx(1.01))


def test_a_runtime_outlier_is_granted_credit_but_does_not_update_averages(market):
    app, version, hosts = market
    asking(app, hosts, app_version=version, flops_estimate=2e9, runtime_outlier=True)
    a_pass(validator)
    assert fresh(version).pfc_n == 200
    record = HostAppVersion.objects.get(host=hosts[0])
    assert (record.pfc_n, record.et_n, record.turnaround_n, record.n_valid) == (50, 0, 1, 1)
    assert fresh(hosts[0]).total_credit > 0


# Trust and quotas of hosts


def test_valid_result_without_a_second_host_earns_no_trust():
    app = rows.an_app(target_nresults=2)
    version, host = rows.an_app_version(app), rows.a_host()
    asking(app, [host], app_version=version, min_quorum=1, target_nresults=1)
    a_pass(validator)
    record = HostAppVersion.objects.get(host=host)
    assert (record.consecutive_valid, record.n_valid) == (0, 1)


def test_a_valid_result_of_an_app_without_replication_counts_as_consecutive_valid():
    app = rows.an_app(target_nresults=1)
    version, host = rows.an_app_version(app), rows.a_host()
    asking(app, [host], app_version=version, min_quorum=1, target_nresults=1)
    a_pass(validator)
    assert HostAppVersion.objects.get(host=host).consecutive_valid == 1


def test_the_daily_quota_grows_with_valid_results_and_shrinks_with_invalid_ones():
    app = rows.an_app(daily_quota=40)
    version = rows.an_app_version(app)
    good, bad, other = hosts = [rows.a_host() for _ in range(3)]
    for host in (good, bad):
        HostAppVersion.objects.create(host=host, app_version=version, max_results_per_day=8)
    asking(app, hosts, "aba", app_version=version)
    a_pass(validator)
    quotas = {
        row.host_id: row.max_results_per_day
        for row in HostAppVersion.objects.filter(host__in=hosts)
    }
    assert quotas[good.pk] == 9
    assert quotas[bad.pk] < 8
    assert quotas[other.pk] == 41


def test_project_daily_quota_applies_to_apps_without_a_quota(settings):
    settings.PROJECT = replace(settings.PROJECT, daily_quota=70)
    app = rows.an_app()
    version, host = rows.an_app_version(app), rows.a_host()
    asking(app, [host, rows.a_host()], app_version=version)
    a_pass(validator)
    assert HostAppVersion.objects.get(host=host).max_results_per_day == 71


# The number of statements, crashes and concurrency


@pytest.mark.parametrize("count", [1, 60])
def test_validator_pass_with_credit_uses_20_statements_for_any_number_of_rows(count):
    app = rows.an_app(credit_rule="adaptive")
    version = rows.an_app_version(app)
    hosts = [rows.a_host(rows.an_account(team=a_team(f"team {n}"))) for n in range(2)]
    for _ in range(count):
        asking(app, hosts, app_version=version, flops_estimate=2e9, rsc_fpops_est=1e12)
    assert statements_of(lambda: a_pass(validator)) == 20
    assert Workunit.objects.filter(canonical_result__isnull=False).count() == count
    assert unbalanced() == []


@pytest.mark.parametrize(
    "step", ["_grant", "_update_hosts", "_update_accounts", "_update_teams", "_update_apps"]
)
def test_a_crash_while_granting_credit_rolls_back_the_whole_grant(step, monkeypatch):
    team, app = a_team(), rows.an_app()
    host = rows.a_host(rows.an_account(team=team))
    workunit, _ = asking(app, [host, rows.a_host()])
    real = getattr(paying, step)

    def crash(*args, **kwargs):
        real(*args, **kwargs)
        raise RuntimeError("the power is gone")

    monkeypatch.setattr(paying, step, crash)
    with pytest.raises(RuntimeError, match="the power is gone"), transaction.atomic():
        a_pass(validator)
    assert not CreditEntry.objects.exists()
    assert (fresh(host).total_credit, fresh(team).total_credit, fresh(app).total_credit) == (0,) * 3
    monkeypatch.setattr(paying, step, real)
    a_pass(validator)
    assert fresh(workunit).canonical_result_id is not None
    assert (fresh(host).total_credit, fresh(app).total_credit) == (PAY, 2 * PAY)
    assert unbalanced() == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("step", ["_update_accounts", "_update_teams", "_update_apps"])
def test_two_validators_grant_credit_to_the_same_accounts_in_turn(step, monkeypatch):
    team = a_team()
    account = rows.an_account(team=team)
    app = rows.an_app(credit_rule="adaptive", min_avg_pfc=1)
    version = rows.an_app_version(app)
    hosts = [rows.a_host(account), rows.a_host(account)]
    for _ in range(2):
        asking(
            app,
            hosts,
            app_version=version,
            flops_estimate=2e9,
            elapsed_time=1000,
            rsc_fpops_est=2e12,
        )
    with stopped_in(monkeypatch, paying, step) as (arrived, go):
        first = Meanwhile(lambda: a_pass(validator, limit=1))
        assert arrived.wait(PATIENCE)
        second = Meanwhile(lambda: a_pass(validator, limit=1))
        assert second.is_waiting
        go.set()
        assert (first.wait().seen, second.wait().seen) == (1, 1)
    paid = CreditEntry.objects.count()
    assert paid == 4
    assert fresh(account).total_credit == fresh(team).total_credit == App.objects.get().total_credit
    assert AppVersion.objects.get().pfc_n == 4
    assert AccountAppCredit.objects.get().total == fresh(account).total_credit
    assert unbalanced() == []


@pytest.mark.django_db(transaction=True)
def test_concurrent_loss_of_trust_waits_for_the_validator_and_prevails(monkeypatch):
    app = rows.an_app()
    version, host = rows.an_app_version(app), rows.a_host()
    record = HostAppVersion.objects.create(host=host, app_version=version, consecutive_valid=7)
    asking(app, [host, rows.a_host()], app_version=version)
    with stopped_in(monkeypatch, learning.trust, "after_valid") as (arrived, go):
        judging = Meanwhile(lambda: a_pass(validator))
        assert arrived.wait(PATIENCE)
        distrusting = Meanwhile(
            lambda: HostAppVersion.objects.filter(pk=record.pk).update(consecutive_valid=0)
        )
        assert distrusting.is_waiting
        go.set()
        judging.wait()
        distrusting.wait()
    assert (fresh(record).consecutive_valid, record.n_valid) == (0, 1)


@pytest.mark.django_db(transaction=True)
def test_two_validators_update_a_versions_averages_in_turn(monkeypatch):
    app = rows.an_app()
    version = rows.an_app_version(app)
    for _ in range(2):
        hosts = [rows.a_host(), rows.a_host()]
        asking(app, hosts, app_version=version, flops_estimate=2e9, rsc_fpops_est=1e12)
    # The first validator stops after it has read the version's averages, before it writes them.
    real = paying.version_averages
    stage = SimpleNamespace(after=lambda averages: averages)
    monkeypatch.setattr(paying, "version_averages", lambda found: stage.after(real(found)))
    with stopped_in(monkeypatch, stage, "after") as (arrived, go):
        first = Meanwhile(lambda: a_pass(validator, limit=1))
        assert arrived.wait(PATIENCE)
        second = Meanwhile(lambda: a_pass(validator, limit=1))
        assert second.is_waiting
        go.set()
        first.wait()
        second.wait()
    assert fresh(version).pfc_n == 4
