"""The housekeeper counts each credit entry once by computer, team and app."""

from __future__ import annotations

import threading
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import transaction
from django.db.models import Sum

from daemons import housekeeper, validator
from daemons.validator import paying
from scheduler.credit import app_credits, manual_grants
from scheduler.credit.rules.credit import HALF_LIFE_SECONDS
from scheduler.health.invariants import invariants
from scheduler.hosts import merge_hosts
from scheduler.models import AppCreditCursor, CreditEntry, Host, HostAppCredit, Team, TeamAppCredit
from tests import rows
from tests.conftest import NOON
from tests.database.credit.test_credit import asking
from tests.database.credit.test_manual_grants import a_request
from tests.database.daemons.test_interleavings import PATIENCE, Meanwhile, stopped_in
from tests.database.passes import a_pass

pytestmark = pytest.mark.django_db

HALF_LIFE = timedelta(seconds=HALF_LIFE_SECONDS)


def an_entry(host, app, amount, *, team=None, at=NOON, **columns):
    return CreditEntry.objects.create(
        **{
            "result_id": CreditEntry.objects.count() + 10_000,
            "rule": "validated",
            "account": rows.an_account() if host is None else host.account,
            "host": host,
            "team": team,
            "app": app,
            "amount": Decimal(amount),
            "granted_at": at,
            **columns,
        }
    )


def a_team(name="reds"):
    return Team.objects.create(name=name, created_at=NOON)


def of_hosts():
    return {(row.host_id, row.app.name): row.total for row in HostAppCredit.objects.all()}


def of_teams():
    return {(row.team.name, row.app.name): row.total for row in TeamAppCredit.objects.all()}


def broken():
    return [each.name for each in invariants() if "app_credit" in each.name and each.find(NOON)]


def test_entries_are_summed_by_computer_team_and_app():
    first, second = rows.a_host(), rows.a_host()
    primes, twins, reds = rows.an_app("primes"), rows.an_app("twins"), a_team()
    an_entry(first, primes, 5, team=reds)
    an_entry(first, primes, 3)
    an_entry(first, twins, 2, team=reds)
    an_entry(second, primes, 1, team=reds)
    an_entry(None, primes, 40, team=reds, result_id=None)
    an_entry(first, None, 50, team=reds, result_id=None)
    assert app_credits.count(now=NOON) == 6
    assert of_hosts() == {
        (first.pk, "primes"): 8,
        (first.pk, "twins"): 2,
        (second.pk, "primes"): 1,
    }
    assert of_teams() == {("reds", "primes"): 46, ("reds", "twins"): 2}
    assert "host_app_credit_is_its_sum" not in broken()
    assert "team_app_credit_is_its_sum" not in broken()


def test_entries_are_counted_once():
    host, app = rows.a_host(), rows.an_app("primes")
    an_entry(host, app, 5)
    assert app_credits.count(now=NOON) == 1
    assert app_credits.count(now=NOON) == 0
    an_entry(host, app, 2)
    assert app_credits.count(now=NOON) == 1
    assert of_hosts() == {(host.pk, "primes"): 7}


def test_chunks_and_the_limit_of_a_call_end_between_entries():
    host, app = rows.a_host(), rows.an_app("primes")
    ids = [an_entry(host, app, 1).pk for _ in range(7)]
    assert app_credits.count(now=NOON, chunk=2, limit=5) == 5
    assert app_credits.counted_to() == ids[4]
    assert of_hosts() == {(host.pk, "primes"): 5}
    assert app_credits.count(now=NOON, chunk=2, limit=5) == 2
    assert of_hosts() == {(host.pk, "primes"): 7}


def test_recent_average_is_the_sum_of_grants_that_lose_half_of_their_weight_in_a_half_life():
    host, app, reds = rows.a_host(), rows.an_app("primes"), a_team()
    an_entry(host, app, 8, team=reds, at=NOON - HALF_LIFE)
    an_entry(host, app, 100, team=reds, result_id=None)
    app_credits.count(now=NOON)
    an_entry(host, app, 3, team=reds, at=NOON + HALF_LIFE)
    app_credits.count(now=NOON + HALF_LIFE)
    # ln 2 in 7 days is the rate at which an average loses weight; entries by hand do not count.
    expected = (8 / 4 + 3) * 0.693147 / 7
    [by_host], [by_team] = HostAppCredit.objects.all(), TeamAppCredit.objects.all()
    assert by_host.expavg == pytest.approx(expected, rel=1e-5)
    assert by_team.expavg == pytest.approx(expected, rel=1e-5)
    assert by_host.expavg_at == NOON + HALF_LIFE


def test_steady_work_has_its_credit_per_day_as_recent_average():
    host, app = rows.a_host(), rows.an_app("primes")
    for hour in range(24 * 70):
        an_entry(host, app, 2, at=NOON + timedelta(hours=hour), result_id=hour + 1)
    app_credits.count(now=NOON + timedelta(days=70))
    assert HostAppCredit.objects.get().expavg == pytest.approx(48, rel=0.01)


def test_housekeeper_counts_and_fades():
    host, app = rows.a_host(), rows.an_app("primes")
    an_entry(host, app, 8, team=a_team(), at=NOON)
    housekeeper.run_pass(now=NOON, limit=100)
    before = HostAppCredit.objects.get().expavg
    assert before > 0
    housekeeper.run_pass(now=NOON + HALF_LIFE, limit=100)
    assert HostAppCredit.objects.get().expavg == pytest.approx(before / 2)
    assert TeamAppCredit.objects.get().expavg == pytest.approx(before / 2)


# Concurrent transactions


@pytest.mark.django_db(transaction=True)
def test_entry_that_commits_after_a_newer_one_is_counted():
    host, app = rows.a_host(), rows.an_app("primes")
    inserted, go = threading.Event(), threading.Event()

    def pay_slowly():
        with transaction.atomic():
            app_credits.share_entry_lock()
            an_entry(host, app, 5, result_id=1)
            inserted.set()
            assert go.wait(PATIENCE)

    slow = Meanwhile(pay_slowly)
    assert inserted.wait(PATIENCE)
    newer = an_entry(host, app, 2, result_id=2)
    counting = Meanwhile(lambda: app_credits.count(now=NOON))
    assert counting.is_waiting
    go.set()
    slow.wait()
    counting.wait()
    app_credits.count(now=NOON)
    assert of_hosts() == {(host.pk, "primes"): 7}
    assert app_credits.counted_to() == newer.pk


@pytest.mark.django_db(transaction=True)
def test_count_waits_for_a_validator_that_has_inserted_entries(monkeypatch):
    app, hosts = rows.an_app("primes"), [rows.a_host(), rows.a_host()]
    asking(app, hosts)
    with stopped_in(monkeypatch, paying, "_update_hosts") as (arrived, go):
        validating = Meanwhile(lambda: a_pass(validator))
        assert arrived.wait(PATIENCE)
        # Of no result that the validator pays, for whose entry this insert would wait.
        an_entry(hosts[0], app, 2, result_id=10**9)
        counting = Meanwhile(lambda: app_credits.count(now=NOON))
        assert counting.is_waiting
        go.set()
        assert validating.wait().seen == 1
        counting.wait()
    app_credits.count(now=NOON)
    paid = {(host.pk, "primes"): Host.objects.get(pk=host.pk).total_credit for host in hosts}
    assert of_hosts() == paid | {(hosts[0].pk, "primes"): paid[hosts[0].pk, "primes"] + 2}


@pytest.mark.django_db(transaction=True)
def test_grant_by_hand_waits_while_the_end_of_the_entries_is_read(monkeypatch):
    host = rows.a_host()
    with stopped_in(monkeypatch, app_credits, "Max") as (arrived, go):
        counting = Meanwhile(lambda: app_credits.count(now=NOON))
        assert arrived.wait(PATIENCE)
        granting = Meanwhile(
            lambda: manual_grants.grant(a_request(host), granted_by=None, now=NOON)
        )
        assert granting.is_waiting
        go.set()
        assert counting.wait() == 0
        granting.wait()


@pytest.mark.django_db(transaction=True)
def test_two_housekeepers_count_each_entry_once(monkeypatch):
    host, app = rows.a_host(), rows.an_app("primes")
    for number in range(5):
        an_entry(host, app, 1, result_id=number + 1)
    with stopped_in(monkeypatch, app_credits, "lock_cursor") as (arrived, go):
        first = Meanwhile(lambda: app_credits.count(now=NOON, chunk=2))
        assert arrived.wait(PATIENCE)
        second = app_credits.count(now=NOON, chunk=2)
        go.set()
        assert first.wait() + second == 5
    assert of_hosts() == {(host.pk, "primes"): 5}


@pytest.mark.django_db(transaction=True)
def test_merge_waits_for_a_chunk_and_moves_what_it_counted(monkeypatch):
    account = rows.an_account()
    kept, merged, app = rows.a_host(account), rows.a_host(account), rows.an_app("primes")
    an_entry(merged, app, 5, result_id=1)
    with stopped_in(monkeypatch, app_credits.AppCreditCursor.objects, "update") as (arrived, go):
        counting = Meanwhile(lambda: app_credits.count(now=NOON))
        assert arrived.wait(PATIENCE)
        merging = Meanwhile(lambda: merge_hosts.merge(kept_id=kept.pk, merged_id=merged.pk))
        assert merging.is_waiting
        go.set()
        counting.wait()
        merging.wait()
    assert of_hosts() == {(kept.pk, "primes"): 5}
    assert Host.objects.get(pk=kept.pk).total_credit == 5


@pytest.mark.django_db(transaction=True)
def test_chunk_that_fails_counts_nothing_and_is_repeated(monkeypatch):
    host, app = rows.a_host(), rows.an_app("primes")
    for number in range(4):
        an_entry(host, app, 1, result_id=number + 1)

    def killed(**_columns):
        raise InterruptedError

    app_credits.count(now=NOON, chunk=2, limit=2)
    with monkeypatch.context() as patched:
        patched.setattr(AppCreditCursor.objects, "update", killed)
        with pytest.raises(InterruptedError):
            app_credits.count(now=NOON, chunk=2)
    assert HostAppCredit.objects.aggregate(sum=Sum("total"))["sum"] == 2
    assert app_credits.count(now=NOON, chunk=2) == 2
    assert of_hosts() == {(host.pk, "primes"): 4}
