"""News in the API."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings

from scheduler.messages import news
from tests.conftest import NOON
from tests.faces.apis import Program

pytestmark = pytest.mark.django_db


def publish(title: str, text: str = "Text."):
    return news.publish(title, text, author=None, now=NOON)


def read(path: str, status: int = 200):
    answer = Program().send("get", path)
    assert answer.status_code == status
    return answer.json()


def test_news_are_listed_without_a_token_newest_first_in_pages():
    rows = [publish(f"N{number}") for number in range(3)]
    page = read("/news?limit=2")
    assert [row["title"] for row in page["results"]] == ["N2", "N1"]
    assert page["previous"] is None
    page = read(page["next"].partition("/api/v1")[2])
    assert page["results"] == [
        {
            "id": rows[0].pk,
            "title": "N0",
            "text": "Text.",
            "published_at": f"{NOON:%Y-%m-%dT%H:%M:%SZ}",
            "url": f"{settings.PROJECT.master_url}news/{rows[0].pk}/",
        }
    ]


def test_one_piece_of_news_is_read_and_not_sent_again_unchanged():
    row = publish("<b>Hello</b>", "a < b")
    answer = Program().send("get", f"/news/{row.pk}")
    assert (answer.json()["title"], answer.json()["text"]) == ("<b>Hello</b>", "a < b")
    again = Program().get(f"/api/v1/news/{row.pk}", headers={"If-None-Match": answer["ETag"]})
    assert again.status_code == 304


def test_withdrawn_and_unknown_news_are_404_and_not_listed():
    row = publish("Wrong")
    news.withdraw([row.pk], now=NOON + timedelta(hours=1))
    assert read("/news")["results"] == []
    for number in (row.pk, row.pk + 1):
        assert read(f"/news/{number}", 404)["code"] == "not_found"


def test_index_has_a_link_to_the_news():
    assert read("/")["links"]["news"].endswith("/api/v1/news")


def test_list_takes_one_statement(django_assert_num_queries):
    for number in range(5):
        publish(f"N{number}")
    with django_assert_num_queries(1):
        assert len(read("/news")["results"]) == 5
