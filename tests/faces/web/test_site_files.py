"""The files that crawlers and browsers request by themselves."""

from __future__ import annotations

import pytest

from scheduler.web.site_files import DISALLOWED_PATHS


def test_robots_txt_disallows_paths_for_programs(client):
    answer = client.get("/robots.txt")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.content.decode().splitlines() == [
        "User-agent: *",
        *(f"Disallow: {path}" for path in DISALLOWED_PATHS),
    ]
    assert "public" in answer["Cache-Control"]


def test_favicon_is_served_as_svg(client):
    answer = client.get("/favicon.ico", follow=True)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "image/svg+xml"
    assert b"".join(answer).startswith(b"<svg")
    assert client.post("/favicon.ico").status_code == 405


@pytest.mark.django_db
def test_the_page_links_to_the_icon(client):
    page = client.get("/").content.decode()
    assert '<link rel="icon" href="/static/scheduler/favicon' in page
