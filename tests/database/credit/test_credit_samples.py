"""Daily samples of credit: what is kept, merged, erased and dropped."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from daemons import housekeeper
from scheduler.credit import credit_samples
from scheduler.credit.credit_samples import Kind
from scheduler.hosts import merge_hosts, own_deletions
from scheduler.models import Account, CreditEntry, CreditSample, Host, Team
from scheduler.people.personal_data import erasure
from tests.conftest import NOON
from tests.rows import a_host, an_account, an_app, update

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
YESTERDAY = (NOON - DAY).date()


@pytest.fixture
def ada() -> Account:
    return an_account("ada", total_credit=Decimal(100))


def kept(kind: Kind, holder_id: int) -> list[tuple[date, Decimal]]:
    rows = CreditSample.objects.filter(kind=kind, holder_id=holder_id).order_by("day")
    return [(row.day, row.total_credit) for row in rows]


def credits_of(kind: Kind, holder_id: int, *, days: int = 30, now=NOON) -> list[tuple[date, int]]:
    rows = credit_samples.read(kind, holder_id, days=days, now=now)
    return [(row.day, int(row.credit)) for row in rows]


def add(row, amount: int) -> None:
    row.refresh_from_db()
    update(row, total_credit=row.total_credit + amount)


def test_samples_of_the_day_that_ended_are_kept_once(ada):
    host = a_host(ada, total_credit=Decimal(60))
    team = Team.objects.create(name="primes", created_at=NOON, total_credit=Decimal(7))
    assert credit_samples.keep(now=NOON) == 4
    add(ada, 1)
    assert credit_samples.keep(now=NOON + timedelta(hours=3)) == 0
    assert kept(Kind.ACCOUNT, ada.pk) == [(YESTERDAY, 100)]
    assert kept(Kind.HOST, host.pk) == [(YESTERDAY, 60)]
    assert kept(Kind.TEAM, team.pk) == [(YESTERDAY, 7)]
    assert kept(Kind.PROJECT, 0) == [(YESTERDAY, 100)]


def test_only_changed_totals_are_kept_and_the_others_had_no_credit(ada):
    bob = an_account("bob", total_credit=Decimal(5))
    credit_samples.keep(now=NOON)
    add(ada, 40)
    assert credit_samples.keep(now=NOON + DAY) == 2
    assert len(kept(Kind.ACCOUNT, bob.pk)) == 1
    today = NOON.date()
    for kind, holder, amount in (
        (Kind.ACCOUNT, ada.pk, 40),
        (Kind.ACCOUNT, bob.pk, 0),
        (Kind.PROJECT, 0, 40),
        (Kind.ACCOUNT, 2**60, 0),
    ):
        assert credits_of(kind, holder, now=NOON + DAY) == [(today, amount)]


def test_number_of_statements_does_not_depend_on_the_number_of_holders(ada):
    def statements(now) -> int:
        with CaptureQueriesContext(connection) as captured:
            credit_samples.keep(now=now)
        return len(captured)

    few = statements(NOON)
    for number in range(5):
        a_host(an_account(f"a{number}", total_credit=Decimal(3)), total_credit=Decimal(2))
    assert statements(NOON + DAY) == few


def test_reading_takes_one_statement_and_only_the_period(ada):
    for number in range(6):
        add(ada, 10)
        credit_samples.keep(now=NOON + number * DAY)
    with CaptureQueriesContext(connection) as captured:
        rows = credits_of(Kind.ACCOUNT, ada.pk, days=2, now=NOON + 5 * DAY)
    assert len(captured) == 1
    assert rows == [((NOON + number * DAY).date(), 10) for number in (3, 4)]


def test_blocked_accounts_and_merged_computers_are_not_sampled(ada):
    host = a_host(ada, total_credit=Decimal(9))
    update(host, merged_into=a_host(ada))
    blocked = an_account("bob", is_active=False, total_credit=Decimal(5))
    a_host(blocked, total_credit=Decimal(5))
    credit_samples.keep(now=NOON)
    assert kept(Kind.HOST, host.pk) == kept(Kind.ACCOUNT, blocked.pk) == []
    assert CreditSample.objects.count() == 2


def test_merged_computers_add_their_samples_so_that_no_day_has_the_credit_of_all(ada):
    app = an_app()
    old, new = a_host(ada), a_host(ada)
    earn(app, old, 100)
    credit_samples.keep(now=NOON)
    earn(app, new, 10)
    credit_samples.keep(now=NOON + DAY)
    merge_hosts.merge(kept_id=new.pk, merged_id=old.pk)
    earn(app, new, 3)
    credit_samples.keep(now=NOON + 2 * DAY)
    assert [int(total) for _day, total in kept(Kind.HOST, new.pk)] == [100, 110, 113]
    assert kept(Kind.HOST, old.pk) == []
    rows = credits_of(Kind.HOST, new.pk, now=NOON + 2 * DAY)
    assert [amount for _day, amount in rows] == [10, 3]


def earn(app, host: Host, amount: int) -> None:
    CreditEntry.objects.create(
        result_id=CreditEntry.objects.count() + 1,
        rule="fixed",
        account=host.account,
        host=host,
        app=app,
        amount=Decimal(amount),
        granted_at=NOON,
    )
    add(host, amount)


def test_merge_of_a_computer_without_samples_changes_none(ada):
    kept_host, merged = a_host(ada, total_credit=Decimal(4)), a_host(ada)
    credit_samples.keep(now=NOON)
    merge_hosts.merge(kept_id=kept_host.pk, merged_id=merged.pk)
    assert kept(Kind.HOST, kept_host.pk) == [(YESTERDAY, 4)]


def test_erasure_and_deletion_drop_samples_which_are_not_kept_again(ada):
    bob = an_account("bob", total_credit=Decimal(8))
    hosts = [a_host(owner, total_credit=Decimal(6)) for owner in (ada, bob, bob)]
    credit_samples.keep(now=NOON)
    erasure.erase(ada, now=NOON)
    own_deletions.delete(bob, hosts[1].pk, now=NOON)
    credit_samples.keep(now=NOON + DAY)
    assert kept(Kind.ACCOUNT, ada.pk) == kept(Kind.HOST, hosts[0].pk) == []
    assert kept(Kind.HOST, hosts[1].pk) == []
    assert len(kept(Kind.ACCOUNT, bob.pk)) == len(kept(Kind.HOST, hosts[2].pk)) == 1


def test_samples_that_were_kept_during_an_erasure_are_dropped_later(ada):
    bob = an_account("bob", total_credit=Decimal(8))
    host, other = a_host(ada, total_credit=Decimal(6)), a_host(bob, total_credit=Decimal(1))
    erasure.erase(ada, now=NOON)
    for kind, holder in (
        (Kind.ACCOUNT, ada.pk),
        (Kind.HOST, host.pk),
        (Kind.ACCOUNT, bob.pk),
        (Kind.HOST, other.pk),
    ):
        CreditSample.objects.create(kind=kind, holder_id=holder, day=YESTERDAY, total_credit=1)
    update(bob, is_active=False)
    assert credit_samples.drop_old(NOON, 100) == 2
    assert kept(Kind.ACCOUNT, ada.pk) == kept(Kind.HOST, host.pk) == []
    assert len(kept(Kind.ACCOUNT, bob.pk)) == len(kept(Kind.HOST, other.pk)) == 1


def test_old_samples_are_dropped_except_the_newest_of_each_holder(ada, settings):
    settings.PROJECT = replace(settings.PROJECT, credit_samples_kept=timedelta(days=3))
    bob = an_account("bob", total_credit=Decimal(50))
    for number in range(8):
        add(ada, 10)
        credit_samples.keep(now=NOON + number * DAY)
    now = NOON + 7 * DAY
    before = credits_of(Kind.ACCOUNT, ada.pk, days=3, now=now)
    assert credit_samples.drop_old(now, limit=3) > 0
    days = [day for day, _total in kept(Kind.ACCOUNT, ada.pk)]
    assert days == [(NOON + number * DAY).date() for number in (3, 4, 5, 6)]
    assert credits_of(Kind.ACCOUNT, ada.pk, days=3, now=now) == before
    assert len(kept(Kind.ACCOUNT, bob.pk)) == 1
    add(bob, 1)
    credit_samples.keep(now=now + DAY)
    assert credits_of(Kind.ACCOUNT, bob.pk, days=1, now=now + DAY) == [(now.date(), 1)]


def test_housekeeper_keeps_and_drops_samples():
    chores = {chore.name: chore for chore in housekeeper.CHORES}
    assert chores["credit per day"].act(NOON, 10) == 0
    assert CreditSample.objects.get().day == YESTERDAY
    assert chores["old credit per day"].act(NOON, 10) == 0
