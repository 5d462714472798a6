"""Programs run on the server only from the allow-list in the settings."""

from __future__ import annotations

import pytest

from daemons import assimilator, validator
from daemons.science import worker
from scheduler.models import App
from scheduler.operations import submitters
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.database.test_assimilator import finished
from tests.faces.apis import a_program
from tests.rows import an_account, an_app

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True, scope="module")
def no_worker_is_left():
    yield
    worker.stop()


@pytest.fixture
def evil(tmp_path):
    """A program that leaves a mark where it runs."""
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    return program


def a_manager(*apps):
    ada = an_account("ada")
    submitters.allow(ada, apps=list(apps), may_manage=True, now=NOON)
    return a_program(ada)


def compared(app):
    workunit = rows.a_workunit(app, need_validate=True, transition_at=None)
    for _ in range(2):
        rows.a_result(workunit, "success", output=b"1", uploaded=True)
    a_pass(validator)


def test_a_manager_cannot_name_a_program_in_options(evil):
    app = an_app("primes", validator="script:judge")
    options = {"init": False, "compare_program": str(evil)}
    answer = a_manager(app).send("patch", "/apps/primes", {"validator_options": options})
    assert answer.status_code == 422
    assert App.objects.get().validator_options == {}


def test_a_program_in_the_options_of_an_existing_app_does_not_run(evil):
    options = {"init": False, "compare_program": str(evil)}
    compared(an_app("primes", validator="script:judge", validator_options=options))
    assert not evil.with_name("ran").exists()


def test_a_program_that_only_an_existing_app_names_does_not_run(evil):
    compared(an_app("primes", validator=f"script:{evil}"))
    finished(an_app("sums", assimilator=f"script:{evil}"))
    a_pass(assimilator)
    assert not evil.with_name("ran").exists()


def test_words_of_a_command_line_in_options_do_not_run(evil):
    app = an_app(
        "sums", assimilator="script:/bin/sh", assimilator_options={"arguments": ["-c", str(evil)]}
    )
    finished(app)
    a_pass(assimilator)
    assert not evil.with_name("ran").exists()
