"""The lists of pages of the stories and the bench have every page of the site."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import resolve, reverse

from bench.pages import __main__ as pages_program
from bench.pages import visits
from tests.faces.site_pages import arguments_of, pages
from tests.rows import an_account
from tests.story import site_pages

#: Pages whose address or form the bench does not have: steps of a log-in, and links of mails.
NOT_MEASURED = {
    "account_confirm_email",
    "account_confirm_email_change",
    "account_key",  # of the visitor's first key, in `visit_all`
    "account_reset_password_from_key",
    "log_in_remove",
    "mfa_authenticate",
    "mfa_deactivate_totp",
    "mfa_generate_recovery_codes",
    "mfa_reauthenticate",
    "mfa_view_recovery_codes",
    "news",  # the newest, in `visit_all`
    "openid_connect_login",
    "socialaccount_signup",
    "unsubscribe",  # by its signed address, in `visit_all`
}
#: Addresses without a page that give 404 without a row, a provider or a second factor.
MISSING = {"mfa_download_recovery_codes", "openid_connect_callback", "team_display"}
LISTS = (
    site_pages.PUBLIC,
    site_pages.OWN,
    site_pages.STEPS,
    site_pages.OF_KEYS,
    site_pages.NO_PAGE,
)


def test_every_page_of_the_site_is_opened_in_a_browser_by_one_story():
    names = [name for names in LISTS for name in names]
    assert len(names) == len(set(names)), "a page is in two lists"
    missing = pages().keys() - set(names)
    assert not missing, f"{missing} are in no list. Hint: add them to tests/story/site_pages.py."
    assert set(names) == pages().keys(), "a list has a page that does not exist"
    assert site_pages.QUERIES.keys() <= pages().keys()


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(site_pages.NO_PAGE))
def test_address_without_a_page_shows_none(name):
    client = Client()
    client.force_login(an_account("ada"))
    answer = client.get(reverse(name, kwargs=arguments_of(name)))
    assert answer.status_code in {302, 404, 405}
    # A 404 could hide a page: only what needs a row, a provider or a second factor may give it.
    assert answer.status_code != 404 or name in MISSING


def test_every_page_of_the_site_is_measured_by_the_bench():
    paths = (*visits.PUBLIC, *(f"/account/{name}" for name in visits.OWN), *visits.OF_FOUNDER)
    measured = {resolve(path.partition("?")[0]).view_name for path in paths}
    expected = pages().keys() - site_pages.NO_PAGE - site_pages.OF_KEYS
    assert expected - measured == NOT_MEASURED


def test_bench_without_visits_is_refused_with_a_hint(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["bench.pages", "--visits", "0"])
    with pytest.raises(SystemExit) as refused:
        pages_program.main()
    assert refused.value.code == 2
    assert "--visits is 0. Hint: use a whole number from 1." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ([(5.0, 6), (7000.0, 7), (5.5, 6)], visits.Visit(6, 90.0, 5.5)),
        ([(5.0, 7), (7000.0, 7), (5.5, 7)], visits.Visit(7, 90.0, 5.5)),
    ],
    ids=["one visit counts large tables", "each visit takes another statement"],
)
def test_figures_of_a_page_are_medians_of_the_later_visits(monkeypatch, later, expected):
    sent = iter([(90.0, 6), *later])
    monkeypatch.setattr(visits, "_send", lambda _client, _page: next(sent))
    assert visits._visit(Client(), visits._page("/"), timed_visits=3) == expected
