"""Pages for people are in the visitor's language, and all others in English."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.conf import settings as django_settings
from django.core import mail
from django.test import Client
from django.urls import get_resolver
from django.utils import translation

from project import env
from scheduler.health import maintenance, status
from scheduler.health.rules import standstill_causes
from scheduler.health.rules.standstill_causes import HeldFacts, UnsentFacts
from scheduler.models import Account
from scheduler.people import accounts
from scheduler.web import languages, texts, wait_texts
from scheduler.web.accounts import forms
from scheduler.web.volunteers import shown
from tests.conftest import NOON
from tests.rows import a_host, a_result, a_workunit, an_account, an_app, settled, update

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "correct horse"
#: Words of English sentences that no German sentence contains.
ENGLISH = re.compile(
    r"\b(?:the|and|of|is|are|were|has|have|your|you|for|with|this|that|not|no|by|to|at|from"
    r"|waits?|reason|computers?|account|results?|work|needs?|last|each|all|sent|ended)\b"
)
GERMAN = {"accept-language": "de-AT,de;q=0.8,en;q=0.5"}


@pytest.fixture
def german() -> Client:
    return Client(headers=GERMAN)


@pytest.fixture
def ada(transactional_db) -> Account:
    digest = accounts.password_digest(email=EMAIL, password=PASSWORD)
    return accounts.create_account(
        email=EMAIL, passwd_hash=digest, name="Ada", address="192.0.2.7", now=NOON
    ).account


def content(answer) -> str:
    return answer.content.decode()


# Which language


@pytest.mark.parametrize(
    ("path", "german_text", "english_text"),
    [
        ("/", "Viele Hände, eine Berechnung", "Many hands, one computation"),
        ("/leaderboards/", "Ranglisten", "Leaderboards"),
        ("/teams/", "Es gibt noch keine Teams.", "There are no teams yet."),
        ("/account/login/", "Passwort vergessen?", "Forgot your password?"),
        ("/account/signup/", "Konto anlegen", "Create an account"),
        ("/user_search.php", "Personen suchen", "Search for people"),
        ("/account_finish.php", "Ihr Konto besteht", "Your account exists"),
        ("/stats/", "Statistik", "Statistics"),
        ("/no/such/page", "Diese Seite gibt es nicht", "There is no such page"),
        ("/teams/999/", "Diese Seite gibt es nicht", "There is no such page"),
    ],
)
def test_pages_are_german_for_a_german_browser_and_english_for_others(
    client, german, path, german_text, english_text
):
    answer = german.get(path)
    assert german_text in content(answer)
    assert '<html lang="de">' in content(answer)
    assert answer["Content-Language"] == "de"
    assert "Accept-Language" in answer["Vary"]
    assert "Cookie" in answer["Vary"]
    for headers in ({}, {"accept-language": "fr"}, {"accept-language": "en,de;q=0.5"}):
        answer = client.get(path, headers=headers)
        assert english_text in content(answer)
        assert '<html lang="en">' in content(answer)
        assert answer["Content-Language"] == "en"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/status",
        "/api/v1/no/such/resource",
        "/api/v1/batches",
        "/get_project_config.php",
        "/lookup_account.php?email_addr=nobody@example.org&passwd_hash=x",
        "/server_status.php",
        "/rss_main.php",
        "/status.json",
        "/robots.txt",
        "/.well-known/security.txt",
        "/admin/",
        "/admin/no/such/page",
    ],
)
def test_responses_for_programs_and_staff_do_not_depend_on_the_language(client, german, path):
    def body(answer):
        times = r'"read_at": "[^"]*"|<time>\d+</time>|<lastBuildDate>.*</lastBuildDate>'
        return re.sub(times, "", content(answer))

    english, other = client.get(path), german.get(path)
    assert body(english) == body(other)
    for answer in (english, other):
        assert "Content-Language" not in answer
        assert "Accept-Language" not in answer.get("Vary", "")


def test_administration_is_english_for_a_german_browser(german, settings):
    settings.PROJECT = replace(settings.PROJECT, staff_second_factor=False)
    staff = an_account("staff")
    update(staff, is_staff=True, is_superuser=True)
    german.force_login(Account.objects.get(pk=staff.pk))
    answer = german.get("/admin/scheduler/host/")
    assert answer.status_code == 200
    assert "Select" in content(answer)
    assert "Content-Language" not in answer


def test_language_ends_with_the_request(german):
    german.get("/")
    assert translation.get_language() == "en"
    german.get("/no/such/page")
    assert translation.get_language() == "en"


def test_names_of_pages_are_not_names_of_other_urls():
    page_names = languages._page_names()
    assert {"status", "account_login", "mfa_index", "team", "set_language"} <= page_names
    assert not page_names & {"status_json", "account_export"}
    for urls in ("scheduler.api.urls", "scheduler.boinc.urls", "scheduler.boinc_submission.urls"):
        assert not page_names & set(languages._names(get_resolver(urls).url_patterns))


# The form


def test_form_stores_the_language_and_returns_to_the_page(client):
    answer = client.get("/teams/?q=a&sort=name")
    assert 'name="next" value="/teams/?q=a&amp;sort=name"' in content(answer)
    answer = client.post("/language/", {"language": "de", "next": "/teams/?q=a&sort=name"})
    assert (answer.status_code, answer["Location"]) == (302, "/teams/?q=a&sort=name")
    cookie = answer.cookies[django_settings.LANGUAGE_COOKIE_NAME]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")
    assert "Teams" in content(client.get("/teams/", headers={"accept-language": "en"}))
    assert '<html lang="de">' in content(client.get("/", headers={"accept-language": "en"}))
    client.post("/language/", {"language": "en", "next": "/"})
    assert '<html lang="en">' in content(client.get("/", headers=GERMAN))


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "///evil.example",
        "javascript:alert(1)",
        "/language/",
        "teams/",
        "",
    ],
)
def test_form_redirects_only_to_paths_of_this_site(client, target):
    answer = client.post("/language/", {"language": "de", "next": target})
    assert (answer.status_code, answer["Location"]) == (302, "/")


@pytest.mark.parametrize("language", ["fr", "", "de-AT", "x" * 10_000, "../de"])
def test_unknown_language_is_ignored(client, language):
    answer = client.post("/language/", {"language": language, "next": "/"})
    assert answer.status_code == 302
    assert django_settings.LANGUAGE_COOKIE_NAME not in answer.cookies
    client.cookies[django_settings.LANGUAGE_COOKIE_NAME] = language[:100]
    assert '<html lang="en">' in content(client.get("/"))


def test_form_needs_post_and_a_csrf_token():
    browser = Client(enforce_csrf_checks=True)
    assert browser.get("/language/").status_code == 405
    data = {"language": "de", "next": "/"}
    assert browser.post("/language/", data).status_code == 403
    page = content(browser.get("/"))
    form = re.search(r'<form class="language".*?</form>', page, re.DOTALL)
    assert form
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form[0])
    assert token
    answer = browser.post("/language/", data | {"csrfmiddlewaretoken": token[1]})
    assert answer.status_code == 302
    assert '<label for="language">' in form[0]
    assert '<option value="de" lang="de">Deutsch</option>' in form[0]


def test_page_that_proxies_may_store_has_no_form(client):
    answer = client.get("/account_finish.php")
    assert "public" in answer["Cache-Control"]
    assert "csrf" not in content(answer)
    assert not answer.cookies


def test_project_chooses_its_languages(client, german, settings, monkeypatch):
    settings.PROJECT = replace(settings.PROJECT, site_languages=("de", "en"))
    assert '<html lang="de">' in content(client.get("/"))
    settings.PROJECT = replace(settings.PROJECT, site_languages=("en",))
    assert '<html lang="en">' in content(german.get("/"))
    assert 'class="language"' not in content(german.get("/"))
    monkeypatch.setenv("SITE_LANGUAGES", "de, en, de")
    assert env.languages("SITE_LANGUAGES", ("en", "de")) == ("de", "en")
    monkeypatch.setenv("SITE_LANGUAGES", "fr")
    with pytest.raises(env.BadSetting, match="en or de, separated by commas"):
        env.languages("SITE_LANGUAGES", ("en", "de"))


# Numbers, times and texts


def test_numbers_follow_the_language_and_machine_readable_parts_do_not(german, client):
    ada = an_account("ada")
    update(ada, total_credit=Decimal("1234567.8"), expavg_credit=1234.5)
    host = a_host(account=ada)
    update(host, total_credit=Decimal("1234567.8"), expavg_credit=1234.5, created_at=NOON)
    path = f"/accounts/{ada.pk}/"
    assert "1.234.568" in content(german.get(path))
    assert "1,234,568" in content(client.get(path))

    def machine_readable(answer):
        text = re.sub(r'value="\w{64}"', "", content(answer))
        return re.findall(r' (?:datetime|href|value|viewBox|cx|cy|r|d|style)="[^"]*"', text)

    for each in (path, "/", "/leaderboards/", f"/show_host_detail.php?hostid={host.pk}"):
        english, other = client.get(each), german.get(each)
        assert machine_readable(english) == machine_readable(other)
        shares = [re.findall(r"flex-grow: [^ ]+", content(answer)) for answer in (english, other)]
        assert shares[0] == shares[1]


def test_values_of_preference_forms_are_the_same_in_both_languages(german):
    ada = an_account("ada")
    german.force_login(ada)
    pages = [
        content(german.get("/account/preferences/computing/", headers={"accept-language": code}))
        for code in ("en", "de")
    ]
    values = [re.findall(r'<input type="number"[^>]*>', page) for page in pages]
    assert values[0] == values[1]
    assert any('value="0.5"' in each for each in values[0])
    assert "Der Standardwert ist 0,5 Tage." in pages[1]
    assert "The default is 0.5 days." in pages[0]


def test_labels_of_the_status_are_translated_only_on_request(german):
    english = german.get("/status.json").json()
    labels = german.get("/status.json?language=de").json()["labels"]
    assert english["labels"]["life.validator"] == "never seen"
    assert labels["life.validator"] == "nie gesehen"
    assert german.get("/status.json?language=xx").json()["labels"] == english["labels"]


def test_times_are_relative_in_the_case_that_german_needs():
    with translation.override("de"):
        before = shown.time_of(NOON - timedelta(days=3), now=NOON)
        after = shown.time_of(NOON + timedelta(hours=1, minutes=5), now=NOON)
    assert (before.ago, after.ago) == ("vor 3 Tagen", "in 1 Stunde")
    assert before.exact == f"{NOON - timedelta(days=3):%Y-%m-%d %H:%M:%S} UTC"


def test_texts_of_other_packages_are_translated_with_their_values():
    with translation.override("de"):
        assert texts.translated("waiting for validation") == "wartet auf Validierung"
        sentence = "Team 100 % (a)s accepts no members. Hint: ask its founder."
        assert texts.translated(sentence).startswith("Das Team 100 % (a)s nimmt keine")
        assert texts.translated("An unlisted text") == "An unlisted text"
        assert texts.translated("") == ""
        assert texts.number(1234.56, 1) == "1.234,6"
    assert texts.translated(sentence) == sentence


#: Facts about unsent work, each with the cause that the front page shows.
STALLED = (
    ({"unversioned": 1}, "no_version"),
    ({"unversioned": 1000}, "no_version"),
    ({}, "no_host"),
    ({"hosts": 2, "last_contact_at": NOON - timedelta(hours=1)}, "no_host_asks"),
    *(
        ({"hosts": 4, "accounts": 3, name: 2, "quorum": quorum}, name)
        for name in ("account_short", "host_short")
        for quorum in (1, 2)
    ),
    *(
        ({"hosts": hosts, "all_refused": count, "reason": reason}, "all_refused")
        for hosts in (1, 7)
        for count in (1, 2)
        for reason in ("memory", "no_version", "something new", None)
    ),
    ({"hosts": 7, "no_host_left": 2, "reason": "cpus"}, "no_host_left"),
)


@pytest.mark.parametrize(("facts", "cause"), STALLED)
@pytest.mark.parametrize("unsent", [1, 2, 1000])
def test_reasons_why_work_waits_are_in_the_visitors_language(facts, cause, unsent):
    waits = standstill_causes.waits(
        UnsentFacts(**({"unsent": unsent, "last_contact_at": NOON} | facts)), HeldFacts(), now=NOON
    )
    assert cause in {wait.cause for wait in waits} or cause == "no_host_asks"
    for wait in waits:
        assert wait_texts.sentence(wait) == wait.sentence
        with translation.override("de"):
            german_text = wait_texts.sentence(wait)
        assert not ENGLISH.search(german_text), german_text
        assert "Arbeitspaket" in german_text
        assert ("oder mehr" in german_text) is (wait.workunits >= standstill_causes.MAX_EXAMINED)


def test_front_page_shows_stalled_work_and_maintenance_in_german(german, client):
    a_result(a_workunit())
    maintenance.end_project(message="Thanks!", now=NOON)
    status.forget()
    text = content(german.get("/"))
    assert "1 Arbeitspaket wartet auf eine App-Version" in text
    assert "Das Projekt ist beendet: Es wird keine Arbeit gesendet." in text
    assert "Dieses Projekt ist beendet und sendet keine Arbeit mehr." in text
    assert "Thanks!" in text
    assert [each for each in texts_of(text) if ENGLISH.search(each)] == []
    status.forget()
    assert "1 workunit waits for an app version" in content(client.get("/"))


@pytest.mark.parametrize(
    ("english_text", "german_text"),
    [
        (
            "100 % (a)s needs 1234.50 MB RAM but only 8.25 MB is available for use.",
            "100 % (a)s braucht 1.234,50 MB Arbeitsspeicher, aber nur 8,25 MB sind nutzbar.",
        ),
        (
            (
                "Tasks won't finish in time: BOINC computes 95.5% of the time and 60 seconds are "
                "queued."
            ),
            (
                "Die Aufgaben würden nicht rechtzeitig fertig: BOINC rechnet 95,5 % der Zeit, und "
                "Arbeit für 60 Sekunden wartet schon."
            ),
        ),
        (
            "These tasks are not for your GPU's model (needs 2.50 MB).",
            "Diese Aufgaben sind nicht für das Modell Ihrer GPU (needs 2.50 MB) bestimmt.",
        ),
    ],
)
def test_values_of_refusals_follow_the_language(english_text, german_text):
    with translation.override("de"):
        assert texts.translated(english_text) == german_text


def test_page_of_a_computer_explains_refusals_and_messages_in_german(german):
    ada = an_account("ada")
    message = "No tasks are available for the applications you have selected."
    host = a_host(
        ada,
        last_decisions=[
            {
                "at": "2026-01-01T12:00:00+00:00",
                "given": 0,
                "resent": 0,
                "refused": {"memory": 3},
                "sentences": {
                    "memory": "<b> needs 4.50 MB RAM but only 2.00 MB is available for use."
                },
                "said": ["Resent lost task wu_1", message, "A message of the staff"],
            }
        ],
    )
    german.force_login(ada)
    text = content(german.get(f"/account/computers/{host.pk}/"))
    assert "&lt;b&gt; braucht 4,50 MB Arbeitsspeicher" in text
    assert f'<small lang="en">({message})</small>' in text
    assert "Verlorene Aufgabe wu_1 noch einmal gesendet" in text
    assert "A message of the staff" in text
    assert "(A message of the staff)" not in text
    text = content(german.get(f"/account/computers/{host.pk}/", headers={"accept-language": "en"}))
    assert f"{message} / A message of the staff" in " ".join(text.split())


def test_words_with_two_meanings_have_two_translations(german, settings):
    ada = an_account("ada")
    german.force_login(ada)
    text = content(german.get("/account/"))
    facts = dict(re.findall(r"<dt>([^<]*)</dt><dd>([^<]*) <a", text))
    assert (facts["Zweiter Faktor"], facts["Ihr Team"]) == ("Keiner", "Keins")
    assert '<option value="0" selected>Ohne</option>' in content(german.get("/teams/new/"))
    with translation.override("en"):
        assert '<option value="0" selected>None</option>' in content(
            german.get("/teams/new/", headers={"accept-language": "en"})
        )


def test_scopes_have_a_german_word_beside_their_name_in_the_api(german, client):
    ada = an_account("ada")
    with translation.override("de"):
        assert forms.scope_label("read") == "lesen (read)"
        assert forms.scope_label("unknown") == "unknown"
    assert forms.scope_label("read") == "read"
    labels = dict(forms.TokenForm(account=ada).fields["scopes"].choices)
    assert labels == {"read": "read", "submit": "submit"}


def test_every_text_of_a_page_changes_with_the_language(german, transactional_db):
    """A text that is the same in both languages is a name, a number, or an example of a command."""
    ada = an_account("ada", total_credit=Decimal(5))
    host = a_host(ada, domain_name="desk")
    workunit = a_workunit(an_app("primes", user_friendly_name="Primes"))
    result = a_result(workunit, "valid", host=host)
    sent = a_result(workunit, "sent", host=a_host(ada, domain_name="laptop"))
    settled(workunit, result)
    german.force_login(ada)
    paths = [
        *("/", "/news/", "/teams/", "/leaderboards/", "/leaderboards/computers/", "/badges/"),
        *("/statistics/computers/", "/statistics/credit/", "/stats/", "/user_search.php"),
        *("/account/", "/account/computers/", "/account/results/", "/account/email/"),
        *("/account/preferences/computing/", "/account/preferences/project/", "/teams/new/"),
        *("/account/certificate/", "/account/ownership/", "/ownership/", "/account/log-ins/"),
        f"/account/computers/{host.pk}/",
        f"/account/results/{result.pk}/",
        f"/account/results/{sent.pk}/",
        f"/account/workunits/{workunit.pk}/",
    ]
    same: dict[str, set[str]] = {}
    for path in paths:
        shown_texts = [
            texts_of(content(german.get(path, headers={"accept-language": code}, follow=True)))
            for code in ("de", "en")
        ]
        if found := {text for text in shown_texts[0] & shown_texts[1] if ENGLISH.search(text)}:
            same[path] = found
    assert same == {}


def texts_of(page: str) -> set[str]:
    """Return the texts of a page, without commands, code and parts that are marked as English."""
    for tag in ("pre", "code", "script", "small lang=.en", "span lang=.en"):
        name = tag.partition(" ")[0]
        page = re.sub(rf"<{tag}.*?</{name}>", "", page, flags=re.DOTALL)
    return {" ".join(text.split()) for text in re.findall(r">([^<>]+)<", page)} - {""}


def test_errors_of_forms_and_mails_are_in_the_language_of_the_visitor(german, ada, settings):
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    answer = german.post("/account/login/", {"login": EMAIL, "password": "wrong"})
    assert "Kein Konto hat diese E-Mail-Adresse und dieses Passwort." in content(answer)
    answer = german.post("/account/login/", {"login": "", "password": ""})
    assert "Dieses Feld ist zwingend erforderlich." in content(answer)
    answer = german.post("/account/login/", {"login": "x", "password": "y"})
    assert "Geben Sie eine gültige E-Mail-Adresse ein." in content(answer)
    german.post("/account/password/reset/", {"email": EMAIL})
    assert "Neues Passwort festlegen" in mail.outbox[-1].subject
    assert "Folgen Sie diesem Link" in mail.outbox[-1].body
    Client().post("/account/password/reset/", {"email": EMAIL})
    assert "Follow this link" in mail.outbox[-1].body
