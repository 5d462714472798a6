"""Versions published with an idempotency key, which is claimed after long work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import connection, transaction
from django.utils import timezone

from scheduler.models import AppVersion, File, FileHold, IdempotencyKey
from tests.database.people.test_idempotency import _in_another_connection
from tests.faces.api.test_api_publishing import LINUX, RUN, an_app, packed, send, speaks
from tests.faces.api.test_api_sources import Site, allow, site
from tests.rows import an_account

__all__ = ["site"]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def chief():
    return an_account("chief", is_superuser=True)


def send_with_key(account, *files, key: str = "k", **fields):
    client = speaks(account)
    client.defaults["HTTP_IDEMPOTENCY_KEY"] = key
    return send(client, *files, platforms=[LINUX], **fields)


def backends(state: str) -> int:
    """Return the number of other backends of this database in this state."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            f" AND pid <> pg_backend_pid() AND {state}"
        )
        return cursor.fetchone()[0]


def wait_until_two_wait(sent) -> None:
    for _ in range(2000):
        for one in sent:
            assert not one.done(), one.result()
        if backends("wait_event_type = 'Lock'") == 2:
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(0.01)")
    pytest.fail("no two wait")


def test_source_download_holds_no_transaction_and_no_idempotency_key(
    chief, site: Site, monkeypatch
) -> None:
    allow(monkeypatch)
    an_app()
    asked, go_on = Event(), Event()
    url = site.put("/run.sh", RUN)
    page = site.pages["/run.sh"]

    def slowly(request) -> None:
        asked.set()
        assert go_on.wait(20)
        page(request)

    site.pages["/run.sh"] = slowly
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(_in_another_connection, lambda: send_with_key(chief, source_url=url))
        assert asked.wait(20)
        assert backends("state LIKE 'idle in transaction%'") == 0
        assert not IdempotencyKey.objects.exists()
        second = send_with_key(chief, source_url=url)
        assert (second.status_code, second.json()["code"]) == (503, "source_busy")
        assert int(second["Retry-After"]) > 0
        go_on.set()
        made = first.result(20)
    assert made.status_code == 201, made.content
    again = send_with_key(chief, source_url=url)
    assert (again.status_code, again["Idempotent-Replay"]) == (201, "true")
    assert again.json() == made.json()
    assert site.asked == ["/run.sh"], "a repeat fetches nothing"


def test_only_one_of_two_concurrent_requests_with_the_same_key_publishes(chief) -> None:
    an_app()
    files = ("p.tar.gz", packed({"run.sh": RUN}))
    with ThreadPoolExecutor(2) as threads:
        with transaction.atomic():
            now = timezone.now()
            IdempotencyKey.objects.create(account=chief, key="k", status=0, created_at=now)
            sent = [
                threads.submit(_in_another_connection, lambda: send_with_key(chief, files))
                for _ in range(2)
            ]
            wait_until_two_wait(sent)
            assert File.objects.count() == 2, "packed and kept, before the key is claimed"
            assert FileHold.objects.filter(account=chief).count() == 2
            transaction.set_rollback(True)
        answers = [one.result(20) for one in sent]
    assert [one.status_code for one in answers] == [201, 201]
    assert sorted("Idempotent-Replay" in one for one in answers) == [False, True]
    assert answers[0].json() == answers[1].json()
    assert AppVersion.objects.count() == 1
    assert not File.objects.exclude(doomed_at=None).exists()


def test_reused_or_invalid_idempotency_key_is_refused_and_stores_no_files(chief) -> None:
    an_app()
    assert send_with_key(chief, ("run.sh", RUN)).status_code == 201
    answer = send_with_key(chief, ("run.sh", RUN + b"#"))
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_key_reused")
    assert File.objects.count() == 2
    answer = send_with_key(chief, ("run.sh", RUN), key="a b")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_idempotency_key")


def test_refused_publishing_releases_its_idempotency_key_and_files(chief) -> None:
    an_app()
    assert send_with_key(chief, ("run.sh", RUN)).status_code == 201
    for key in ("", "other"):
        fields = {"key": key} if key else {"key": "third"}
        answer = send_with_key(chief, ("run.sh", RUN + b"#"), **fields)
        assert (answer.status_code, answer.json()["code"]) == (409, "version_exists")
    assert [row.key for row in IdempotencyKey.objects.all()] == ["k"]
    assert not FileHold.objects.exists()
    assert File.objects.filter(doomed_at=None).count() == 2
    answer = send_with_key(chief, ("run.sh", RUN + b"#"), key="other", version="2")
    assert answer.status_code == 201, answer.content
