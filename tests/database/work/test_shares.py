"""Fair share in the database: the order of workunits, and the accounts charged."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from scheduler.models import Account, App, Batch, Submitter, Workunit
from scheduler.work import batches
from scheduler.work.submission.rules import share_priorities
from scheduler.work.submission.submit import (
    DuplicateNames,
    NewBatch,
    NewOutput,
    NewWorkunit,
    submit,
)
from tests.conftest import NOON
from tests.rows import an_account, an_app

WORK = NewWorkunit(outputs=(NewOutput(open_name="out"),), rsc_fpops_est=1e10)


@pytest.fixture
def fair(settings):
    settings.PROJECT = replace(settings.PROJECT, fair_share=True)


@pytest.fixture
def app() -> App:
    return an_app("sieve")


def give(submitter, count, *, name=None, now=NOON, **change):
    work = [replace(WORK, name=name, **change)] if name else [replace(WORK, **change)] * count
    return submit(app="sieve", workunits=work, submitter=submitter, now=now)


def a_submitter(**fields) -> Account:
    account = an_account()
    Submitter.objects.create(account=account, created_at=NOON, **fields)
    return account


def clock_of(account):
    return Submitter.objects.get(account=account).logical_start_at


def whose(*groups) -> list[int]:
    """Return the index of each workunit's submission, in the order of dispatch."""
    owner = {id_: index for index, done in enumerate(groups) for id_ in done.workunit_ids}
    rows = Workunit.objects.order_by("-priority", "id").values_list("id", flat=True)
    return [owner[id_] for id_ in rows]


@pytest.mark.django_db
class TestWithFairShare:
    @pytest.fixture(autouse=True)
    def _on(self, fair, app):
        pass

    def test_shares_of_one_and_three_order_work_in_a_ratio_of_one_to_three(self):
        one, three = a_submitter(share=1), a_submitter(share=3)
        sent = whose(give(one, 400), give(three, 1200))
        for end in (100, 400, 1600):
            assert sent[:end].count(0) / end == pytest.approx(0.25, rel=0.05)

    def test_a_small_later_submission_is_sent_before_most_of_a_large_one(self):
        heap, few = give(an_account(), 500), give(an_account(), 5)
        assert whose(heap, few)[:10].count(1) == 5

    def test_the_share_clock_of_a_submitter_continues_from_its_last_value(self):
        ada = an_account()
        give(ada, 100)
        once = clock_of(ada)
        give(ada, 100)
        twice = clock_of(ada)
        assert (twice - once) == (once - NOON) > timedelta(0)

    def test_clock_of_an_idle_submitter_starts_now(self):
        long_ago = NOON - timedelta(days=100)
        idle, new = a_submitter(logical_start_at=long_ago), an_account()
        give(idle, 1)
        give(new, 1)
        assert set(Workunit.objects.values_list("priority", flat=True)) == {
            share_priorities.priority_at(NOON)
        }

    def test_a_priority_requested_by_a_submitter_is_ignored_with_a_warning(self):
        (warning,) = (
            w for w in give(an_account(), 1, priority=9).warnings if "uses fair share" in w
        )
        assert "the requested priorities are ignored" in warning
        assert Workunit.objects.get().priority == share_priorities.priority_at(NOON)

    @pytest.mark.parametrize("is_superuser", [False, True])
    def test_a_batch_priority_applies_only_if_its_submitter_is_staff(self, is_superuser):
        ada = an_account(is_superuser=is_superuser)
        wish = NewBatch(name="sweep", priority=9)
        done = submit(app="sieve", workunits=[WORK], batch=wish, submitter=ada, now=NOON)
        more = submit(app="sieve", workunits=[WORK], batch="sweep", submitter=ada, now=NOON)
        followed = [one == 9 for one in Workunit.objects.values_list("priority", flat=True)]
        assert followed == [is_superuser] * 2
        assert any("uses fair share" in warning for warning in done.warnings) is not is_superuser
        assert not any("uses fair share" in warning for warning in more.warnings)

    def test_submitter_cannot_accelerate_a_batch_ahead_of_other_submitters(self):
        ada, staff = an_account(), an_account(is_superuser=True)
        wish = {"accelerate": True}
        submit(app="sieve", workunits=[WORK], batch="sweep", submitter=ada, now=NOON)
        batch = Batch.objects.get()
        with pytest.raises(batches.BadChange, match=r"uses fair share.*Hint: leave accelerate out"):
            batches.change(batch.pk, wish, by=ada, now=NOON)
        batches.change(batch.pk, {"accelerate_tail": True, "accelerate": False}, by=ada, now=NOON)
        batches.change(batch.pk, wish, by=staff, now=NOON)
        assert Batch.objects.get().accelerate

    def test_a_priority_requested_by_staff_overrides_fair_share(self):
        done = give(an_account(is_superuser=True), 1, priority=9)
        assert Workunit.objects.get().priority == 9
        assert not any("uses fair share" in warning for warning in done.warnings)

    def test_work_without_a_submitter_gets_the_priority_of_the_current_time(self):
        submit(app="sieve", workunits=[WORK], now=NOON)
        assert Workunit.objects.get().priority == share_priorities.priority_at(NOON)

    def test_a_refused_submission_does_not_advance_the_share_clock(self):
        ada = an_account()
        give(ada, 1, name="taken")
        before = clock_of(ada)
        with pytest.raises(DuplicateNames):
            give(ada, 1, name="taken")
        assert clock_of(ada) == before

    def test_submitting_any_number_of_workunits_uses_the_same_statements(self):
        counts = []
        for size in (1, 1000):
            with CaptureQueriesContext(connection) as captured:
                give(an_account(), size)
            counts.append(len(captured))
        # One of these statements creates the account.
        assert counts[0] == counts[1]


@pytest.mark.django_db
def test_without_fair_share_requested_priorities_apply_and_no_clock_is_stored(app):
    ada = an_account()
    give(ada, 1, priority=-7)
    assert Workunit.objects.get().priority == -7
    assert not Submitter.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_concurrent_submissions_each_advance_the_share_clock(fair, app):
    ada = an_account()
    give(ada, 10)
    step = clock_of(ada) - NOON
    started = threading.Event()

    def second():
        started.set()
        try:
            give(ada, 10)
        finally:
            connection.close()

    thread = threading.Thread(target=second)
    with transaction.atomic():
        give(ada, 10)
        thread.start()
        started.wait(10)
    thread.join(30)
    assert clock_of(ada) - NOON == 3 * step
    assert len(set(Workunit.objects.values_list("priority", flat=True))) > 10
