"""Options of an app's validator are shown only to accounts that manage the app."""

from __future__ import annotations

import pytest

from scheduler.people import submitters
from tests.conftest import NOON
from tests.faces.apis import ALL_SCOPES, a_program
from tests.rows import an_account, an_app

pytestmark = pytest.mark.django_db

OPTIONS = {"relative": 1e-6}


def seen_by(program):
    """Return the options that the list and the app's own resource show."""
    (listed, *_) = program.send("get", "/apps").json()["results"]
    return listed["validator_options"], program.send("get", "/apps/primes").json()[
        "validator_options"
    ]


def test_validator_options_are_shown_only_to_app_managers_and_superusers():
    app = an_app("primes", validator="numeric", validator_options=OPTIONS)
    manager, submitter = an_account("manager"), an_account("submitter")
    submitters.allow(manager, apps=[app], may_manage=True, now=NOON)
    submitters.allow(submitter, apps=[app], now=NOON)
    staff = an_account("staff", is_superuser=True)
    assert seen_by(a_program(manager)) == (OPTIONS, OPTIONS)
    assert seen_by(a_program(staff, *ALL_SCOPES)) == (OPTIONS, OPTIONS)
    assert seen_by(a_program(submitter)) == (None, None)
    assert seen_by(a_program(an_account("stranger"))) == (None, None)


def test_manager_of_another_app_cannot_see_validator_options():
    an_app("primes", validator="numeric", validator_options=OPTIONS)
    other = an_account("other")
    submitters.allow(other, apps=[an_app("zz")], may_manage=True, now=NOON)
    assert a_program(other).send("get", "/apps/primes").json()["validator_options"] is None
