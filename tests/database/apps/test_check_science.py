"""`manage.py check_science` reports faults in the science code that apps name."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import call_command

from tests import rows

pytestmark = pytest.mark.django_db


def run(*words):
    out = io.StringIO()
    status = 0
    try:
        call_command("check_science", *words, stdout=out)
    except SystemExit as end:
        status = end.code
    return status, out.getvalue().strip()


def test_default_science_of_an_app_has_no_faults():
    rows.an_app()
    assert run() == (0, "1 app checked: nothing wrong.")


def test_faults_are_reported_with_their_app():
    rows.an_app("fine")
    rows.an_app("sums", assimilator="datset", validator_options={"absolute": 1}, validator="numerc")
    status, said = run()
    assert status == 1
    assert said.splitlines() == [
        "sums: validator: There is no validator 'numerc'. Hint: did you mean 'numeric'?",
        "sums: assimilator: There is no assimilator 'datset'. Hint: did you mean 'dataset'?",
        "2 apps checked: 2 wrong.",
    ]


def test_an_unknown_assimilator_option_is_reported():
    rows.an_app("sums", assimilator="webhook", assimilator_options={"ulr": "https://x.example"})
    _, said = run("sums", "--json")
    (wrong,) = json.loads(said)["wrong"]
    assert wrong["sentence"] == "webhook has no option 'ulr'. Hint: did you mean 'url'?"


def test_only_the_named_apps_are_checked():
    rows.an_app("bad", assimilator="nothing")
    rows.an_app("good")
    assert run("good")[0] == 0
    assert run("other") == (1, "other: app: There is no app 'other'.\n0 apps checked: 1 wrong.")
