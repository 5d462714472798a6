"""The pages on which volunteers set computing and project preferences."""

from __future__ import annotations

import re
from html import escape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.boinc import own_preferences
from scheduler.models import Account, AuditEntry
from scheduler.web.volunteers import keyword_fields, preference_forms
from tests.rows import a_host, a_workunit, an_account, an_app

pytestmark = pytest.mark.django_db

COMPUTING = "/account/preferences/computing/"
PROJECT = "/account/preferences/project/"
STORED = (
    "<source_project>https://other.example/</source_project>\n<mod_time>1700000000</mod_time>\n"
    "<run_on_batteries>1</run_on_batteries><max_ncpus_pct>40</max_ncpus_pct>"
    "<new_setting>7</new_setting>"
    '<venue name="home"><max_ncpus_pct>60</max_ncpus_pct></venue>'
)


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def browser(client: Client, ada: Account) -> Client:
    client.force_login(ada)
    return client


def stored(account: Account, **columns: Any) -> None:
    Account.objects.filter(pk=account.pk).update(**columns)


def page(browser: Client, path: str) -> str:
    answer = browser.get(path)
    assert answer.status_code == 200
    text = answer.content.decode()
    assert not re.search(r"<script|<style|style=", text)
    return text


def form_of(browser: Client, path: str) -> dict[str, Any]:
    """Return the values that a browser sends if nothing of the form is changed."""
    form = browser.get(path).context["form"]
    values = {name: form[name].value() for name in form.fields}
    return {
        name: value for name, value in values.items() if value is not False and value is not None
    }


def save(browser: Client, path: str, **changes: Any) -> Any:
    sent = {**form_of(browser, path), **changes}
    return browser.post(path, {name: value for name, value in sent.items() if value is not None})


# Computing preferences


def test_account_without_preferences_sees_the_defaults_of_the_project(browser):
    text = page(browser, COMPUTING)
    assert "You have not set preferences here yet" in text
    assert re.search(r'name="suspend_cpu_usage" value="25"', text)
    assert "Remove the settings" not in text


def test_saved_preferences_have_all_settings_and_a_newer_time(browser, ada):
    stored(ada, global_prefs=STORED, global_prefs_mod_time=1.7e9)
    answer = save(browser, COMPUTING, max_ncpus_pct="50", max_bytes_sec_down="2")
    assert (answer.status_code, answer["Location"]) == (302, COMPUTING)
    ada.refresh_from_db()
    lines = ada.global_prefs.splitlines()
    assert lines[0] == f"<mod_time>{int(ada.global_prefs_mod_time)}</mod_time>"
    assert ada.global_prefs_mod_time > 1.7e9
    assert "<max_ncpus_pct>50</max_ncpus_pct>" in lines
    assert "<max_bytes_sec_down>2048</max_bytes_sec_down>" in lines
    assert "<run_on_batteries>1</run_on_batteries>" in lines
    assert "<run_if_user_active>0</run_if_user_active>" in lines
    # Unknown elements are kept, except the project from which the former ones came.
    assert "<new_setting>7</new_setting>" in lines
    assert lines[-3:] == ['<venue name="home">', "<max_ncpus_pct>60</max_ncpus_pct>", "</venue>"]
    assert "source_project" not in ada.global_prefs


def test_time_is_newer_than_that_of_a_client_whose_clock_is_ahead(browser, ada):
    stored(ada, global_prefs=STORED, global_prefs_mod_time=4e9)
    save(browser, COMPUTING, max_ncpus_pct="50")
    ada.refresh_from_db()
    assert ada.global_prefs_mod_time == 4e9 + 1


def test_change_is_recorded_without_the_values(browser, ada):
    save(browser, f"{COMPUTING}?location=work", max_ncpus_pct="50")
    entry = AuditEntry.objects.get(event="account_changed")
    assert (entry.account_id, entry.subject) == (ada.pk, ada.email)
    assert entry.details == {"fields": ["global_prefs"], "location": "work"}


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("max_ncpus_pct", "0", "greater than or equal to 1"),
        ("max_ncpus_pct", "101", "less than or equal to 100"),
        ("start_hour", "25", "less than or equal to 24"),
        ("work_buf_min_days", "-1", "greater than or equal to 0"),
        ("disk_max_used_gb", "much", "Enter a number"),
        ("disk_max_used_gb", "nan", "Enter a number"),
        ("disk_max_used_gb", "", "This field is required"),
    ],
)
def test_value_outside_its_range_is_refused_at_its_field(browser, ada, name, value, error):
    answer = save(browser, COMPUTING, **{name: value})
    assert answer.status_code == 200
    assert error in answer.context["form"].errors[name][0]
    assert "Some values cannot be saved" in answer.content.decode()
    ada.refresh_from_db()
    assert ada.global_prefs == ""


def test_location_gets_its_own_settings_and_loses_them(browser, ada):
    stored(ada, global_prefs=STORED, global_prefs_mod_time=1.7e9)
    work = f"{COMPUTING}?location=work"
    text = page(browser, work)
    assert "has no settings of its own" in text
    assert 'name="max_ncpus_pct" value="40"' in text
    assert "Remove the settings" not in text
    assert save(browser, work, max_ncpus_pct="10")["Location"] == work
    text = page(browser, work)
    assert 'name="max_ncpus_pct" value="10"' in text
    assert 'name="max_ncpus_pct" value="40"' in page(browser, COMPUTING)

    version = form_of(browser, work)["version"]
    answer = browser.post(work, {"action": "remove", "version": version})
    assert (answer.status_code, answer["Location"]) == (302, work)
    assert "has no settings of its own" in page(browser, work)
    assert own_preferences.read(ada, own_preferences.COMPUTING, "").own_locations == ("home",)


def test_reset_stores_the_defaults_and_drops_other_elements(browser, ada):
    stored(ada, global_prefs=STORED, global_prefs_mod_time=1.7e9)
    version = form_of(browser, COMPUTING)["version"]
    browser.post(COMPUTING, {"action": "reset", "version": version})
    ada.refresh_from_db()
    assert "<run_if_user_active>1</run_if_user_active>" in ada.global_prefs
    assert "<max_ncpus_pct>100</max_ncpus_pct>" in ada.global_prefs
    assert "new_setting" not in ada.global_prefs
    assert "<max_ncpus_pct>60</max_ncpus_pct>" in ada.global_prefs
    assert ada.global_prefs_mod_time > 1.7e9


def test_default_location_cannot_be_removed(browser, ada):
    stored(ada, global_prefs=STORED, global_prefs_mod_time=1.7e9)
    version = form_of(browser, COMPUTING)["version"]
    answer = browser.post(COMPUTING, {"action": "remove", "version": version}, follow=True)
    assert "The default location cannot be removed" in answer.content.decode()
    ada.refresh_from_db()
    assert ada.global_prefs == STORED


@pytest.mark.parametrize("path", [COMPUTING, PROJECT])
def test_location_saved_first_stores_no_general_settings(browser, ada, path):
    home = f"{path}?location=home"
    save(browser, home)
    text = page(browser, path)
    assert "You have not set" in text
    assert "has no settings of its own" not in page(browser, f"{path}?location=work")
    kind = own_preferences.COMPUTING if path == COMPUTING else own_preferences.PROJECT
    assert not own_preferences.read(ada, kind, "").is_own
    ada.refresh_from_db()
    before = (ada.global_prefs, ada.project_prefs)
    version = form_of(browser, f"{path}?location=work")["version"]
    gone = {"action": "remove", "version": version}
    answer = browser.post(f"{path}?location=work", gone, follow=True)
    assert "has no settings of its own" in answer.content.decode()
    ada.refresh_from_db()
    assert (ada.global_prefs, ada.project_prefs) == before


@pytest.mark.parametrize("path", [COMPUTING, PROJECT])
@pytest.mark.parametrize("location", ["office", "ada's", 'the "lab"', "R&D <b>", "x" * 300])
def test_location_that_another_program_stored_is_shown_and_removed(browser, ada, path, location):
    quoted = escape(location, quote=True)
    text = f'<a>1</a><venue name="{quoted}"><max_jobs>2</max_jobs></venue>'
    stored(ada, global_prefs=text, project_prefs=text)
    own = f"{path}?{urlencode({'location': location})}"
    shown_name = escape(location if len(location) <= 60 else f"{location[:60]}…")
    assert f'href="{own}">{shown_name}</a>' in page(browser, path)
    assert f"Remove the settings of “{shown_name}”" in page(browser, own)
    version = form_of(browser, own)["version"]
    answer = browser.post(own, {"action": "remove", "version": version})
    assert (answer.status_code, answer["Location"]) == (302, path)
    assert shown_name not in page(browser, path).partition("<form")[0]
    assert browser.get(own).status_code == 404


def test_computer_at_another_location_leads_to_its_preferences(browser, ada):
    host = a_host(ada, venue="R&D lab")
    address = f"/account/computers/{host.pk}/"
    assert f'href="{COMPUTING}"' in page(browser, address)
    stored(ada, global_prefs='<venue name="R&amp;D lab"><a>1</a></venue>')
    assert f'href="{COMPUTING}?location=R%26D%20lab"' in page(browser, address)
    assert browser.get(COMPUTING, {"location": "R&D lab"}).status_code == 200


# Changes in between


def test_form_of_an_older_tab_overwrites_nothing_and_shows_what_is_stored(browser, ada):
    stored(ada, global_prefs=STORED, global_prefs_mod_time=1.7e9)
    older = form_of(browser, COMPUTING)
    save(browser, COMPUTING, max_ncpus_pct="50", run_on_batteries=None)
    ada.refresh_from_db()
    text = ada.global_prefs

    answer = browser.post(COMPUTING, {**older, "max_ncpus_pct": "70"})
    assert answer.status_code == 409
    errors = answer.context["form"].errors
    assert "were changed meanwhile" in errors["__all__"][0]
    assert errors["max_ncpus_pct"] == ["The stored value is now: 50."]
    assert errors["run_on_batteries"] == ["The stored value is now: off."]
    assert set(errors) == {"__all__", "max_ncpus_pct", "run_on_batteries"}
    page_text = answer.content.decode()
    assert re.search(r'name="max_ncpus_pct" value="70"', page_text)
    ada.refresh_from_db()
    assert ada.global_prefs == text

    # Saving again is a decision: the form has the version that was compared.
    new = re.search(r'name="version" value="([^"]+)"', page_text)[1]
    browser.post(COMPUTING, {**older, "version": new, "max_ncpus_pct": "70"})
    ada.refresh_from_db()
    assert "<max_ncpus_pct>70</max_ncpus_pct>" in ada.global_prefs


def test_change_by_a_client_in_between_is_noticed(browser, ada):
    older = form_of(browser, COMPUTING)
    stored(ada, global_prefs=STORED, global_prefs_mod_time=1.8e9)
    assert browser.post(COMPUTING, older).status_code == 409
    answer = browser.post(COMPUTING, {**older, "action": "reset"}, follow=True)
    assert "were changed meanwhile" in answer.content.decode()
    ada.refresh_from_db()
    assert ada.global_prefs == STORED


def test_change_of_another_location_in_between_is_no_conflict(browser, ada):
    stored(ada, global_prefs=STORED, global_prefs_mod_time=1.7e9)
    older = form_of(browser, COMPUTING)
    save(browser, f"{COMPUTING}?location=home", max_ncpus_pct="11")
    assert browser.post(COMPUTING, {**older, "max_ncpus_pct": "70"}).status_code == 302
    ada.refresh_from_db()
    assert "<max_ncpus_pct>11</max_ncpus_pct>" in ada.global_prefs
    assert "<max_ncpus_pct>70</max_ncpus_pct>" in ada.global_prefs


# Project preferences


def test_saved_project_preferences_are_those_that_dispatch_reads(browser, ada):
    app, beta = an_app("a"), an_app("b", beta=True)
    old = an_app("c", deprecated=True)
    text = page(browser, PROJECT)
    assert "(test app)" in text
    assert f'value="{old.pk}"' not in text
    save(
        browser,
        PROJECT,
        resource_share="250",
        devices=["", "nvidia"],
        selected_apps=[beta.pk],
        allow_other_apps="on",
        allow_beta="on",
        max_held="3",
        max_cpus="2",
        keywords_yes="7, 8",
        keywords_no="9",
    )
    values = own_preferences.read(ada, own_preferences.PROJECT, "").values
    assert values == {
        "resource_share": 250,
        "devices_off": ("amd", "intel", "apple"),
        "selected_apps": (beta.pk,),
        "allow_other_apps": True,
        "allow_beta": True,
        "max_held": 3,
        "max_cpus": 2,
        "keywords_yes": (7, 8),
        "keywords_no": (9,),
    }
    assert app.pk not in values["selected_apps"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("devices", []),
        ("devices", ["toaster"]),
        ("selected_apps", [10**9]),
        ("resource_share", "-1"),
        ("max_held", "2.5"),
        ("keywords_yes", "7, x"),
        ("keywords_no", "0"),
        ("keywords_no", "9" * 30),
        ("keyword_14", "perhaps"),
    ],
)
def test_wrong_project_preference_is_refused_at_its_field(browser, ada, name, value):
    answer = save(browser, PROJECT, **{name: value})
    assert answer.status_code == 200
    assert list(answer.context["form"].errors) == [name]
    ada.refresh_from_db()
    assert ada.project_prefs == ""


def test_selected_app_that_sends_no_work_any_more_stays_selected(browser, ada):
    old = an_app("c", deprecated=True)
    stored(ada, project_prefs=f"<app_id>{old.pk}</app_id>")
    assert f"App {old.pk} (sends no work)" in page(browser, PROJECT)
    save(browser, PROJECT, max_held="1")
    assert own_preferences.read(ada, own_preferences.PROJECT, "").values["selected_apps"] == (
        old.pk,
    )


def test_settings_of_programs_survive_a_change(browser, ada):
    stored(ada, project_prefs="<project_specific><color>red</color></project_specific>")
    assert "<code>project_specific</code>" in page(browser, PROJECT)
    save(browser, PROJECT, max_held="1")
    ada.refresh_from_db()
    assert "<project_specific>\n<color>red</color>\n</project_specific>" in ada.project_prefs


def test_stored_values_out_of_range_are_shown_within_it_and_can_be_saved(browser, ada):
    numbers = "".join(f"<yes>{number}</yes>" for number in range(1, 1200))
    stored(ada, project_prefs=f"<max_jobs>20000</max_jobs><max_cpus>-1</max_cpus>{numbers}")
    shown_values = form_of(browser, PROJECT)
    assert (shown_values["max_held"], shown_values["max_cpus"]) == (10_000, 0)
    assert save(browser, PROJECT).status_code == 302
    values = own_preferences.read(ada, own_preferences.PROJECT, "").values
    assert values["max_held"] == 10_000
    assert values["keywords_yes"] == tuple(range(1, 1001))
    answer = save(browser, PROJECT, keywords_yes=", ".join(map(str, range(1, 1002))))
    assert "at most 1000 keywords" in answer.context["form"].errors["keywords_yes"][0]


def test_every_setting_has_a_label_that_is_complete_without_its_group(browser):
    labels = [
        str(field.label)
        for path in (COMPUTING, PROJECT)
        for group in browser.get(path).context["form"].field_groups()
        for field in group.visible_fields
    ]
    assert len(labels) == len(set(labels)) == len(own_preferences.COMPUTING_SETTINGS) + 9
    assert set(own_preferences.PROJECT_LABELS) == set(own_preferences.PROJECT.defaults)
    for label in labels:
        assert not re.match(r"(Use|Transfer|Download|Upload) at most|While |In a ", label), label


def test_conflict_of_project_preferences_shows_what_is_stored(browser, ada):
    app = an_app("a")
    older = form_of(browser, PROJECT)
    save(browser, PROJECT, selected_apps=[app.pk], devices=["nvidia"], max_held="3")
    answer = browser.post(PROJECT, older)
    assert answer.status_code == 409
    assert set(answer.context["form"].errors) == {
        "__all__",
        "max_held",
        "selected_apps",
        "devices",
    }
    assert "NVIDIA GPU" in answer.context["form"].errors["devices"][0]


# Keywords


def lists(browser: Client) -> keyword_fields.KeywordLists:
    groups = list(browser.get(PROJECT).context["form"].field_groups())
    return groups[-1].keywords


def labels_at_top(browser: Client) -> dict[str, list[str]]:
    return {each.title: [row.label for row in each.rows] for each in lists(browser).top}


def keywords_of(account: Account) -> tuple[tuple[int, ...], tuple[int, ...]]:
    values = own_preferences.read(account, own_preferences.PROJECT, "").values
    return values["keywords_yes"], values["keywords_no"]


def test_each_keyword_has_a_choice_with_its_name(browser, ada):
    text = page(browser, PROJECT)
    assert '<label for="id_keyword_14">Cancer research</label>' in text
    assert "No recent task of this project has a keyword" in text
    assert save(browser, PROJECT, keyword_14="yes", keyword_21="no").status_code == 302
    assert keywords_of(ada) == ((14,), (21,))
    assert labels_at_top(browser) == {
        "Other keywords that you have chosen": ["Cancer research", "Germany"]
    }
    assert save(browser, PROJECT, keyword_14="", keyword_21="yes").status_code == 302
    assert keywords_of(ada) == ((21,), ())


def test_keywords_of_the_projects_work_are_at_the_top(browser):
    app = an_app("a")
    for keywords in ("14, 7", "7", "", "4711"):
        a_workunit(app, keywords=keywords)
    # Numbers outside of BOINC's list are the submitter's own.
    assert labels_at_top(browser) == {
        "Keywords of this project’s tasks": ["Particle physics", "Cancer research"]
    }
    science = lists(browser).others[0]
    assert [row.label for row in science.rows if row.field is None] == [
        "Particle physics",
        "Cancer research",
    ]
    assert "No recent task" not in page(browser, PROJECT)


def test_only_the_newest_workunits_are_read(browser, monkeypatch):
    app = an_app("a")
    monkeypatch.setattr("scheduler.work.volunteers.used_keywords.NEWEST", 1)
    a_workunit(app, keywords="7")
    a_workunit(app, keywords="14")
    assert labels_at_top(browser) == {"Keywords of this project’s tasks": ["Cancer research"]}


def test_form_with_the_same_choices_leaves_the_keywords_as_they_are(browser, ada):
    stored(ada, project_prefs="<yes>4711</yes><yes>14</yes><yes>2</yes><no>21</no><no>2</no>")
    text = page(browser, PROJECT)
    assert '<label for="id_keyword_4711">Keyword 4711</label>' in text
    assert form_of(browser, PROJECT)["keyword_2"] == "no"
    assert save(browser, PROJECT, max_held="1").status_code == 302
    assert keywords_of(ada) == ((4711, 14, 2), (21, 2))
    # A form without the fields, as that of an older version, changes no keyword either.
    version = form_of(browser, PROJECT)["version"]
    sent = {"version": version, "resource_share": 5, "devices": "", "max_held": 0, "max_cpus": 0}
    assert browser.post(PROJECT, sent).status_code == 302
    assert keywords_of(ada) == ((4711, 14, 2), (21, 2))
    save(browser, PROJECT, keyword_4711="no", keyword_2="yes")
    assert keywords_of(ada) == ((14, 2), (21, 4711))


def test_keywords_that_are_not_listed_are_set_by_their_numbers(browser, ada):
    save(browser, PROJECT, keywords_yes="4711, 14", keywords_no="99")
    assert keywords_of(ada) == ((14, 4711), (99,))
    assert labels_at_top(browser) == {
        "Other keywords that you have chosen": ["Cancer research", "Keyword 4711", "Keyword 99"]
    }
    answer = save(browser, PROJECT, keywords_yes="5 6", keywords_no="6")
    errors = answer.context["form"].errors
    assert errors == {"keywords_no": ["Keyword 6 cannot be preferred and excluded."]}
    assert '<details class="terms" open>' in answer.content.decode()


def test_many_unlisted_keywords_are_kept_without_fields(browser, ada):
    stored(ada, project_prefs="".join(f"<no>{number}</no>" for number in range(5000, 5900)))
    assert lists(browser).hidden_count == 850
    assert "850 more keywords of your preferences are kept" in page(browser, PROJECT)
    save(browser, PROJECT, keyword_5000="")
    assert keywords_of(ada) == ((), tuple(range(5001, 5900)))


def test_conflict_shows_the_stored_choice_of_a_keyword(browser, ada):
    older = {**form_of(browser, PROJECT), "keyword_14": "yes", "keyword_4711": "yes"}
    save(browser, PROJECT, keyword_14="no")
    answer = browser.post(PROJECT, older)
    errors = answer.context["form"].errors
    assert answer.status_code == 409
    assert errors["keyword_14"] == ["The stored value is now: never."]
    assert errors["keyword_4711"] == ["The stored value is now: neutral."]
    assert set(errors) == {"__all__", "keyword_14", "keyword_4711"}
    assert "The stored value is now: never." in answer.content.decode()
    version = answer.context["form"]["version"].value()
    assert browser.post(PROJECT, {**older, "version": version}).status_code == 302
    assert keywords_of(ada) == ((14, 4711), ())


def test_names_of_keywords_are_in_the_visitors_language(browser):
    text = browser.get(PROJECT, headers={"accept-language": "de"}).content.decode()
    assert '<label for="id_keyword_14">Krebsforschung</label>' in text
    assert '<option value="no">nie</option>' in text


# The site


def test_pages_are_linked_and_take_the_same_number_of_statements(browser, ada):
    home = page(browser, "/account/")
    host = a_host(ada, venue="work")
    assert f'href="{COMPUTING}"' in home
    assert f'href="{PROJECT}"' in home
    assert f'href="{COMPUTING}?location=work"' in page(browser, f"/account/computers/{host.pk}/")

    def statements(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            page(browser, path)
        return len(captured)

    an_app("a")
    before = statements(COMPUTING), statements(PROJECT)
    for number in range(30):
        an_app(f"app-{number}")
    stored(ada, global_prefs=STORED, project_prefs="<app_id>1</app_id><app_id>2</app_id>")
    assert (statements(COMPUTING), statements(PROJECT)) == before


def test_unknown_location_is_not_found(browser):
    for path in (COMPUTING, PROJECT):
        assert browser.get(path, {"location": "moon"}).status_code == 404
        assert browser.post(f"{path}?location=moon", {"action": "reset"}).status_code == 404


def test_every_computing_setting_has_a_field_with_its_unit(browser):
    form = browser.get(COMPUTING).context["form"]
    shown = [field.name for group in form.field_groups() for field in group.visible_fields]
    assert shown == list(own_preferences.COMPUTING_SETTINGS)
    for name, setting in own_preferences.COMPUTING_SETTINGS.items():
        assert setting.is_flag or form[name].label.endswith(f"({setting.unit})")
    assert preference_forms.ProjectForm.groups.keys() == {
        "Share and devices",
        "Limits",
        "Apps",
        "Keywords",
    }
