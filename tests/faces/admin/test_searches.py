"""Searches of the administration use indexes, or read the newest rows."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from scheduler.admin import base
from scheduler.admin.lists import searching
from scheduler.models import (
    Account,
    AuditEntry,
    Batch,
    CreditEntry,
    File,
    FileHold,
    Host,
    HostAppVersion,
    OutboxMessage,
    Refusal,
    ScienceFailure,
    Team,
    TrickleDown,
    Workunit,
)
from tests.conftest import NOON
from tests.rows import a_host, a_workunit, an_account, an_app, an_app_version
from tests.scientists import a_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def chief() -> Client:
    client = Client()
    client.force_login(an_account("chief", is_staff=True, is_superuser=True))
    return client


def matching_rows(client: Client, model: Any, term: str, **more: str) -> set[Any]:
    path = reverse(f"admin:scheduler_{model._meta.model_name}_changelist")
    answer = client.get(path, {"q": term, **more})
    assert answer.status_code == 200
    return set(answer.context["cl"].result_list)


def test_account_is_found_by_beginnings_and_by_parts_in_any_case(chief):
    ada = an_account(email="lovelace@example.org", name="Ada Byron")
    an_account("bob")
    for term in ("LOVE", "ada b", "byron", "lace@", str(ada.pk), f"#{ada.pk}"):
        assert matching_rows(chief, Account, term) == {ada}, term
    assert matching_rows(chief, Account, "nobody") == set()


def test_parts_are_searched_only_in_the_newest_rows_and_beginnings_in_all(chief, monkeypatch):
    old = an_account(email="lovelace@example.org", name="Ada Byron")
    for number in range(3):
        an_account(f"later{number}")
    monkeypatch.setattr(base, "MAX_LISTED_ROWS", 2)
    assert matching_rows(chief, Account, "byron") == set()
    assert matching_rows(chief, Account, "ada") == {old}
    assert len(matching_rows(chief, Account, "ater")) == 2


def test_host_is_found_by_its_name_and_by_its_owner(chief):
    ada = an_account(email="lovelace@example.org", name="Ada")
    mill, other = a_host(ada, domain_name="mill"), a_host(domain_name="farm", host_cpid="c" * 32)
    for term in ("mil", "lovel", "ad", str(ada.pk)):
        assert matching_rows(chief, Host, term) >= {mill}, term
    assert matching_rows(chief, Host, "mill") == {mill}
    assert matching_rows(chief, Host, "cccc") == {other}
    assert matching_rows(chief, HostAppVersion, "mill") == set()
    record = HostAppVersion.objects.create(host=mill, app_version=an_app_version(an_app()))
    assert matching_rows(chief, HostAppVersion, "mill") == {record}


def test_credit_is_found_by_the_beginning_of_its_account(chief):
    ada = an_account(email="lovelace@example.org", name="Ada")
    entry = CreditEntry.objects.create(
        account=ada, rule="validated", result_id=4711, amount=1, granted_at=NOON
    )
    for term in ("love", "ADA", "4711", str(ada.pk)):
        assert matching_rows(chief, CreditEntry, term) == {entry}, term
    assert matching_rows(chief, CreditEntry, "lace") == set()


def test_rows_of_an_owner_with_many_are_all_found(chief, monkeypatch):
    monkeypatch.setattr(searching, "MAX_MATCHES", 2)
    ada = an_account(email="lovelace@example.org")
    hosts = {a_host(ada) for _ in range(5)}
    a_host()
    assert matching_rows(chief, Host, "lovelace") == hosts
    assert matching_rows(chief, Host, str(ada.pk)) >= hosts


def test_search_is_limited_to_the_filtered_rows(chief):
    mill, denied = a_host(domain_name="mill 1"), a_host(domain_name="mill 2", denied=True)
    assert matching_rows(chief, Host, "mill") == {mill, denied}
    assert matching_rows(chief, Host, "mill", denied__exact="1") == {denied}


def test_special_characters_of_patterns_are_plain_text(chief):
    percent, under = a_host(domain_name="100%"), a_host(domain_name="a_b")
    a_host(domain_name="axb")
    assert matching_rows(chief, Host, "100%") == {percent}
    assert matching_rows(chief, Host, "a_") == {under}
    assert matching_rows(chief, Host, "%") == {percent}


def test_workunits_batches_and_files_are_found_by_the_beginning_of_their_names(chief):
    batch = a_batch("summer")
    workunit = a_workunit(batch.app, name="sum_1", batch=batch)
    file = File.objects.create(
        name="table.dat", sha256="a" * 64, md5="b" * 32, nbytes=1, created_at=NOON
    )
    hold = FileHold.objects.create(file=file, account=batch.submitter, until=timezone.now())
    assert matching_rows(chief, Workunit, "sum_") == {workunit}
    assert matching_rows(chief, Workunit, "um_1") == set()
    assert matching_rows(chief, Batch, "summ") == {batch}
    assert matching_rows(chief, Batch, batch.submitter.email[:6]) == {batch}
    for term in ("table", "aaaa", "bbbb"):
        assert matching_rows(chief, File, term) == {file}
    assert matching_rows(chief, FileHold, "table.d") == {hold}


def test_messages_and_audit_entries_are_found_by_their_texts(chief):
    message = OutboxMessage.objects.create(
        recipient="ada@example.org", subject="x", created_at=NOON, next_attempt_at=NOON
    )
    entry = AuditEntry.objects.create(
        at=NOON, event="token_created", actor="ada@example.org", subject="token 17",
        address="192.0.2.7",
    )  # fmt: skip
    for term in ("ada@", "ada@example.org", "a@exa"):
        assert matching_rows(chief, OutboxMessage, term) == {message}, term
    for term in ("token 17", "token", "ada@example.org", "192.0.2.7"):
        assert matching_rows(chief, AuditEntry, term) == {entry}, term


def test_other_numbers_are_found_by_their_indexes(chief):
    app, host = an_app(), a_host()
    down = TrickleDown.objects.create(host=host, result_id=81, result_name="r", created_at=NOON)
    TrickleDown.objects.create(
        host=host, result_id=82, result_name="r", created_at=NOON, sent_at=NOON
    )
    assert matching_rows(chief, TrickleDown, str(host.pk)) == {down}
    failure = ScienceFailure.objects.create(
        stage=2, subject_id=4711, app=app, error="KeyError: sum", failed_at=NOON
    )
    assert matching_rows(chief, ScienceFailure, "4711") == {failure}
    assert matching_rows(chief, ScienceFailure, "keyerr") == {failure}
    refusal = Refusal.objects.create(
        workunit_id=5, host_id=4711, app_id=app.pk, reason="memory", sentence="x", at=NOON
    )
    assert matching_rows(chief, Refusal, "4711") == {refusal}
    assert matching_rows(chief, Refusal, "5") == {refusal}


def test_team_is_found_by_the_beginning_of_its_name_in_any_case(chief):
    team = Team.objects.create(name="The Primes", created_at=NOON)
    assert matching_rows(chief, Team, "the p") == {team}
    assert matching_rows(chief, Team, "rimes") == {team}
