"""Pages show relative times, or days, with the exact time on hover."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from scheduler.health import status
from scheduler.models import Account, CreditEntry
from scheduler.people import api_tokens
from tests.conftest import NOON
from tests.rows import a_host, an_account, an_app, update

pytestmark = pytest.mark.django_db

EXACT = "2026-01-01 12:00:00 UTC"
DAY = f'<time datetime="2026-01-01T12:00:00+00:00" title="{EXACT}">'


@pytest.fixture
def ada() -> Account:
    return an_account("ada", show_hosts=True)


def page(browser: Client, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def test_newest_valid_results_of_the_front_page(client, ada):
    cache.clear()
    status.forget()
    granted_at = timezone.now() - timedelta(hours=2, minutes=5)
    CreditEntry.objects.create(
        result_id=1,
        rule="validated",
        account=ada,
        host=a_host(ada),
        app=an_app(),
        amount=1,
        granted_at=granted_at,
    )
    latest = page(client, "/").partition('id="latest"')[2]
    exact = f"{granted_at:%Y-%m-%d %H:%M:%S} UTC"
    assert re.search(rf'<time [^>]*title="{exact}">2 hours ago</time>', latest)


def test_public_page_of_a_computer(client, ada):
    host = a_host(ada, rpc_at=timezone.now() - timedelta(days=3, hours=1))
    text = page(client, f"/show_host_detail.php?hostid={host.pk}")
    assert f"{DAY}1 January 2026</time>" in text
    exact = f"{host.rpc_at:%Y-%m-%d %H:%M:%S} UTC"
    assert re.search(rf'<time [^>]*title="{exact}">3 days ago</time>', text)


def test_days_on_which_people_joined(client, ada):
    assert f"{DAY}1 January 2026</time>" in page(client, "/user_search.php?search_string=ada")
    client.force_login(ada)
    for path in ("/account/", f"/accounts/{ada.pk}/"):
        assert f"<dt>member since</dt><dd>{DAY}2026-01-01</time></dd>" in page(client, path)


def test_days_of_tokens(client, ada):
    ada.set_password("correct horse")
    ada.save()
    client.post("/account/login/", {"login": ada.email, "password": "correct horse"})
    token, _text = api_tokens.create(
        account=ada, name="t", scopes=["read"], expire_at=NOON + timedelta(days=9), now=NOON
    )
    text = page(client, "/account/tokens/")
    assert f"{DAY}2026-01-01</time> – <time" in text
    assert 'title="2026-01-10 12:00:00 UTC">2026-01-10</time>' in text
    update(token, last_used_on=NOON.date())
    assert '<td><time datetime="2026-01-01">2026-01-01</time></td>' in page(
        client, "/account/tokens/"
    )
