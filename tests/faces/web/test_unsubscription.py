"""The link of a letter ends letters with one click, and only by POST."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from allauth.account.models import EmailAddress
from django.test import Client
from django.urls import reverse

from scheduler.messages import unsubscribing
from scheduler.models import Account
from tests.rows import an_account

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada() -> Account:
    account = an_account("ada", receive_letters=True)
    EmailAddress.objects.filter(user=account).update(verified=True)
    return account


def path_of(account: Account) -> str:
    return urlsplit(unsubscribing.link(3, account.pk)).path


def receives_letters(account: Account) -> bool:
    return Account.objects.get(pk=account.pk).receive_letters


def test_get_shows_a_form_and_changes_nothing(client, ada):
    answer = client.get(path_of(ada))
    assert answer.status_code == 200
    assert '<form method="post">' in answer.content.decode()
    assert ada.email not in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    assert receives_letters(ada)


def test_one_click_of_a_mail_program_needs_no_cookie_and_no_token(ada):
    client = Client(enforce_csrf_checks=True)
    answer = client.post(path_of(ada), {"List-Unsubscribe": "One-Click"})
    assert answer.status_code == 200
    assert "You get no more letters" in answer.content.decode()
    assert not receives_letters(ada)
    assert client.post(path_of(ada)).status_code == 200


def test_changed_link_gets_404_and_changes_nothing(client, ada):
    for token in ("1-2", f"3-{ada.pk}.{'x' * 43}", "%00", "a" * 2000):
        path = f"/{unsubscribing.PATH}{token}/"
        assert client.get(path).status_code == 404
        assert client.post(path).status_code == 404
    assert receives_letters(ada)


def test_link_has_the_path_of_the_page(ada):
    token = path_of(ada).rstrip("/").rpartition("/")[2]
    assert reverse("unsubscribe", args=[token]) == path_of(ada)


def test_letters_are_chosen_on_the_account_page_and_are_off_by_default(client):
    ada = an_account("ada")
    assert not receives_letters(ada)
    client.force_login(ada)
    form = {"name": "ada", "share_statistics": "on"}
    client.post(reverse("account_home"), {**form, "receive_letters": "on"})
    assert receives_letters(ada)
    assert 'name="receive_letters"' in client.get(reverse("account_home")).content.decode()
    client.post(reverse("account_home"), form)
    assert not receives_letters(ada)
