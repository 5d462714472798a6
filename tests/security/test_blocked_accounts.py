"""Sessions, tokens and keys of a blocked account are refused at once."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from scheduler.lifecycle import ServerState
from scheduler.models import Account, AccountKey, Host, Result
from tests.faces.admin.test_credit_grants import staff_with
from tests.faces.apis import Program, a_token
from tests.rows import an_account
from tests.scripted_client import a_client
from tests.security.test_pool_access import a_pool_host, statuses
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db

LIST = reverse("admin:scheduler_account_changelist")


def change(moderator: Client, action: str, account: Account) -> None:
    form = {"action": action, "_selected_action": [account.pk], "reason": "x", "confirmed": "yes"}
    moderator.post(LIST, form)
    account.refresh_from_db()
    assert account.is_active is (action == "unblock")


@pytest.fixture
def moderator() -> Client:
    return staff_with("moderator")[1]


def test_session_and_token_are_refused_until_the_account_is_unblocked(moderator):
    ada = an_account("ada")
    program, browser = Program(a_token(ada, "read")), Client()
    browser.force_login(ada)
    home = reverse("account_home")

    def statuses() -> tuple[int, int]:
        return program.get("/api/v1/me").status_code, browser.get(home).status_code

    assert statuses() == (200, 200)
    change(moderator, "block", ada)
    assert statuses() == (401, 302)
    change(moderator, "unblock", ada)
    assert statuses() == (200, 200)


def test_client_of_a_blocked_account_gets_no_work_and_its_keys_remain(moderator):
    volunteer = a_client(email="ada@example.org", name="mill")
    workunits(an_app(), 2)
    [running] = volunteer.ask_for_work()
    host = Host.objects.get()
    keys = AccountKey.objects.filter(account=host.account, revoked_at=None).count()
    change(moderator, "block", host.account)
    assert volunteer.ask_for_work() == []
    volunteer.report(running)
    states = {row.name: row.server_state for row in Result.objects.exclude(host=None)}
    assert states == {running: ServerState.IN_PROGRESS}
    assert Host.objects.get().rpc_at == host.rpc_at
    change(moderator, "unblock", host.account)
    volunteer.report(running, upload=None)
    assert Result.objects.get(name=running).server_state == ServerState.OVER
    assert len(volunteer.ask_for_work()) == 1
    assert AccountKey.objects.filter(account=host.account, revoked_at=None).count() == keys


def test_token_of_a_pool_is_refused_while_the_account_is_blocked(moderator):
    host, text = a_pool_host()
    assert 401 not in statuses(Program(text))
    change(moderator, "block", host.account)
    assert statuses(Program(text)) == {401}
    change(moderator, "unblock", host.account)
    assert 401 not in statuses(Program(text))


@pytest.mark.parametrize("role", ["operator", "publisher", "read-only"])
def test_other_roles_cannot_block_accounts(role):
    ada = an_account("ada")
    _, client = staff_with(role)
    form = {"action": "block", "_selected_action": [ada.pk], "reason": "x", "confirmed": "yes"}
    client.post(LIST, form)
    ada.refresh_from_db()
    assert ada.is_active


def test_preview_and_confirmation_escape_names(moderator):
    ada = an_account(email="ada@example.org", name="<script>alert(1)</script>")
    form = {"action": "block", "_selected_action": [ada.pk]}
    text = moderator.post(LIST, form).content.decode()
    assert "&lt;script&gt;alert(1)" in text
    assert "<script>alert" not in text
