"""The public pages of badges, and their twins in the API."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.credit import badge_awards
from scheduler.models import Badge, Team
from tests.conftest import NOON
from tests.faces.apis import Program, a_program
from tests.faces.pages import INLINE, comparable
from tests.rows import an_account, update

pytestmark = pytest.mark.django_db


def a_badge(name: str = "helper", **fields: Any) -> Badge:
    fields = {"title": name.title(), "is_published": True, "created_at": NOON} | fields
    return Badge.objects.create(name=name, for_teams=True, **fields)


def page(path: str, status: int = 200) -> str:
    answer = Client().get(path)
    assert answer.status_code == status
    text = comparable(answer).decode()
    assert not INLINE.search(text)
    return text


def test_badges_are_listed_with_rules_and_holders():
    a_badge(rule="total_credit", threshold=12500, account_count=1234, description="For work.")
    a_badge("top", rule="recent_percentage", threshold=Decimal("2.5"), level=5)
    a_badge("year", rule="years", threshold=1)
    a_badge("years", rule="years", threshold=3)
    a_badge("hand")
    a_badge("draft", is_published=False)
    text = page("/badges/")
    for part in (
        "12,500 credits",
        "1,234",
        "For work.",
        "the top 2.5 % by recent average credit",
        "1 year since joining",
        "3 years since joining",
        "chosen by the project",
    ):
        assert part in text
    assert text.index("Top") < text.index("Helper")
    assert "Draft" not in text


def test_amounts_of_rules_are_in_the_language_of_the_page():
    a_badge(rule="total_credit", threshold=12500)
    a_badge("top", rule="recent_percentage", threshold=Decimal("2.5"))
    answer = Client(headers={"accept-language": "de"}).get("/badges/")
    text = answer.content.decode()
    assert "12.500 Punkte Guthaben" in text
    assert "die besten 2,5 %" in text


def test_image_has_no_language():
    answer = Client().get(f"/badges/{a_badge().pk}.svg")
    assert "Content-Language" not in answer.headers
    assert "Cookie" not in answer.headers.get("Vary", "")


def test_list_without_badges_is_complete_and_linked_from_the_leaderboards():
    assert "no badges yet" in page("/badges/")
    assert 'href="/badges/"' in page("/leaderboards/")


def test_image_is_an_svg_with_an_escaped_title():
    badge = a_badge(title='<script>"&\x07', color="#ffee00")
    answer = Client().get(f"/badges/{badge.pk}.svg")
    assert answer["Content-Type"] == "image/svg+xml; charset=utf-8"
    assert answer["Cache-Control"] == "public, max-age=3600"
    root = ET.fromstring(answer.content)
    assert root.findtext("{http://www.w3.org/2000/svg}title") == '<script>"&'
    assert "#ffee00" in answer.content.decode()


def test_image_of_an_unpublished_or_unknown_badge_is_not_found():
    badge = a_badge(is_published=False)
    for badge_id in (badge.pk, badge.pk + 1, 10**30):
        page(f"/badges/{badge_id}.svg", 404)


def test_titles_are_escaped_on_pages():
    ada = an_account("ada")
    badge = a_badge(title="<script>", description="<script>")
    badge_awards.award_account(badge.pk, ada.pk, now=NOON)
    page("/badges/")
    page(f"/accounts/{ada.pk}/")


def test_pages_and_replies_of_accounts_and_teams_show_their_badges():
    ada = an_account("ada")
    reds = Team.objects.create(name="Reds", created_at=NOON)
    badge, draft = a_badge(), a_badge("draft", is_published=False)
    for shown in (badge, draft):
        badge_awards.award_account(shown.pk, ada.pk, now=NOON)
        badge_awards.award_team(shown.pk, reds.pk, now=NOON)
    for path in (f"/accounts/{ada.pk}/", f"/teams/{reds.pk}/"):
        text = page(path)
        assert f'src="/badges/{badge.pk}.svg"' in text
        title = 'title="2026-01-01 12:00:00 UTC"'
        assert re.search(rf"since <time [^>]*{title}>2026-01-01</time>", text)
        assert "Draft" not in text
    replies = [
        Program().send("get", f"/accounts/{ada.pk}"),
        a_program(ada).send("get", f"/teams/{reds.pk}"),
    ]
    for reply in replies:
        assert reply.json()["badges"] == [
            {
                "id": badge.pk,
                "name": "helper",
                "title": "Helper",
                "image_url": f"http://127.0.0.1:8000/badges/{badge.pk}.svg",
                "awarded_at": "2026-01-01T12:00:00Z",
            }
        ]


def test_badges_of_a_hidden_account_are_not_shown():
    ada = an_account("ada", share_statistics=False)
    badge = a_badge()
    badge_awards.award_account(badge.pk, ada.pk, now=NOON)
    page(f"/accounts/{ada.pk}/", 404)
    assert Program().send("get", f"/accounts/{ada.pk}").status_code == 404
    [shown] = Program().send("get", "/badges").json()["results"]
    assert shown["accounts"] == 0
    update(ada, share_statistics=True)
    assert "Helper" in page(f"/accounts/{ada.pk}/")


def test_api_lists_published_badges_without_a_token():
    badge = a_badge(rule="total_credit", threshold=5, for_accounts=False, level=2, team_count=3)
    a_badge("draft", is_published=False)
    assert Program().send("get", "/badges").json() == {
        "results": [
            {
                "id": badge.pk,
                "name": "helper",
                "title": "Helper",
                "description": "",
                "rule": "total_credit",
                "threshold": 5.0,
                "level": 2,
                "image_url": f"http://127.0.0.1:8000/badges/{badge.pk}.svg",
                "accounts": None,
                "teams": 3,
            }
        ]
    }


def test_pages_take_a_constant_number_of_statements():
    ada = an_account("ada")
    reds = Team.objects.create(name="Reds", created_at=NOON)
    numbers = []
    for count in range(2):
        for number in range(4 * count + 1):
            badge = a_badge(f"b{count}-{number}")
            badge_awards.award_account(badge.pk, ada.pk, now=NOON)
            badge_awards.award_team(badge.pk, reds.pk, now=NOON)
        for path in ("/badges/", f"/accounts/{ada.pk}/", f"/teams/{reds.pk}/"):
            with CaptureQueriesContext(connection) as captured:
                page(path)
            numbers.append(len(captured))
    assert numbers[:3] == numbers[3:]
    assert numbers[0] == 1
