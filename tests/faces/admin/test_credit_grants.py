"""The page of the administration on which operators grant and revoke credit."""

from __future__ import annotations

import re

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.models import Account, AuditEntry, CreditEntry, ManualGrant
from scheduler.people import accounts, roles
from tests.rows import a_host, an_account, an_app, update

pytestmark = pytest.mark.django_db


def staff_with(role: str) -> tuple[Account, Client]:
    email = f"{role}@example.org"
    account = accounts.create_staff(
        email=email, password="a long one 6", name=role, now=timezone.now(), is_superuser=False
    )
    roles.give(account, role, now=timezone.now())
    client = Client()
    client.force_login(account)
    return account, client


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


def path_of(account: Account) -> str:
    return f"/admin/scheduler/account/{account.pk}/credit/"


def hidden(text: str) -> dict[str, str]:
    """Return the values of the hidden inputs of a page."""
    inputs = re.findall(r'<input type="hidden"[^>]*>', text)
    pairs = [(re.search(r'name="([^"]*)"', i), re.search(r'value="([^"]*)"', i)) for i in inputs]
    return {name[1]: value[1] if value else "" for name, value in pairs if name}


def preview(client: Client, account: Account, **fields: object) -> str:
    first = client.get(path_of(account)).content.decode()
    sent = {**hidden(first), "amount": "12.5", "reason": "A prize <b>", "with_team": "on"} | fields
    answer = client.post(path_of(account), sent)
    assert answer.status_code == 200
    return answer.content.decode()


def test_operator_grants_credit_after_a_preview(ada):
    chief, client = staff_with("operator")
    assert path_of(ada) in client.get(path_of(ada).replace("credit", "change")).content.decode()
    host, app = a_host(ada), an_app("mill")
    text = preview(client, ada, computer=host.pk, app=app.pk)
    for name in (f"account {ada.pk}", f"computer {host.pk}", "app mill"):
        assert f"{name}</th><td>0</td><td>12.5</td>" in text
    assert "A prize &lt;b&gt;" in text
    assert not re.search(r"<style|style=|onclick", text)
    assert not CreditEntry.objects.exists()
    answer = client.post(path_of(ada), {**hidden(text), "confirmed": "yes"}, follow=True)
    assert "12.5 credit was granted to" in answer.content.decode()
    ada.refresh_from_db()
    assert ada.total_credit == 12.5
    assert ManualGrant.objects.get().granted_by == chief
    entry = AuditEntry.objects.get(event="credit_granted")
    assert (entry.actor, entry.account_id) == (chief.email, chief.pk)


def test_confirmation_that_is_sent_twice_grants_once(ada):
    _, client = staff_with("operator")
    sent = {**hidden(preview(client, ada)), "confirmed": "yes"}
    assert client.post(path_of(ada), sent).status_code == 302
    answer = client.post(path_of(ada), sent)
    assert answer.status_code == 422
    assert "was made already" in answer.content.decode()
    assert CreditEntry.objects.count() == 1


def test_revocation_of_more_than_the_total_states_the_total(ada):
    _, client = staff_with("operator")
    update(ada, total_credit=20)
    sent = hidden(client.get(path_of(ada)).content.decode())
    answer = client.post(path_of(ada), {**sent, "amount": "-30", "reason": "x"})
    assert answer.status_code == 422
    assert "is 20, so 30 cannot be revoked" in answer.content.decode()
    text = preview(client, ada, amount="-5")
    assert "Yes, revoke 5" in text
    client.post(path_of(ada), {**hidden(text), "confirmed": "yes"})
    ada.refresh_from_db()
    assert ada.total_credit == 15


@pytest.mark.parametrize(
    "fields",
    [
        {"amount": "NaN"},
        {"amount": "1e400"},
        {"amount": "0"},
        {"reason": "a\0b"},
        {"computer": "9" * 40},
        {"computer": "-1"},
        {"app": "9" * 40},
        {"request_id": "x"},
    ],
)
def test_invalid_values_are_errors_of_the_form(ada, fields):
    _, client = staff_with("operator")
    sent = hidden(client.get(path_of(ada)).content.decode())
    sent |= {"amount": "1", "reason": "x", "confirmed": "yes"} | fields
    assert client.post(path_of(ada), sent).status_code == 422
    assert not CreditEntry.objects.exists()


@pytest.mark.parametrize("role", ["moderator", "read-only", "publisher", "submitter"])
def test_other_roles_cannot_grant_credit(ada, role):
    _, client = staff_with(role)
    sent = {"amount": "1", "reason": "x", "confirmed": "yes"}
    assert client.get(path_of(ada)).status_code == 403
    assert client.post(path_of(ada), sent).status_code == 403
    assert "credit/" not in client.get(path_of(ada).replace("credit", "change")).content.decode()
    assert not CreditEntry.objects.exists()


def test_volunteers_and_forms_of_other_sites_cannot_grant_credit(ada):
    client = Client()
    client.force_login(ada)
    assert client.get(path_of(ada)).status_code == 302
    chief, _ = staff_with("operator")
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(chief)
    sent = {"amount": "1", "reason": "x", "confirmed": "yes"}
    assert strict.post(path_of(ada), sent).status_code == 403
    assert not CreditEntry.objects.exists()


def test_unknown_accounts_are_not_found(ada):
    _, client = staff_with("operator")
    for number in (ada.pk + 1000, 2**80):
        assert client.get(f"/admin/scheduler/account/{number}/credit/").status_code == 404
