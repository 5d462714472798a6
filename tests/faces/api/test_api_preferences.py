"""Computing and project preferences over the API."""

from __future__ import annotations

import re
from urllib.parse import urlencode
from xml.sax.saxutils import escape

import pytest

from scheduler.boinc import own_preferences
from scheduler.models import Account, AuditEntry
from tests.faces.apis import Program, a_program
from tests.rows import an_account

pytestmark = pytest.mark.django_db

COMPUTING = "/me/preferences/computing"
PROJECT = "/me/preferences/project"


@pytest.fixture
def ada() -> Account:
    return an_account("ada")


@pytest.fixture
def program(ada: Account) -> Program:
    return a_program(ada)


def test_defaults_are_returned_until_settings_are_stored(program):
    answer = program.send("get", COMPUTING).json()
    assert answer["settings"] == own_preferences.COMPUTING.defaults
    assert not answer["is_own"]
    assert answer["changed_at"] is None
    answer = program.send("get", PROJECT).json()
    assert answer["settings"]["devices_off"] == answer["settings"]["selected_apps"] == []
    assert answer["settings"]["resource_share"] == 100


def test_omitted_settings_keep_their_values(program, ada):
    program.send("patch", COMPUTING, {"max_ncpus_pct": 50, "run_on_batteries": True})
    answer = program.send("patch", COMPUTING, {"idle_time_to_run": 7.5})
    assert answer.status_code == 200
    settings = answer.json()["settings"]
    assert settings == {
        **own_preferences.COMPUTING.defaults,
        "max_ncpus_pct": 50,
        "run_on_batteries": True,
        "idle_time_to_run": 7.5,
    }
    assert answer.json() == program.send("get", COMPUTING).json()
    ada.refresh_from_db()
    assert ada.global_prefs.startswith(f"<mod_time>{int(ada.global_prefs_mod_time)}</mod_time>")
    assert AuditEntry.objects.filter(event="account_changed", account_id=ada.pk).count() == 2


def test_location_has_its_own_settings_until_they_are_removed(program):
    program.send("patch", COMPUTING, {"max_ncpus_pct": 50})
    work = f"{COMPUTING}?location=work"
    assert program.send("get", work).json()["settings"]["max_ncpus_pct"] == 50
    answer = program.send("patch", work, {"max_ncpus_pct": 20}).json()
    assert (answer["location"], answer["is_own"]) == ("work", True)
    assert answer["own_locations"] == ["work"]
    assert program.send("get", COMPUTING).json()["settings"]["max_ncpus_pct"] == 50
    assert program.send("delete", work).status_code == 204
    answer = program.send("get", work).json()
    assert (answer["is_own"], answer["settings"]["max_ncpus_pct"]) == (False, 50)
    assert program.send("delete", COMPUTING).status_code == 204
    assert program.send("get", COMPUTING).json()["settings"]["max_ncpus_pct"] == 100


def test_project_settings_are_those_that_dispatch_reads(program, ada):
    body = {
        "resource_share": 25,
        "devices_off": ["cpu", "amd"],
        "selected_apps": [3, 3, 5],
        "allow_other_apps": True,
        "allow_beta": True,
        "max_held": 4,
        "max_cpus": 2,
        "keywords_yes": [7],
        "keywords_no": [8],
    }
    answer = program.send("patch", PROJECT, body).json()["settings"]
    assert answer == {**body, "selected_apps": [3, 5]}
    ada.refresh_from_db()
    assert ada.project_prefs.count("<app_id>") == 2
    assert "<no_cpu>1</no_cpu>" in ada.project_prefs
    assert own_preferences.read(ada, own_preferences.PROJECT, "").values["devices_off"] == (
        "",
        "amd",
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (COMPUTING, {"max_ncpus_pct": 0}),
        (COMPUTING, {"max_ncpus_pct": "50"}),
        (COMPUTING, {"run_on_batteries": 1}),
        (COMPUTING, {"start_hour": 24.5}),
        (COMPUTING, {"no_such_setting": 1}),
        (PROJECT, {"max_held": -1}),
        (PROJECT, {"devices_off": ["toaster"]}),
        (PROJECT, {"devices_off": ["cpu", "nvidia", "amd", "intel", "apple"]}),
        (PROJECT, {"selected_apps": list(range(1, 102))}),
        (PROJECT, {"keywords_no": [0]}),
        (f"{PROJECT}?place=work", {"max_held": 5}),
    ],
)
def test_wrong_setting_is_refused_and_nothing_is_stored(program, ada, path, body):
    assert program.send("patch", path, body).status_code == 400
    ada.refresh_from_db()
    assert ada.global_prefs == ada.project_prefs == ""


@pytest.mark.parametrize("path", [COMPUTING, PROJECT])
def test_unknown_location_is_refused(program, path):
    for method, body in (("get", None), ("patch", {}), ("delete", None)):
        answer = program.send(method, f"{path}?location=moon", body)
        assert (answer.status_code, answer.json()["code"]) == (422, "unknown_location")


@pytest.mark.parametrize("path", [COMPUTING, PROJECT])
def test_settings_of_a_location_store_no_settings_for_other_locations(program, ada, path):
    assert program.send("patch", f"{path}?location=work", {}).json()["is_own"]
    answer = program.send("get", path).json()
    assert (answer["is_own"], answer["own_locations"]) == (False, ["work"])
    ada.refresh_from_db()
    general = (ada.global_prefs or ada.project_prefs).partition("<venue")[0]
    assert re.sub(r"<mod_time>\d+</mod_time>\n|", "", general) == ""
    assert program.send("delete", f"{path}?location=work").status_code == 204
    answer = program.send("get", path).json()
    assert (answer["is_own"], answer["own_locations"]) == (False, [])


@pytest.mark.parametrize("path", [COMPUTING, PROJECT])
def test_location_without_settings_of_its_own_is_not_found(program, ada, path):
    for general in (None, {}):
        if general is not None:
            program.send("patch", path, general)
        ada.refresh_from_db()
        stored = (ada.global_prefs, ada.global_prefs_mod_time, ada.project_prefs)
        answer = program.send("delete", f"{path}?location=home")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
        assert "Hint" not in answer.json()["detail"]
        ada.refresh_from_db()
        assert stored == (ada.global_prefs, ada.global_prefs_mod_time, ada.project_prefs)


LOCATIONS = ["office", " office", "Büro", "ada's", 'the "lab"', "R&D <b>", "x" * 300]


@pytest.mark.parametrize("path", [COMPUTING, PROJECT])
@pytest.mark.parametrize("location", LOCATIONS)
def test_location_that_another_program_stored_is_shown_changed_and_removed(
    program, ada, path, location
):
    quoted = escape(location, {'"': "&quot;"})
    text = (
        f'<venue name="home"><a>1</a></venue><venue name="{quoted}"><max_jobs>2</max_jobs></venue>'
    )
    Account.objects.filter(pk=ada.pk).update(global_prefs=text, project_prefs=text)
    assert program.send("get", path).json()["own_locations"] == ["home", location]
    own = f"{path}?{urlencode({'location': location})}"
    answer = program.send("get", own).json()
    assert (answer["location"], answer["is_own"]) == (location, True)
    assert program.send("patch", own, {}).json()["own_locations"] == ["home", location]
    assert program.send("delete", own).status_code == 204
    assert program.send("get", path).json()["own_locations"] == ["home"]
    assert program.send("get", own).status_code == 422


@pytest.mark.parametrize("path", [COMPUTING, PROJECT])
def test_reset_drops_locations_without_a_name(program, ada, path):
    text = '<venue><a>1</a></venue><venue name="">x</venue><venue name="work"><a>1</a></venue>'
    Account.objects.filter(pk=ada.pk).update(global_prefs=text, project_prefs=text)
    assert program.send("get", path).json()["own_locations"] == ["work"]
    assert program.send("delete", path).status_code == 204
    ada.refresh_from_db()
    changed = ada.global_prefs if path == COMPUTING else ada.project_prefs
    assert changed.count("<venue") == 1


def test_stored_limit_above_the_range_is_read_as_the_largest_one(program, ada):
    text = (
        "<max_jobs>20000</max_jobs><max_cpus>99999</max_cpus><resource_share>1e9</resource_share>"
    )
    Account.objects.filter(pk=ada.pk).update(project_prefs=text)
    settings = program.send("get", PROJECT).json()["settings"]
    limits = {name: settings[name] for name in ("max_held", "max_cpus", "resource_share")}
    assert limits == {"max_held": 10_000, "max_cpus": 10_000, "resource_share": 1_000_000}
    # The values that are read can be stored.
    assert program.send("patch", PROJECT, limits).status_code == 200


@pytest.mark.parametrize("path", [COMPUTING, PROJECT])
@pytest.mark.parametrize("query", ["", "?location=home"])
def test_delete_with_a_stale_if_match_changes_nothing(program, ada, path, query):
    stale = program.send("patch", f"{path}{query}", {})["ETag"]
    name = "max_ncpus_pct" if path == COMPUTING else "max_held"
    current = program.send("patch", f"{path}{query}", {name: 7})["ETag"]
    for wrong in (stale, '"other"', ""):
        answer = program.send("delete", f"{path}{query}", headers={"If-Match": wrong})
        assert (answer.status_code, answer.json()["code"]) == (412, "changed_meanwhile")
        answer = program.send("get", f"{path}{query}")
        assert (answer["ETag"], answer.json()["settings"][name]) == (current, 7)
    answer = program.send("delete", f"{path}{query}", headers={"If-Match": current})
    assert (answer.status_code, "ETag" in answer) == (204, False)
    assert program.send("get", f"{path}{query}").json()["settings"][name] != 7


def test_change_in_between_is_refused_by_if_match(program):
    etag = program.send("get", PROJECT)["ETag"]
    changed = program.send("patch", PROJECT, {"max_held": 1}, headers={"If-Match": etag})
    assert changed.status_code == 200
    late = program.send("patch", PROJECT, {"max_held": 2}, headers={"If-Match": etag})
    assert (late.status_code, late.json()["code"]) == (412, "changed_meanwhile")
    again = program.send("patch", PROJECT, {"max_held": 3}, headers={"If-Match": changed["ETag"]})
    assert again.json()["settings"]["max_held"] == 3
    headers = {"If-None-Match": again["ETag"]}
    assert program.send("get", PROJECT, headers=headers).status_code == 304


def test_token_needs_the_scopes_of_reading_and_changing(ada):
    reader = a_program(ada, "read")
    for path in (COMPUTING, PROJECT):
        assert reader.send("get", path).status_code == 200
        assert reader.send("patch", path, {}).status_code == 403
        assert reader.send("delete", path).status_code == 403
        assert Program().send("get", path).status_code == 401
