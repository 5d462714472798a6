"""Work generators keep a cushion of unsent results and create no workunit twice."""

from __future__ import annotations

import pytest
from django.db import connection

from daemons import transitioner, work_generator
from scheduler import sql
from scheduler.lifecycle import ReleaseState
from scheduler.models import Result, ScienceFailure, Workunit, WorkunitWakeup
from tests.conftest import NOON
from tests.database.passes import a_pass, statements_of
from tests.rows import a_workunit, an_app, an_input, hours, update

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("targets_allowed")]


def app_of(function="numbers", *, cushion=10, **fields):
    name = function if ":" in function else f"python:tests.generator_science.{function}"
    return an_app(generator=name, cushion=cushion, **fields)


def names():
    return sorted(Workunit.objects.values_list("name", flat=True), key=lambda n: (len(n), n))


def numbers(first, last):
    return [f"number_{number}" for number in range(first, last + 1)]


def test_the_cushion_is_filled_once():
    app_of(cushion=10)
    assert a_pass(work_generator).counts["workunits submitted"] == 10
    assert names() == numbers(1, 10)
    a_pass(transitioner)
    assert a_pass(work_generator).seen == 0
    assert Workunit.objects.first().input_files.get().file.nbytes == 2


def test_workunits_without_results_yet_are_counted():
    app_of(cushion=10)
    a_pass(work_generator)
    assert a_pass(work_generator).counts["workunits submitted"] == 0
    assert len(names()) == 10


def test_cushion_is_refilled_from_the_generators_last_state():
    app = app_of(cushion=4)
    a_pass(work_generator)
    a_pass(transitioner)
    sent = Result.objects.filter(app=app).order_by("id")[:3]
    Result.objects.filter(pk__in=[one.pk for one in sent]).update(server_state=5, outcome=5)
    a_pass(work_generator)
    assert names() == numbers(1, 7)


def test_the_cushion_counts_results_instead_of_workunits():
    app_of(cushion=12, generator_options={"quorum": 3})
    a_pass(work_generator)
    a_pass(transitioner)
    Result.objects.filter(pk__in=list(Result.objects.values_list("pk", flat=True)[:30])).update(
        server_state=5, outcome=5
    )
    before = Workunit.objects.count()
    a_pass(work_generator)
    assert Workunit.objects.count() == before + 2


def test_a_generator_can_be_a_class():
    app_of("Numbers", cushion=2)
    a_pass(work_generator)
    assert names() == numbers(1, 2)


def test_an_exhausted_generator_is_logged_once_and_runs_again_when_its_options_change(caplog):
    app = app_of(cushion=10, generator_options={"last": 3})
    caplog.set_level("INFO")
    for _ in range(3):
        a_pass(work_generator)
        a_pass(transitioner)
    assert names() == numbers(1, 3)
    assert [r.app for r in caplog.records if r.message == "generator_exhausted"] == [app.name]
    update(app, generator_options={"last": 5})
    a_pass(work_generator)
    assert names() == numbers(1, 5)


def test_generator_can_defer_its_next_call():
    app_of("patient")
    a_pass(work_generator)
    a_pass(transitioner)
    assert a_pass(work_generator).seen == 0
    a_pass(work_generator, now=hours(1))
    assert Workunit.objects.count() == 2


def test_changing_the_generator_resets_its_state():
    app = app_of(cushion=2)
    a_pass(work_generator)
    a_pass(transitioner)
    update(app, generator="python:tests.generator_science.patient", cushion=9)
    a_pass(work_generator)
    app.refresh_from_db()
    assert app.generator_state["state"] == {"made": 1}


@pytest.mark.parametrize(
    ("function", "error"),
    [
        ("broken", "no idea"),
        ("misspelt", "did you mean 'command_line'"),
        ("impossible", "min_quorum is 0"),
        ("forgetful", "state is not JSON"),
        ("missing", "missing"),
        ("magic:wand", "There is no generator 'magic:wand'"),
        ("copy:nothing", "Workunit 'nothing', the template to copy, does not exist"),
    ],
)
def test_a_failing_generator_is_retried_later_and_then_parked(function, error, caplog):
    app = app_of(function, max_science_failures=2)
    assert a_pass(work_generator).counts["put off"] == 1
    assert error in ScienceFailure.objects.get(stage=4, subject_id=app.pk).error
    assert [r.app for r in caplog.records if r.message == "generator_failed"] == [app.name]
    assert a_pass(work_generator).seen == 0
    assert a_pass(work_generator, now=hours(1)).seen == 1
    assert a_pass(work_generator, now=hours(99)).seen == 0
    assert not Workunit.objects.exists()


def test_a_transient_generator_failure_is_retried_and_cleared_by_success():
    app = app_of("away", max_science_failures=1)
    a_pass(work_generator)
    update(app, generator="python:tests.generator_science.numbers")
    a_pass(work_generator, now=hours(1))
    assert names() == numbers(1, 10)
    assert not ScienceFailure.objects.exists()


def test_a_generator_call_with_outdated_state_submits_nothing(monkeypatch):
    app = app_of(cushion=3)
    ask = work_generator._ask

    def slow(*args):
        made = ask(*args)
        update(app, generator_state={"state": {"next": 50}})
        return made

    monkeypatch.setattr(work_generator, "_ask", slow)
    assert a_pass(work_generator).counts["workunits submitted"] == 0
    assert names() == []


def test_only_one_daemon_at_a_time_runs_the_generator_of_an_app():
    import psycopg

    app = app_of(cushion=3)
    settings = connection.settings_dict
    with (
        psycopg.connect(
            dbname=settings["NAME"],
            host=settings["HOST"],
            user=settings["USER"],
            password=settings["PASSWORD"],
            port=settings["PORT"] or None,
            autocommit=True,
        ) as other,
        other.cursor() as cursor,
    ):
        cursor.execute(sql.load("try_generator_lock", "daemons.sql"), {"id": app.pk})
        assert a_pass(work_generator).counts["workunits submitted"] == 0
        cursor.execute(sql.load("release_generator_lock", "daemons.sql"), {"id": app.pk})
        assert a_pass(work_generator).counts["workunits submitted"] == 3


def test_deprecated_apps_and_apps_without_a_cushion_generate_nothing():
    app_of(deprecated=True)
    app_of(cushion=0)
    assert a_pass(work_generator).seen == 0


def test_a_pass_uses_the_same_statements_for_any_number_of_workunits():
    app_of(cushion=1)
    one = statements_of(lambda: a_pass(work_generator))
    WorkunitWakeup.objects.all().delete()
    app_of(cushion=200, generator_options={"first": 1000})
    app = Workunit.objects.first().app
    update(app, cushion=0)
    assert statements_of(lambda: a_pass(work_generator)) == one


def test_a_pass_generates_up_to_its_limit_and_reports_more_work():
    app_of(cushion=5)
    tally = a_pass(work_generator, limit=2)
    assert (tally.counts["workunits submitted"], tally.more) == (2, True)


# Copies of a template


def test_the_copy_generator_copies_a_workunit_with_its_files_and_parameters():
    app = an_app(cushion=6)
    template = a_workunit(
        app, release_state=ReleaseState.HELD, delay_bound=hours(3) - NOON, command_line="-n 3"
    )
    file = an_input(template)
    update(app, generator=f"copy:{template.name}")
    assert a_pass(work_generator).counts["workunits submitted"] == 3
    copy = Workunit.objects.get(name=f"{template.name}_copy_3")
    assert (copy.command_line, copy.delay_bound, copy.min_quorum, copy.outputs) == (
        "-n 3",
        template.delay_bound,
        2,
        template.outputs,
    )
    assert copy.input_files.get().file == file
    assert copy.release_state == ReleaseState.RELEASED


def test_the_copy_generator_stops_after_the_number_of_copies_in_most():
    app = an_app(cushion=50)
    template = a_workunit(app)
    update(app, generator=f"copy:{template.name}", generator_options={"most": 4})
    for _ in range(4):
        a_pass(work_generator)
        a_pass(transitioner)
    assert Workunit.objects.filter(name__contains="_copy_").count() == 4


def test_the_copy_generator_refuses_a_workunit_of_another_app():
    app_of(f"copy:{a_workunit().name}")
    a_pass(work_generator)
    assert "belongs to another app" in ScienceFailure.objects.get().error
