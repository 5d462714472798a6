"""`/.well-known/security.txt` names the contacts for vulnerability reports."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from project import env

PATH = "/.well-known/security.txt"


@pytest.fixture
def contact(settings):
    def contact(*addresses, url="https://example.org/project/"):
        settings.PROJECT = replace(settings.PROJECT, security_contact=addresses, master_url=url)

    return contact


def test_security_txt_returns_404_without_a_contact(client, contact):
    contact()
    assert client.get(PATH).status_code == 404


def test_security_txt_contains_contacts_canonical_url_and_expiry(client, contact):
    contact("mailto:security@example.org", "https://example.org/report")
    answer = client.get(PATH)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    lines = answer.content.decode().splitlines()
    assert lines[:2] == [
        "Contact: mailto:security@example.org",
        "Contact: https://example.org/report",
    ]
    assert f"Canonical: https://example.org{PATH}" in lines
    (expires,) = [line.partition(": ")[2] for line in lines if line.startswith("Expires: ")]
    left = datetime.strptime(expires, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) - timezone.now()
    assert timedelta(days=170) < left < timedelta(days=365)


def test_security_txt_of_an_http_project_has_no_canonical_url(client, contact):
    contact("mailto:security@example.org", url="http://127.0.0.1:8000/")
    assert b"Canonical" not in client.get(PATH).content


@pytest.mark.parametrize("method", ["post", "put", "delete"])
def test_security_txt_returns_405_for_post_put_and_delete(client, contact, method):
    contact("mailto:security@example.org")
    assert getattr(client, method)(PATH).status_code == 405


@pytest.mark.parametrize(
    ("value", "contacts"),
    [
        ("", ()),
        ("security@example.org", ("mailto:security@example.org",)),
        (
            "https://example.org/report, tel:+1-201-555-0123",
            ("https://example.org/report", "tel:+1-201-555-0123"),
        ),
    ],
)
def test_contacts_are_read_from_the_environment(monkeypatch, value, contacts):
    monkeypatch.setenv("SECURITY_CONTACT", value)
    assert env.contacts("SECURITY_CONTACT") == contacts


@pytest.mark.parametrize("value", ["security", "http://example.org/", "a b@c", "a@b\nExpires: x"])
def test_an_invalid_contact_is_refused(monkeypatch, value):
    monkeypatch.setenv("SECURITY_CONTACT", value)
    with pytest.raises(env.BadSetting, match="e-mail addresses"):
        env.contacts("SECURITY_CONTACT")
