"""Apps over the API: rights to create and change them, and invalid values."""

from __future__ import annotations

import pytest

from scheduler.models import App
from scheduler.people import submitters
from tests.conftest import NOON
from tests.faces.apis import ALL_SCOPES, Program, a_program
from tests.rows import an_account, an_app, an_app_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def chief():
    return an_account("chief", is_superuser=True)


@pytest.fixture
def staff(chief):
    return a_program(chief, *ALL_SCOPES)


@pytest.fixture
def manager():
    ada = an_account("ada")
    submitters.allow(ada, apps=[an_app("primes")], may_manage=True, now=NOON)
    return a_program(ada, "read", "submit", "publish", "manage")


def test_app_can_be_created_read_listed_and_changed(staff):
    made = staff.send(
        "post",
        "/apps",
        {
            "name": "primes",
            "kind": "script",
            "success_rule": "both",
            "workunit_defaults": {"min_quorum": 2},
            "grace_seconds": 90,
            "ack_timeout_seconds": 300,
            "validator": "numeric",
            "validator_options": {"relative": 1e-6},
        },
    )
    assert made.status_code == 201, made.json()
    assert made["Location"] == "/api/v1/apps/primes"
    app = App.objects.get()
    assert app.grace.total_seconds() == 90
    assert app.ack_timeout is not None
    assert app.ack_timeout.total_seconds() == made.json()["ack_timeout_seconds"] == 300
    wish = {"beta": True, "credit_window_seconds": None, "ack_timeout_seconds": None}
    assert staff.send("patch", "/apps/primes", wish).status_code == 200
    assert App.objects.get().ack_timeout is None
    read = staff.send("get", "/apps/primes").json()
    assert (read["beta"], read["versions"], read["grace_seconds"]) == (True, 0, 90)
    assert [one["name"] for one in staff.send("get", "/apps?kind=script").json()["results"]] == [
        "primes"
    ]
    assert staff.send("get", "/apps?kind=native").json()["results"] == []


def test_description_of_an_app_is_stored_and_changed_by_its_manager(staff, manager):
    made = staff.send("post", "/apps", {"name": "waves", "description": "Gravity.\n\nWaves."})
    assert made.status_code == 201, made.json()
    assert made.json()["description"] == "Gravity.\n\nWaves."
    assert manager.send("get", "/apps/primes").json()["description"] == ""
    changed = manager.send("patch", "/apps/primes", {"description": "Searches for primes."})
    assert changed.json()["description"] == "Searches for primes."
    assert App.objects.get(name="primes").description == "Searches for primes."
    assert manager.send("patch", "/apps/waves", {"description": "x"}).status_code == 403
    too_long = {"description": "x" * 4001}
    assert manager.send("patch", "/apps/primes", too_long).status_code == 400
    [waves] = [
        app for app in Program().send("get", "/status").json()["apps"] if app["name"] == "waves"
    ]
    assert waves["description"] == "Gravity.\n\nWaves."


def test_listing_apps_takes_at_most_three_statements(staff, django_assert_max_num_queries):
    for _ in range(5):
        an_app_version(an_app())
    with django_assert_max_num_queries(3):
        assert [one["versions"] for one in staff.send("get", "/apps").json()["results"]] == [1] * 5


def test_duplicate_app_name_returns_409(staff):
    an_app("primes")
    assert staff.send("post", "/apps", {"name": "primes"}).status_code == 409


def test_only_staff_create_apps_and_managers_change_only_their_own_apps(manager):
    assert manager.send("post", "/apps", {"name": "new"}).status_code == 403
    assert manager.send("patch", "/apps/primes", {"beta": True}).status_code == 200
    an_app("other")
    assert manager.send("patch", "/apps/other", {"beta": True}).status_code == 403


@pytest.mark.parametrize(
    "wish",
    [
        {"weight": 100},
        {"credit_per_workunit": 1e6},
        {"credit_rule": "fixed"},
    ],
)
def test_manager_cannot_change_weight_or_credit_settings_of_an_app(manager, wish):
    answer = manager.send("patch", "/apps/primes", wish)
    assert answer.status_code == 403
    assert "administrators" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("wish", "pointer"),
    [
        ({"validator": "bytewise"}, "/validator"),
        ({"validator": "script:compare.py"}, "/validator"),
        ({"validator": "python:os.system"}, "/validator"),
        ({"assimilator": "table"}, "/assimilator"),
        ({"validator": "numeric", "validator_options": {"relativ": 1}}, "/validator"),
        ({"workunit_defaults": {"min_quorums": 2}}, "/workunit_defaults"),
        ({"input_template": "<input_template>"}, "/input_template"),
    ],
)
def test_invalid_validator_assimilator_defaults_or_template_returns_422(staff, wish, pointer):
    an_app("primes")
    answer = staff.send("patch", "/apps/primes", wish)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize(
    "wish",
    [
        {"grace_seconds": -1},
        {"ack_timeout_seconds": -1},
        {"grace_seconds": 1e12},
        {"grace_seconds": 1e300},
        {"grace_seconds": "90"},
        {"target_nresults": 0},
        {"name": "other"},
        {"kind": "java"},
        {"workunit_defaults": []},
        {"total_credit": 1},
    ],
)
def test_app_change_with_invalid_field_returns_400(staff, wish):
    an_app("primes")
    assert staff.send("patch", "/apps/primes", wish).status_code == 400


def test_kind_of_an_app_with_versions_cannot_be_changed(staff):
    an_app_version(an_app("primes"))
    assert staff.send("patch", "/apps/primes", {"kind": "script"}).status_code == 422
