"""Names that submitters give to files, when two of their programs send at once."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from scheduler import storage
from scheduler.models import File, JobFile
from scheduler.operations import sent_files
from tests.conftest import NOON
from tests.rows import an_account


def send(account, content):
    staged = storage.stage_bytes(content)
    try:
        sent_files.keep(account, [("in.txt", staged)], until=NOON, now=NOON)
    finally:
        storage.discard(staged)


def await_a_wait(doing: Future[None]) -> None:
    """Until somebody waits for a lock of ours; who need not wait is done."""
    give_up_at = time.monotonic() + 30
    while not doing.done():
        with connection.cursor() as cursor:
            # pg_stat_activity would stay as it was at the transaction's first look.
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
            if cursor.fetchone() != (0,):
                return
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("other", [b"first", b"other"])
def test_a_name_is_one_content_whoever_of_two_is_first(other):
    ada = an_account("ada")

    def second():
        try:
            send(ada, other)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with transaction.atomic():
            send(ada, b"first")
            sending = threads.submit(second)
            await_a_wait(sending)
        error = sending.exception(30)
    assert (type(error) is sent_files.FileChanged) == (other != b"first"), error
    assert JobFile.objects.get().file == File.objects.get()
