"""Two programs of one submitter run at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction

from scheduler import storage
from scheduler.boinc_submission import sent_files
from scheduler.files import file_holds
from scheduler.models import File, FileHold, JobFile, Submitter, Workunit
from scheduler.people import quotas
from scheduler.sql import fetch
from scheduler.work import retry
from scheduler.work.submission import new_batches
from tests.conftest import NOON
from tests.rows import a_workunit, an_account, update
from tests.scientists import a_batch, failed_in


def send(account, content):
    staged = storage.stage_bytes(content)
    try:
        sent_files.keep(account, [("in.txt", staged)], until=NOON, now=NOON)
    finally:
        storage.discard(staged)


class Meanwhile:
    """A function that another thread runs after the call of `go_on`."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._threads = ThreadPoolExecutor(1)
        self._doing: Future[object] | None = None

    def go_on(self) -> None:
        """Start the function; return when it waits for a lock or has ended."""
        self._doing = self._threads.submit(self._do)
        give_up_at = time.monotonic() + 30
        while not self._doing.done():
            with connection.cursor() as cursor:
                # Within a transaction, pg_stat_activity would show the state at its first read.
                cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
                if cursor.fetchone() != (0,):
                    return
            assert time.monotonic() < give_up_at
            time.sleep(0.01)

    def ends(self) -> Future[object]:
        """Wait for the end of the function and return its future."""
        assert self._doing is not None
        self._threads.shutdown()
        return self._doing

    def _do(self) -> object:
        try:
            return self._act()
        finally:
            connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("other", [b"first", b"other"])
def test_name_gets_one_content_in_either_order_of_two_submissions(other):
    ada = an_account("ada")

    other_program = Meanwhile(lambda: send(ada, other))
    with transaction.atomic():
        send(ada, b"first")
        other_program.go_on()
    error = other_program.ends().exception()
    assert (type(error) is sent_files.FileChanged) == (other != b"first"), error
    assert JobFile.objects.get().file == File.objects.get()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["give_up", "abandon"])
def test_a_concurrently_extended_hold_survives_abandon_but_not_give_up(how):
    ada = an_account("ada")
    send(ada, b"first")
    file, holds = File.objects.get(), file_holds.Holds(ada, now=NOON)
    with transaction.atomic():
        FileHold.objects.all().delete()
        holds.add([file.pk])
    acts = {
        "give_up": lambda: file_holds.give_up(file.sha256, ada, now=NOON),
        "abandon": lambda: holds.abandon(now=NOON),
    }
    other_program = Meanwhile(acts[how])
    with transaction.atomic():
        fetch("files/lock_known_files", {"contents": [file.sha256], "names": []})
        other_program.go_on()
        file_holds.hold([file.pk], ada, until=holds.until + timedelta(days=1))
    other_program.ends().result()
    assert FileHold.objects.exists() is (how == "abandon")


@pytest.mark.django_db(transaction=True)
def test_a_retry_waits_for_a_concurrent_submission_into_the_same_batch():
    ada = an_account("ada")
    Submitter.objects.create(account=ada, max_unfinished_workunits=9, created_at=NOON)
    batch = a_batch(submitter=ada)
    failed_in(batch, error_mask=2)
    other_program = Meanwhile(lambda: retry.retry(batch.pk, now=NOON))
    with transaction.atomic():
        quotas.lock(ada)
        other_program.go_on()
        new_batches.open_batch(
            batch.pk, app_id=batch.app_id, app=batch.app.name, submitter=ada, now=NOON
        )
    assert other_program.ends().result() == retry.Retried(count=1)


@pytest.mark.django_db(transaction=True)
def test_of_two_concurrent_retries_without_a_batch_one_submits_the_workunit_again():
    failed = a_workunit()
    update(failed, error_mask=2)
    other_program = Meanwhile(lambda: retry.retry(None, names=[failed.name], now=NOON))
    with transaction.atomic():
        assert retry.retry(None, names=[failed.name], now=NOON) == retry.Retried(count=1)
        other_program.go_on()
    assert other_program.ends().result() == retry.Retried()
    assert Workunit.objects.count() == 2
