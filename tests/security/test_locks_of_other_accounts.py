"""A request locks only rows of its own account, whatever ids it contains."""

from __future__ import annotations

from threading import Thread

import pytest
from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from scheduler.boinc import conversation
from scheduler.boinc.wire import messages
from scheduler.models import Result
from tests.scripted_client import a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)


def locked_elsewhere(statement: str, *params: object) -> bool:
    """Return whether a statement on a separate connection finds its rows locked."""
    found: list[bool] = []

    def look() -> None:
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement, params)
                row = cursor.fetchone()
                found.append(not row[0])
        except OperationalError:  # could not obtain lock
            found.append(True)
        finally:
            connection.close()

    thread = Thread(target=look)
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def victim():
    """The client of a host with a result in progress."""
    workunits(an_app(), 1)
    client = a_client("victim@example.org", "victim")
    client.ask()
    (name,) = client.ask_for_work()
    client.result = Result.objects.get(name=name)
    return client


def attack(victim, **fields):
    """Answer a request of another account with the victim's ids, and keep its locks."""
    attacker = a_client("attacker@example.org", "attacker")
    attacker.ask()
    request = attacker.request(**fields)
    return conversation.answer(
        request, config=settings.PROJECT, ip_addr="192.0.2.1", now=timezone.now()
    )


def workunit_is_locked(victim) -> bool:
    return locked_elsewhere(
        "SELECT id FROM workunit WHERE id = %s FOR NO KEY UPDATE NOWAIT", victim.result.workunit_id
    )


def result_is_locked(victim) -> bool:
    return locked_elsewhere(
        "SELECT id FROM result WHERE id = %s FOR NO KEY UPDATE NOWAIT", victim.result.pk
    )


def host_is_locked(victim) -> bool:
    return locked_elsewhere(
        "SELECT pg_try_advisory_xact_lock(hashtextextended('host ' || %s::text, 0))",
        str(victim.hostid),
    )


def test_report_of_another_accounts_result_locks_nothing(victim):
    with transaction.atomic():
        report = messages.ReportedResult(name=victim.result.name, state=5)
        reply = attack(victim, results=(report,))
        assert reply.result_acks == (victim.result.name,)
        assert not workunit_is_locked(victim)
        assert not result_is_locked(victim)
    assert Result.objects.get(pk=victim.result.pk).server_state == 4


def test_listed_result_of_another_account_is_not_locked(victim):
    with transaction.atomic():
        attack(victim, other_results=(messages.OtherResult(name=victim.result.name),))
        assert not workunit_is_locked(victim)
        assert not result_is_locked(victim)
    assert Result.objects.get(pk=victim.result.pk).acknowledged_at is None


def test_trickle_of_another_accounts_result_locks_nothing(victim):
    trickle = messages.TrickleUp(result_name=victim.result.name, time=1, variety="x", text="<a/>")
    with transaction.atomic():
        attack(victim, trickles=(trickle,))
        assert not result_is_locked(victim)


def test_host_id_of_another_account_does_not_lock_the_host(victim):
    with transaction.atomic():
        attack(victim, hostid=victim.hostid)
        assert not host_is_locked(victim)


def test_own_host_workunit_and_result_are_locked(victim):
    """The tests above would detect locks, because this test does."""
    with transaction.atomic():
        report = messages.ReportedResult(name=victim.result.name, state=5)
        conversation.answer(
            victim.request(results=(report,)),
            config=settings.PROJECT,
            ip_addr="192.0.2.1",
            now=timezone.now(),
        )
        assert workunit_is_locked(victim)
        assert result_is_locked(victim)
        assert host_is_locked(victim)
