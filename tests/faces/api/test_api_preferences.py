"""Computing and project preferences over the API."""

from __future__ import annotations

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


def test_first_settings_of_a_location_store_the_defaults_for_other_locations(program, ada):
    """Clients read settings that are missing in a stored text as off."""
    program.send("patch", f"{COMPUTING}?location=work", {"max_ncpus_pct": 20})
    answer = program.send("get", COMPUTING).json()
    assert (answer["is_own"], answer["settings"]["run_if_user_active"]) == (True, True)
    ada.refresh_from_db()
    general = ada.global_prefs.partition("<venue")[0]
    assert "<run_if_user_active>1</run_if_user_active>" in general


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
