"""Pages about accounts, computers and teams, for account managers and sites."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from urllib.parse import unquote_plus
from xml.etree import ElementTree as ET

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler.models import Account, AuditEntry, Host, Team
from scheduler.people import account_keys, accounts, teams
from scheduler.people.account_keys import weak_key
from tests import rows
from tests.conftest import NOON

pytestmark = pytest.mark.django_db

EMAIL, PASSWORD = "ada@example.org", "a first password"
SINCE = int(NOON.timestamp())
GAINS = {"total_credit": Decimal("12.5"), "expavg_credit": 2.25, "expavg_at": NOON}


def words(text: str) -> list[str]:
    return text.split()


USER = words("id cpid create_time name total_credit expavg_credit expavg_time teamid has_profile")
HOST = words(
    "id create_time rpc_seqno rpc_time host_cpid total_credit expavg_credit expavg_time domain_name "
    "p_ncpus p_vendor p_model p_fpops p_iops os_name os_version m_nbytes d_free d_total venue"
)
TEAM = words("id create_time userid name url type country total_credit expavg_credit expavg_time")
INFO = words(
    "success id name country weak_auth cpid has_profile create_time global_prefs project_prefs url "
    "send_email show_hosts teamid venue"
)


def get(page: str, **params: object) -> ET.Element:
    """Return the root of an XML reply, which declares BOINC's charset."""
    answer = Client().get(f"/{page}", params)
    assert (answer.status_code, answer["Content-Type"]) == (200, "text/xml")
    assert answer.content.isascii()
    root = ET.fromstring(answer.content)
    if not page.startswith(("create", "get_project")) and root.tag != "error":
        prolog = b'<?xml version="1.0" encoding="ISO-8859-1" ?>\n'
        assert answer.content.startswith(prolog)
    return root


def tags(element: ET.Element) -> list[str]:
    return [child.tag for child in element]


def error(page: str, **params: object) -> str | None:
    root = get(page, **params)
    assert root.tag == "error"
    return root.findtext("error_num")


def cpid(account: Account) -> str:
    return hashlib.md5((account.cross_project_id + account.email).encode()).hexdigest()


@pytest.fixture
def key() -> str:
    """Create Ada's account, and return its strong key."""
    credentials = accounts.create_account(
        email=EMAIL,
        passwd_hash=accounts.password_digest(email=EMAIL, password=PASSWORD),
        name="Ada & Zoë",
        by_staff=True,
        now=NOON,
    )
    return credentials.key


@pytest.fixture
def ada(key: str) -> Account:
    account = Account.objects.get(email=EMAIL)
    rows.update(account, **GAINS, country="Finland", url="https://example.org/~ada?a=1&b=2")
    return account


# am_get_info.php


def test_account_manager_gets_the_account_with_the_elements_of_boinc_in_order(ada, key):
    team = Team.objects.create(name="t", founder=ada, created_at=NOON)
    rows.update(
        ada,
        team=team,
        venue="home",
        show_hosts=True,
        global_prefs="<mod_time>5</mod_time>\n<idle_time_to_run>3</idle_time_to_run>",
        project_prefs="<resource_share>50</resource_share>",
    )
    info = get("am_get_info.php", account_key=key)
    assert info.tag == "am_get_info_reply"
    assert tags(info) == [*INFO, "teamfounder"]
    assert unquote_plus(info.findtext("name", "")) == "Ada & Zoë"
    assert info.findtext("name", "").isascii()
    assert unquote_plus(info.findtext("url", "")) == "https://example.org/~ada?a=1&b=2"
    assert info.findtext("weak_auth") == weak_key(ada)
    assert info.findtext("cpid") == cpid(ada)
    assert info.findtext("create_time") == str(SINCE)
    assert info.findtext("global_prefs/global_preferences/idle_time_to_run") == "3"
    assert info.findtext("project_prefs/project_preferences/resource_share") == "50"
    found = {tag: info.findtext(tag) for tag in ("send_email", "show_hosts", "teamid", "venue")}
    assert found == {"send_email": "0", "show_hosts": "1", "teamid": str(team.pk), "venue": "home"}


def test_consent_to_letters_is_passed_to_account_managers(ada, key):
    for receives, element in ((True, "1"), (False, "0")):
        rows.update(ada, receive_letters=receives)
        assert get("am_get_info.php", account_key=key).findtext("send_email") == element


def test_member_who_is_not_the_founder_has_no_teamfounder_element(ada, key):
    rows.update(ada, team=Team.objects.create(name="t", created_at=NOON))
    assert tags(get("am_get_info.php", account_key=key)) == INFO


def test_preferences_are_checked_in_the_form_in_which_they_are_sent(ada, key):
    """Character references are valid in text, but not in names of elements."""
    rows.update(ada, global_prefs="<zoë>1</zoë>", project_prefs="<name>Zoë</name>")
    info = get("am_get_info.php", account_key=key)
    assert info.findall("global_prefs/*") == []
    assert info.findtext("project_prefs/project_preferences/name") == "Zoë"


@pytest.mark.parametrize(
    "prefs",
    [
        "<a>",
        "</global_preferences></global_prefs><x>",
        "</r><r>",
        "a & b",
        "<a>&nbsp;</a>",
        "<!DOCTYPE r [<!ENTITY x 'y'>]>",
        "\x01<a/>\uffff",
    ],
)
def test_preferences_that_are_not_xml_do_not_break_the_reply(ada, key, prefs):
    rows.update(ada, global_prefs=prefs, project_prefs=prefs)
    info = get("am_get_info.php", account_key=key)
    assert tags(info) == INFO
    assert info.findtext("id") == str(ada.pk)


def test_account_without_preferences_has_empty_elements(ada, key):
    info = get("am_get_info.php", account_key=key)
    assert [len(info.findall(f"{each}/*")) for each in ("global_prefs", "project_prefs")] == [0, 0]


def test_account_info_takes_a_constant_number_of_statements(ada, key):
    for _ in range(5):
        rows.a_host(ada)
    with CaptureQueriesContext(connection) as queries:
        get("am_get_info.php", account_key=key)
    assert len(queries) <= 3


# am_set_info.php and am_set_host_info.php


def test_account_managers_cannot_change_an_account(ada, key):
    for method in ("get", "post"):
        answer = getattr(Client(), method)("/am_set_info.php", {"account_key": key, "name": "Eve"})
        root = ET.fromstring(answer.content)
        assert (root.tag, root.findtext("error_num")) == ("error", "-1")
    ada.refresh_from_db()
    assert ada.name == "Ada & Zoë"


def test_account_manager_sets_the_venue_of_a_computer_and_the_audit_log_has_it(ada, key):
    host = rows.a_host(ada)
    reply = get("am_set_host_info.php", account_key=key, hostid=host.pk, venue="school")
    assert (reply.tag, tags(reply)) == ("am_set_host_info_reply", ["success"])
    host.refresh_from_db()
    assert host.venue == "school"
    entry = AuditEntry.objects.get(event="host_changed")
    assert (entry.account_id, entry.subject) == (ada.pk, f"host {host.pk}")
    assert entry.details == {"venue": "school"}


def test_empty_venue_clears_the_venue(ada, key):
    host = rows.a_host(ada, venue="home")
    get("am_set_host_info.php", account_key=key, hostid=host.pk, venue="")
    host.refresh_from_db()
    assert host.venue == ""


@pytest.mark.parametrize("venue", ["<home>", "a&b", "x" * 61, "a\nb"])
def test_venue_that_is_not_a_name_is_refused(ada, key, venue):
    host = rows.a_host(ada, venue="home")
    assert error("am_set_host_info.php", account_key=key, hostid=host.pk, venue=venue) == "-1"
    host.refresh_from_db()
    assert host.venue == "home"


def test_venue_of_another_accounts_or_a_merged_computer_cannot_be_set(ada, key):
    other, kept = rows.a_host(), rows.a_host(ada)
    merged = rows.a_host(ada, merged_into=kept)
    for number in (other.pk, merged.pk, 10**17, "x", "", "9" * 40, "-1", "\u0663"):
        found = error("am_set_host_info.php", account_key=key, hostid=number, venue="home")
        assert found == "-136"
    assert set(Host.objects.values_list("venue", flat=True)) == {""}


# show_user.php


def test_public_account_has_the_elements_of_boinc_in_order(ada):
    user = get("show_user.php", userid=ada.pk, format="xml")
    assert tags(user) == [*USER, "country", "url"]
    assert {child.tag: child.text for child in user} == {
        "id": str(ada.pk),
        "cpid": cpid(ada),
        "create_time": str(SINCE),
        "name": "Ada & Zoë",
        "total_credit": "12.5",
        "expavg_credit": "2.25",
        "expavg_time": str(SINCE),
        "teamid": "0",
        "has_profile": "0",
        "country": "Finland",
        "url": "https://example.org/~ada?a=1&b=2",
    }


def test_strong_key_shows_venue_and_computers_in_order(ada, key):
    first = rows.a_host(
        ada,
        rpc_seqno=7,
        rpc_at=NOON + timedelta(hours=1),
        domain_name="secret-computer",
        p_model="A <b> chip",
        m_nbytes=8e9,
        venue="work",
        **GAINS,
    )
    rows.a_host(ada, merged_into=first)
    rows.a_host()
    user = get("show_user.php", auth=key, format="xml")
    assert tags(user) == [*USER, "venue", "host", "country", "url"]
    [host] = user.findall("host")
    assert tags(host) == HOST
    texts = {child.tag: child.text for child in host}
    assert texts["domain_name"] == "secret-computer"
    assert texts["p_model"] == "A <b> chip"
    assert (texts["rpc_time"], texts["rpc_seqno"]) == (str(SINCE + 3600), "7")
    assert (texts["m_nbytes"], texts["venue"]) == ("8000000000", "work")


@pytest.mark.parametrize("count", [1, 30])
def test_number_of_statements_does_not_depend_on_the_number_of_computers(ada, key, count):
    for _ in range(count):
        rows.a_host(ada)
    with CaptureQueriesContext(connection) as queries:
        user = get("show_user.php", auth=key, format="xml")
    assert len(user.findall("host")) == count
    assert len(queries) == 2


def test_unknown_inactive_and_unshared_accounts_are_reported_alike(ada):
    hidden = rows.an_account("hidden", share_statistics=False)
    closed = rows.an_account("closed", is_active=False)
    replies = {
        ET.tostring(get("show_user.php", userid=number, format="xml"))
        for number in (hidden.pk, closed.pk, 10**17, "x", "")
    }
    assert len(replies) == 1
    assert b"-136" in replies.pop()


def test_account_that_does_not_share_statistics_sees_itself_by_its_key(ada, key):
    rows.update(ada, share_statistics=False)
    assert get("show_user.php", auth=key, format="xml").findtext("id") == str(ada.pk)


def test_page_for_people_leads_to_the_page_of_the_account(ada):
    answer = Client().get("/show_user.php", {"userid": ada.pk})
    assert (answer.status_code, answer["Location"]) == (302, f"/accounts/{ada.pk}/")
    for number in ("x", "", "9" * 30):
        answer = Client().get("/show_user.php", {"userid": number})
        assert (answer.status_code, answer["Location"]) == (302, "/")


# Teams


@pytest.fixture
def team(ada) -> Team:
    made = Team.objects.create(
        name="The <primes> & Co",
        founder=ada,
        kind=Team.Kind.UNIVERSITY,
        url="https://example.org/",
        country="Peru",
        created_at=NOON,
        **GAINS,
    )
    rows.update(ada, team=made)
    return made


def test_team_has_the_elements_of_boinc_in_order(team, ada):
    found = get("team_lookup.php", team_id=team.pk)
    assert (found.tag, tags(found)) == ("team", TEAM)
    assert {child.tag: child.text for child in found} == {
        "id": str(team.pk),
        "create_time": str(SINCE),
        "userid": str(ada.pk),
        "name": "The <primes> & Co",
        "url": "https://example.org/",
        "type": "6",
        "country": "Peru",
        "total_credit": "12.5",
        "expavg_credit": "2.25",
        "expavg_time": str(SINCE),
    }


def test_founder_who_does_not_share_statistics_is_not_named(team, ada):
    rows.update(ada, share_statistics=False)
    assert get("team_lookup.php", team_id=team.pk).findtext("userid") == "0"


def test_teams_are_looked_up_by_ids_and_by_a_part_of_the_name(team):
    other = Team.objects.create(name="Primes of the north", created_at=NOON, expavg_credit=9)
    Team.objects.create(name="x%", created_at=NOON)
    ids = f"{other.pk},x,,{team.pk},{10**17},{'9' * 50}"
    found = get("team_lookup.php", team_ids=ids)
    assert found.tag == "teams"
    assert [each.findtext("id") for each in found] == [str(team.pk), str(other.pk)]
    found = get("team_lookup.php", team_name="PRIMES", format="xml")
    assert [each.findtext("id") for each in found] == [str(other.pk), str(team.pk)]
    assert len(get("team_lookup.php", team_name="%", format="xml")) == 1
    assert len(get("team_lookup.php", team_name="a\0b", format="xml")) == 0


def test_at_most_100_teams_are_returned_with_one_statement():
    teams = Team.objects.bulk_create(
        Team(name=f"team {number}", created_at=NOON) for number in range(130)
    )
    ids = ",".join(str(team.pk) for team in teams)
    for params in ({"team_ids": ids}, {"team_name": "team", "format": "xml"}):
        with CaptureQueriesContext(connection) as queries:
            assert len(get("team_lookup.php", **params)) == 100
        assert len(queries) == 1


def test_unknown_team_is_not_found():
    assert error("team_lookup.php", team_id=10**17) == "-136"
    assert error("team_email_list.php", teamid=7, xml=1) == "-136"


def test_members_who_share_statistics_are_listed_without_e_mail_addresses(team, ada):
    rows.an_account("hidden", team=team, share_statistics=False)
    rows.an_account("closed", team=team, is_active=False)
    poor = rows.an_account("poor", team=team)
    found = get("team_email_list.php", teamid=team.pk, xml=1)
    assert found.tag == "users"
    assert [each.findtext("id") for each in found] == [str(ada.pk), str(poor.pk)]
    order = words("id cpid total_credit create_time name expavg_credit expavg_time has_profile")
    assert tags(found[0]) == [*order, "country", "url"]
    assert "example.org" not in ET.tostring(found[1], encoding="unicode")
    found = get("team_email_list.php", teamid=team.pk, xml=1, creditonly=1)
    assert [tags(each) for each in found] == [["id", "cpid", "total_credit"]]


@pytest.mark.parametrize("count", [1, 30])
def test_number_of_statements_does_not_depend_on_the_number_of_members(team, count):
    for number in range(count):
        rows.an_account(f"member {number}", team=team)
    with CaptureQueriesContext(connection) as queries:
        assert len(get("team_email_list.php", teamid=team.pk, xml=1)) == count + 1
    assert len(queries) == 2


def test_founder_sees_all_active_members(team, ada, key):
    hidden = rows.an_account("hidden", team=team, share_statistics=False)
    found = get("team_email_list.php", teamid=team.pk, xml=1, account_key=key)
    assert [each.findtext("id") for each in found] == [str(ada.pk), str(hidden.pk)]
    rows.update(team, founder=hidden)
    assert len(get("team_email_list.php", teamid=team.pk, xml=1, account_key=key)) == 1


def test_administrator_sees_all_active_members_until_dismissed(team, ada, key):
    founder = rows.an_account("founder", team=team, share_statistics=False)
    rows.update(team, founder=founder)
    teams.name_administrator(team.pk, ada.pk, by=founder, now=NOON)
    members = get("team_email_list.php", teamid=team.pk, xml=1, account_key=key)
    assert [each.findtext("id") for each in members] == [str(ada.pk), str(founder.pk)]
    assert "@" not in ET.tostring(members, encoding="unicode")
    assert tags(get("team_lookup.php", team_id=team.pk)) == TEAM
    teams.dismiss_administrator(team.pk, ada.pk, by=founder, now=NOON)
    assert len(get("team_email_list.php", teamid=team.pk, xml=1, account_key=key)) == 1


# Terms of use


def create(**params: object) -> ET.Element:
    digest = accounts.password_digest(email="new@example.org", password=PASSWORD)
    about = {"email_addr": "new@example.org", "passwd_hash": digest, "user_name": "New"}
    return get("create_account.php", **about, **params)


@pytest.fixture
def terms(settings) -> None:
    settings.PROJECT = replace(
        settings.PROJECT, terms_of_use="Be <kind>.", statistics_need_consent=True
    )


def test_account_is_created_only_with_consent_to_the_terms_of_use(terms):
    assert get("get_project_config.php").findtext("terms_of_use") == "Be <kind>."
    for refused in ({}, {"consent_flag": "0"}, {"consent_flag": ""}):
        assert create(**refused).findtext("error_num") == "-242"
    assert not Account.objects.exists()
    assert create(consent_flag=1, source="Manager").tag == "account_out"
    account = Account.objects.get()
    assert account.terms_accepted_at is not None
    assert account.share_statistics is False
    entry = AuditEntry.objects.get(event="consent_changed")
    assert entry.details == {"consent": "ENROLL", "given": True, "source": "Manager"}
    assert entry.account_id == account.pk


def test_existing_account_logs_in_without_a_new_consent(terms):
    create(consent_flag=1)
    assert create().tag == "account_out"
    assert AuditEntry.objects.filter(event="consent_changed").count() == 1


def test_without_terms_no_consent_is_needed_or_recorded():
    assert create(consent_flag=1, source="x").tag == "account_out"
    account = Account.objects.get()
    assert (account.terms_accepted_at, account.share_statistics) == (None, True)
    assert not AuditEntry.objects.filter(event="consent_changed").exists()


def test_further_strong_keys_identify_their_account(ada):
    further = account_keys.new_key(account=ada, name="another", now=timezone.now())
    assert get("am_get_info.php", account_key=further).findtext("id") == str(ada.pk)
