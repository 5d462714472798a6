"""Workunits on which science code failed too often: shown, retried, or given up."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from daemons import assimilator, poison, transitioner
from daemons.poison import Stage
from scheduler.health import parked
from scheduler.models import ScienceFailure, TrickleUp
from tests import rows
from tests.conftest import NOON
from tests.database.daemons.test_assimilator import failed, finished
from tests.database.passes import a_pass, moves, statements_of

pytestmark = pytest.mark.django_db
TRACE = 'Traceback (most recent call last):\n  File "science.py", line 7\nKeyError: "sum"\n'


def park(subject_id, app, stage=Stage.ASSIMILATE, error=TRACE, parked_at=NOON):
    return ScienceFailure.objects.create(
        stage=stage,
        subject_id=subject_id,
        app=app,
        failures=5,
        error=error,
        failed_at=NOON,
        parked_at=parked_at,
    ).pk


def parked_assimilation(app=None, **fields):
    workunit = finished(app, assimilate_after=rows.hours(9), **fields)
    return workunit, park(workunit.pk, workunit.app)


def a_trickle(app, **fields):
    fields = {"result_id": 1, "said_at": NOON, "received_at": NOON} | fields
    return TrickleUp.objects.create(app=app, host=rows.a_host(), **fields)


def run(*words, errors=None):
    out = io.StringIO()
    call_command("parked", *map(str, words), stdout=out, stderr=errors or io.StringIO())
    return out.getvalue().rstrip("\n")


def run_json(*words):
    return json.loads(run(*words, "--json"))


class TestList:
    def test_list_prints_a_message_if_nothing_is_parked(self):
        assert run("list") == "Nothing is parked."

    def test_list_prints_the_stage_app_subject_failure_count_and_error(self):
        _, number = parked_assimilation(rows.an_app("sums"), name="wu_1")
        assert run("list") == f'{number:>6}  assimilate  sums  wu_1  5 failures: KeyError: "sum"'

    def test_list_shows_subjects_that_are_still_retried_with_the_troubled_option(self):
        app = rows.an_app("sums")
        park(finished(app).pk, app, parked_at=None)
        assert run("list") == "Nothing is parked."
        assert "5 failures, still tried" in run("list", "--troubled")

    def test_list_can_be_limited_to_one_app(self):
        parked_assimilation(rows.an_app("sums"), name="here")
        parked_assimilation(rows.an_app("other"), name="there")
        assert [one["subject"] for one in run_json("list", "--app", "sums")["parked"]] == ["here"]

    def test_list_names_the_subject_of_every_stage(self):
        app = rows.an_app("sums")
        trickle = a_trickle(app)
        park(rows.a_workunit(app, name="wu_1").pk, app, Stage.VALIDATE)
        park(trickle.pk, app, Stage.TRICKLE)
        park(app.pk, app, Stage.GENERATE)
        park(10**9, app, Stage.ASSIMILATE)
        said = [one["subject"] for one in run_json("list")["parked"]]
        assert said == ["wu_1", f"trickle {trickle.pk}", "sums", "1000000000 (gone)"]

    @pytest.mark.parametrize("count", [1, 30])
    def test_list_uses_two_statements_for_any_number_of_subjects(self, count):
        app = rows.an_app()
        for number in range(count):
            park(number, app)
        assert statements_of(lambda: run("list")) == 2


class TestShow:
    def test_show_prints_the_whole_traceback(self):
        _, number = parked_assimilation(rows.an_app("sums"), name="wu_1")
        output = run("show", number)
        assert output.startswith("Assimilate wu_1 of app sums: 5 failures; the last at 2026-01-01")
        assert output.endswith(TRACE.rstrip())

    def test_show_refuses_an_unknown_id(self):
        with pytest.raises(CommandError, match=r"No parked subject has the id 7\. Hint:"):
            run("show", 7)

    def test_show_requires_an_id(self):
        with pytest.raises(CommandError) as refused:
            run("show")
        assert refused.value.returncode == 2


class TestRetry:
    def test_retry_makes_a_workunit_due_immediately_and_resets_its_failures(self):
        _, number = parked_assimilation()
        assert a_pass(assimilator).seen == 0
        assert run("retry", number) == "1 subject will be tried again at once."
        assert ScienceFailure.objects.count() == 0
        assert a_pass(assimilator).done == {"assimilated": 1}

    @pytest.mark.usefixtures("targets_allowed")
    def test_a_workunit_is_parked_after_failures_shown_and_assimilated_after_retry(self):
        app = rows.an_app(assimilator="table", assimilator_options={"table": "sums"})
        workunit = finished(app, name="wu_1", data=b'{"sum": 3}')
        now = rows.hours(0)
        for _ in range(app.max_science_failures):
            assert a_pass(assimilator, now=now).seen == 1
            workunit.refresh_from_db()
            now = workunit.assimilate_after
        assert a_pass(assimilator, now=rows.hours(1000)).seen == 0
        (one,) = run_json("list")["parked"]
        assert (one["subject"], one["failures"]) == ("wu_1", 5)
        assert 'relation "sums" does not exist' in run("show", one["id"])
        rows.update(app, assimilator="copy_files", assimilator_options={})
        run("retry", one["id"])
        a_pass(assimilator)
        workunit.refresh_from_db()
        assert workunit.assimilate_state == 2
        assert run("list") == "Nothing is parked."

    def test_retry_can_select_one_app_or_all_subjects(self):
        parked_assimilation(rows.an_app("sums"))
        parked_assimilation(rows.an_app("other"))
        assert len(run_json("retry", "--app", "sums", "--dry-run")["retried"]) == 1
        assert ScienceFailure.objects.count() == 2
        assert len(run_json("retry", "--app", "sums")["retried"]) == 1
        assert len(run_json("retry", "--all")["retried"]) == 1
        assert ScienceFailure.objects.count() == 0

    def test_retry_clears_the_delay_of_validation_and_trickles(self):
        app = rows.an_app()
        workunit = rows.a_workunit(app, validate_after=rows.hours(9))
        trickle = a_trickle(app, handle_after=rows.hours(9))
        park(workunit.pk, app, Stage.VALIDATE)
        park(trickle.pk, app, Stage.TRICKLE)
        run("retry", "--all")
        workunit.refresh_from_db()
        trickle.refresh_from_db()
        assert (workunit.validate_after, trickle.handle_after) == (None, None)

    def test_retry_of_assimilation_does_not_clear_the_validation_delay(self):
        workunit, number = parked_assimilation(validate_after=rows.hours(9))
        run("retry", number)
        workunit.refresh_from_db()
        assert (workunit.assimilate_after, workunit.validate_after) == (None, rows.hours(9))

    def test_retry_without_a_selection_is_refused(self):
        with pytest.raises(CommandError, match="Nothing is selected"):
            run("retry")


class TestDrop:
    def test_drop_marks_a_workunit_as_assimilated(self):
        workunit, number = parked_assimilation(name="wu_1")
        said = "1 workunit counted as assimilated without science code."
        assert run("drop", number, "--yes") == said
        workunit.refresh_from_db()
        assert workunit.assimilate_state == 2
        assert workunit.finished_at is not None
        assert rows.due_at(workunit) == workunit.finished_at
        assert moves(workunit) == ["assimilation: READY→DONE"]
        assert ScienceFailure.objects.count() == 0

    def test_assimilation_in_progress_is_not_settled_after_a_drop(self, monkeypatch):
        workunit = finished()
        settle = assimilator._settle

        def dropped_meanwhile(*args, **options):
            parked.drop(ids=[park(workunit.pk, workunit.app)], now=NOON)
            return settle(*args, **options)

        monkeypatch.setattr(assimilator, "_settle", dropped_meanwhile)
        assert a_pass(assimilator).done == {"settled by another": 1}
        assert moves(workunit) == ["assimilation: READY→DONE"]

    def test_drop_cancels_a_workunit_whose_validation_is_parked(self):
        app = rows.an_app()
        workunit = rows.a_workunit(app, transition_at=None)
        rows.a_result(workunit, "success")
        run("drop", park(workunit.pk, app, Stage.VALIDATE), "--yes", "--reason", "bad science")
        workunit.refresh_from_db()
        assert workunit.cancel_reason == "bad science"
        a_pass(transitioner, now=rows.due_at(workunit))
        workunit.refresh_from_db()
        assert workunit.error_mask == 16

    def test_drop_refuses_a_workunit_with_a_canonical_result(self):
        workunit = finished()
        number = park(workunit.pk, workunit.app, Stage.VALIDATE)
        errors = io.StringIO()
        assert run("drop", number, "--yes", errors=errors) == "Nothing can be dropped."
        assert f"{workunit.name} has a canonical result" in errors.getvalue()
        assert ScienceFailure.objects.count() == 1

    def test_drop_marks_a_trickle_as_handled_and_refuses_a_generator(self):
        app = rows.an_app("sums")
        trickle = a_trickle(app)
        numbers = [park(trickle.pk, app, Stage.TRICKLE), park(app.pk, app, Stage.GENERATE)]
        report = run_json("drop", *numbers, "--yes")
        assert (report["trickles"], report["refused"]) == ([f"trickle {trickle.pk}"], ["sums"])
        trickle.refresh_from_db()
        assert trickle.handled_at is not None

    def test_drop_dry_run_changes_nothing(self):
        workunit, number = parked_assimilation()
        said = "1 workunit would be counted as assimilated without science code."
        assert run("drop", number, "--dry-run") == said
        workunit.refresh_from_db()
        assert workunit.assimilate_state == 1

    @pytest.mark.parametrize(("answer", "state"), [("yes", 2), ("no", 1), ("", 1)])
    def test_drop_requires_confirmation(self, answer, state, monkeypatch):
        workunit, number = parked_assimilation()
        monkeypatch.setattr("builtins.input", lambda _prompt: answer)
        if state == 1:
            with pytest.raises(CommandError, match="Nothing was dropped"):
                run("drop", number)
        else:
            run("drop", number)
        workunit.refresh_from_db()
        assert workunit.assimilate_state == state

    def test_drop_refuses_a_subject_that_is_not_parked(self):
        workunit = failed()
        with pytest.raises(CommandError, match="No parked subject has the id"):
            run("drop", park(workunit.pk, workunit.app, parked_at=None), "--yes")

    @pytest.mark.parametrize("words", [("drop", "--all"), ("drop", "--app", "sums")])
    def test_drop_accepts_only_ids(self, words):
        with pytest.raises(CommandError) as refused:
            run(*words)
        assert refused.value.returncode == 2


def test_a_subject_parked_by_poison_record_is_listed():
    app = rows.an_app(max_science_failures=1)
    poison.record(Stage.ASSIMILATE, {7: TRACE}, {7: app.pk}, now=NOON)
    assert [one["failures"] for one in run_json("list")["parked"]] == [1]


def test_parked_without_an_action_prints_the_list():
    workunit, _ = parked_assimilation()
    said = [io.StringIO(), io.StringIO()]
    call_command("parked", stdout=said[0])
    call_command("parked", "list", stdout=said[1])
    assert workunit.name in said[0].getvalue()
    assert said[0].getvalue() == said[1].getvalue()
