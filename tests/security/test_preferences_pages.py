"""Stored preferences that are hostile, and preferences of other accounts."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from django.test import Client
from django.utils import timezone

from scheduler.boinc import own_preferences
from scheduler.boinc.wire import messages, shapes
from scheduler.hosts import identity, own_hosts
from scheduler.models import Account
from tests.faces.apis import a_program
from tests.faces.pages import comparable
from tests.rows import an_account
from tests.scripted_client import a_client

pytestmark = pytest.mark.django_db

COMPUTING = "/account/preferences/computing/"
PROJECT = "/account/preferences/project/"
PATHS = (COMPUTING, PROJECT)
SCRIPT = "<script>alert(1)</script>"
HOSTILE = [
    "<max_ncpus_pct>",
    "</global_preferences></project_preferences><x>",
    f"{SCRIPT}<max_ncpus_pct>{SCRIPT}</max_ncpus_pct>",
    '<venue name="&lt;script&gt;alert(1)&lt;/script&gt;"><a>1</a></venue>',
    "<venue name=\"'&gt;&lt;img src=x&gt;\"></venue><venue/><venue name=''>x</venue>",
    "<!DOCTYPE x [<!ENTITY a 'b'>]><a>&a;</a>",
    "<a>" * 1000,
    "<a>1</a>" * 3000,
    "<max_ncpus_pct>1e999</max_ncpus_pct><start_hour>-1e999</start_hour><app_id>9e99</app_id>",
    "<resource_share>nan</resource_share><max_jobs>99999999999999999999</max_jobs>",
    "<idle_time_to_run>\x00\ud7ff\u202e</idle_time_to_run>".replace("\x00", ""),
    f"<{'n' * 60}>1</{'n' * 60}>",
    "<app_id>5</app_id>" * 2000,
    "<note><![CDATA[ <x ]]></note>",
    "<note><![CDATA[</note><a>]]></note>",
    "<max_jobs><![CDATA[ 3<x> ]]></max_jobs><start_hour><![CDATA[</start_hour>]]></start_hour>",
    "<note>&lt;/note&gt; ]]> &lt;![CDATA[ &amp;lt; &nbsp; &#60;x&#62;</note>",
    "<note>1 < 2, <x </note>",
    "<note>1 < 2</note><!-- </note> --><?x <y ?>",
    '<venue name="home"><note><![CDATA[ <x ]]></note><a><![CDATA[<b>]]></a></venue>',
    "<global_preferences><a>1</a></global_preferences>",
    "<project_preferences><a><![CDATA[<b>]]></a></project_preferences>",
    "<a><global_preferences>1</global_preferences><project_preferences/></a>",
    "<![CDATA[ <x ",
]
#: Markup that no text for a client may contain, because clients read it by string search.
UNREADABLE_MARKUP = ("<!", "<?", "<x>", "< ")


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


def browser_of(account: Account, **options: object) -> Client:
    client = Client(**options)
    client.force_login(account)
    return client


def sent(browser: Client, path: str) -> dict[str, object]:
    form = browser.get(path).context["form"]
    values = {name: form[name].value() for name in form.fields}
    return {name: value for name, value in values.items() if value is not False}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_shown_escaped_and_replaced_by_a_readable_one(ada, text):
    Account.objects.filter(pk=ada.pk).update(
        global_prefs=text, project_prefs=text, global_prefs_mod_time=8e9
    )
    browser, program = browser_of(ada), a_program(ada)
    for path in PATHS:
        answer = browser.get(path)
        assert answer.status_code == 200
        text_of_page = comparable(answer)
        for word in (b"maintenance", b"Shenandoah"):
            text_of_page = text_of_page.replace(word, b"")
        for mark in (b"<script", b"<img", b"nan", b"inf"):
            assert mark not in text_of_page
    for name in ("computing", "project"):
        assert program.send("get", f"/me/preferences/{name}").status_code == 200
        assert program.send("patch", f"/me/preferences/{name}", {}).status_code == 200
        assert program.send("get", f"/me/preferences/{name}?location=home").status_code == 200
    ada.refresh_from_db()
    # A client can read what was stored: an unbalanced text corrupts its account file.
    for column, element in (
        ("global_prefs", "global_preferences"),
        ("project_prefs", "project_preferences"),
    ):
        value = getattr(ada, column)
        assert "<!DOCTYPE" not in value
        assert value in shapes.raw(balanced=True).write(element, value, "")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_is_answered_with_preferences_that_clients_read(text):
    """A stock client sends its working preferences, and those that it got from another project."""
    client = a_client()
    [account] = Account.objects.all()
    Account.objects.filter(pk=account.pk).update(
        global_prefs=text, project_prefs=text, global_prefs_mod_time=1.8e9
    )
    reply = client.ask(
        global_preferences="<source_project>https://other.example/</source_project>\n"
        "<mod_time>1700000000</mod_time>\n<max_ncpus_pct>50</max_ncpus_pct>",
        preferences=messages.Preferences(mod_time=1.7e9),
        cpu_req_secs=1,
    )
    assert reply.project_preferences
    for element in ("global_preferences", "project_preferences"):
        sent_text = getattr(reply, element) or ""
        marks = [*UNREADABLE_MARKUP, f"<{element}", f"</{element}"]
        assert [mark for mark in marks if mark in sent_text] == []
    account.refresh_from_db()
    assert account.global_prefs == text
    # A notice says what to do exactly if the text is not sent.
    notices = [message.text for message in reply.messages if "cannot be read" in message.text]
    kinds = (own_preferences.COMPUTING, own_preferences.PROJECT)
    unreadable = [kind for kind in kinds if not own_preferences.read(account, kind, "").is_readable]
    assert len(notices) == len(unreadable)
    if own_preferences.COMPUTING in unreadable:
        assert reply.global_preferences is None
    # The pages of a third party that reads them answer, too.
    answer = Client().get("/am_get_info.php", {"account_key": client.key})
    assert ET.fromstring(answer.content).find("success") is not None


@pytest.mark.parametrize("text", ["<a>", "</a>", "<![CDATA[ <x ", "<x/></global_preferences>"])
def test_unreadable_text_is_named_on_the_page_and_in_the_api_and_replaced(ada, text):
    Account.objects.filter(pk=ada.pk).update(global_prefs=text, project_prefs=f"{text}<b>")
    browser, program = browser_of(ada), a_program(ada)
    for name, path in (("computing", COMPUTING), ("project", PROJECT)):
        shown = " ".join(browser.get(path).content.decode().split())
        assert "Your stored preferences cannot be read" in shown
        assert "Save to store new preferences" in shown
        answer = program.send("get", f"/me/preferences/{name}").json()
        assert (answer["is_readable"], answer["is_own"]) == (False, False)
        assert browser.post(path, sent(browser, path)).status_code == 302
        assert program.send("get", f"/me/preferences/{name}").json()["is_readable"]


@pytest.mark.parametrize("text", ["<a>", "</a>", "<![CDATA[ <x ", "<a><b></a></b>"])
def test_unreadable_preferences_of_a_client_are_not_stored(text):
    client, time = a_client(), "<mod_time>1700000000</mod_time>"
    client.ask(global_preferences=time + text)
    account = Account.objects.get()
    assert (account.global_prefs, account.global_prefs_mod_time) == ("", 0)
    client.ask(global_preferences=f"{time}<a>1</a>")
    account.refresh_from_db()
    assert (account.global_prefs, account.global_prefs_mod_time) == (f"{time}<a>1</a>", 1.7e9)


def test_preferences_that_would_not_fit_in_a_reply_are_refused(ada):
    text = f"<note>{'x' * 65_500}</note>"
    Account.objects.filter(pk=ada.pk).update(global_prefs=text, project_prefs=text)
    browser, program = browser_of(ada), a_program(ada)
    for path in PATHS:
        answer = browser.post(path, sent(browser, path))
        assert answer.status_code == 200
        assert "longer than 65535 bytes" in answer.content.decode()
    answer = program.send("patch", "/me/preferences/project", {})
    assert (answer.status_code, answer.json()["code"]) == (422, "preferences_too_long")
    ada.refresh_from_db()
    assert ada.global_prefs == ada.project_prefs == text
    assert program.send("delete", "/me/preferences/project").status_code == 204


def test_preferences_of_another_account_are_neither_shown_nor_changed(ada):
    secret = '<app_id>4711</app_id><venue name="office-of-ada"><max_jobs>1</max_jobs></venue>'
    Account.objects.filter(pk=ada.pk).update(project_prefs=secret, global_prefs=secret)
    eve = an_account("eve", is_staff=True, is_superuser=True)
    browser, program = browser_of(eve), a_program(eve)
    for path in PATHS:
        for query in ({}, {"account": ada.pk}, {"userid": ada.pk, "id": ada.pk}):
            text = comparable(browser.get(path, query))
            assert b"4711" not in text
            assert b"office-of-ada" not in text
        assert browser.get(path, {"location": "office-of-ada"}).status_code == 404
        browser.post(path, {**sent(browser, path), "account": ada.pk, "id": ada.pk})
    for name in ("computing", "project"):
        answer = program.send("get", f"/me/preferences/{name}?location=office-of-ada")
        assert answer.status_code == 422
        program.send("patch", f"/me/preferences/{name}", {})
    ada.refresh_from_db()
    assert ada.project_prefs == ada.global_prefs == secret
    eve.refresh_from_db()
    assert "4711" not in eve.project_prefs


def test_pages_need_a_log_in_and_a_token_against_forged_requests(ada):
    for path in PATHS:
        answer = Client().get(path)
        assert (answer.status_code, "/account/login/" in answer["Location"]) == (302, True)
        forged = browser_of(ada, enforce_csrf_checks=True).post(path, {"action": "reset"})
        assert forged.status_code == 403
    ada.refresh_from_db()
    assert ada.global_prefs == ada.project_prefs == ""


@pytest.mark.parametrize("action", ["reset", "remove"])
def test_actions_without_the_version_that_was_read_change_nothing(ada, action):
    text = '<max_jobs>1</max_jobs><venue name="home"><max_jobs>2</max_jobs></venue>'
    Account.objects.filter(pk=ada.pk).update(project_prefs=text)
    for version in ({}, {"version": ""}, {"version": "0" * 32}):
        browser_of(ada).post(f"{PROJECT}?location=home", {"action": action, **version})
    ada.refresh_from_db()
    assert ada.project_prefs == text


def test_forged_values_are_not_stored(ada):
    browser = browser_of(ada)
    for path, name in ((COMPUTING, "max_ncpus_pct"), (PROJECT, "keywords_yes")):
        for value in ("1</a><b>", "&lt;", '5" x="', "１２"):
            answer = browser.post(path, {**sent(browser, path), name: value})
            ada.refresh_from_db()
            if answer.status_code == 200:
                assert name in answer.context["form"].errors
            assert not set('"&') & set(ada.global_prefs + ada.project_prefs)
            assert "１" not in ada.global_prefs + ada.project_prefs


def test_preferences_of_a_client_do_not_replace_newer_ones_that_were_saved_meanwhile(ada):
    """A request is answered with the account as it was read at its beginning."""
    program = a_program(ada)
    program.send("patch", "/me/preferences/computing", {"max_ncpus_pct": 33})
    ada.refresh_from_db()
    saved = ada.global_prefs
    older = ("<max_ncpus_pct>44</max_ncpus_pct>", ada.global_prefs_mod_time)
    identity.adopt(ada.pk, cross_project_id="a" * 32, global_prefs=older)
    ada.refresh_from_db()
    assert (ada.global_prefs, ada.cross_project_id) == (saved, "a" * 32)
    newer = (older[0], older[1] + 1)
    identity.adopt(ada.pk, cross_project_id=None, global_prefs=newer)
    ada.refresh_from_db()
    assert (ada.global_prefs, ada.global_prefs_mod_time) == newer


def test_the_next_scheduler_reply_has_the_saved_preferences():
    client = a_client()
    [account] = Account.objects.all()
    program = a_program(account)
    program.send("patch", "/me/preferences/computing", {})
    program.send("patch", "/me/preferences/computing?location=work", {"max_ncpus_pct": 33})
    program.send("patch", "/me/preferences/project", {"resource_share": 250})
    reply = client.ask()
    account.refresh_from_db()
    assert reply.global_preferences == account.global_prefs
    assert '<venue name="work">' in reply.global_preferences
    assert "<resource_share>250</resource_share>" in reply.project_preferences
    # A client that has them does not get them again.
    again = client.ask(
        global_preferences=account.global_prefs,
        global_preferences_mod_time=account.global_prefs_mod_time,
    )
    assert again.global_preferences is None
    assert own_preferences.read(account, own_preferences.COMPUTING, "work").is_own


def test_text_without_settings_for_a_location_is_not_sent_to_its_computers():
    """Clients read missing settings as off, and would lose the preferences that they have."""
    client, other = a_client(), a_client(email="bob@example.org")
    client.ask()
    [account] = Account.objects.filter(email__startswith="ada")
    program = a_program(account)
    program.send("patch", "/me/preferences/computing?location=work", {"max_ncpus_pct": 33})
    assert client.ask().global_preferences is None
    own_hosts.set_venue(account, client.hostid, "work", now=timezone.now())
    assert '<venue name="work">' in (client.ask().global_preferences or "")
    own_hosts.set_venue(account, client.hostid, "", now=timezone.now())
    assert client.ask().global_preferences is None
    program.send("patch", "/me/preferences/computing", {"max_ncpus_pct": 44})
    assert "<max_ncpus_pct>44<" in (client.ask().global_preferences or "")
    assert other.ask().global_preferences is None
