"""Workunits can be revalidated until they are assimilated."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from daemons import assimilator, transitioner, validator
from scheduler.models import AuditEntry, Batch, CreditEntry, LedgerEntry, ScienceFailure
from scheduler.results import revalidate
from scheduler.results.revalidate import ResultFilter
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, statements_of

pytestmark = pytest.mark.django_db


def judged(app=None, *, outputs=(b"1.0", b"1.0", b"1.5"), **fields):
    """A workunit whose first two results agreed and whose third did not."""
    workunit = rows.a_workunit(app, target_nresults=len(outputs), transition_at=None, **fields)
    words = ["valid", "valid", *["invalid"] * (len(outputs) - 2)]
    results = [
        rows.a_result(workunit, word, output=data, uploaded=True)
        for word, data in zip(words, outputs, strict=True)
    ]
    return rows.settled(workunit, results[0], assimilate_state=1), results


def run(*words, errors=None):
    out = io.StringIO()
    call_command("revalidate", *map(str, words), stdout=out, stderr=errors or io.StringIO())
    return out.getvalue().rstrip("\n")


def run_json(*words):
    return json.loads(run(*words, "--json"))


def verdicts(results):
    for result in results:
        result.refresh_from_db()
    return [result.validate_state for result in results]


def state(workunit):
    workunit.refresh_from_db()
    return workunit.assimilate_state


class TestLooking:
    def test_revalidate_without_apply_prints_what_would_change_and_changes_nothing(self):
        app = rows.an_app("sums", validator="trivial")
        workunit, results = judged(app, name="wu_1")
        before = (LedgerEntry.objects.count(), rows.due_at(workunit))
        assert run("sums").splitlines() == [
            "wu_1: canonical as before",
            f"    result {results[2].pk}: INVALID -> VALID",
            "1 workunit compared: 1 would change. Nothing was changed. Hint: add --apply to request it.",
        ]
        workunit.refresh_from_db()
        assert (LedgerEntry.objects.count(), rows.due_at(workunit)) == before
        assert workunit.revalidate_requested_at is None
        assert verdicts(results) == [1, 1, 2]

    def test_workunits_that_would_not_change_are_not_listed(self):
        judged(rows.an_app("sums"))
        report = run_json("sums")
        assert (report["compared"], report["would_change"], report["workunits"]) == (1, 0, [])

    def test_revalidation_can_change_or_remove_the_canonical_result(self):
        app = rows.an_app("sums")
        workunit, results = judged(app, outputs=(b"a", b"b", b"b"))
        (one,) = run_json("--workunit", workunit.name)["workunits"]
        first, second, third = (result.pk for result in results)
        assert (one["canonical_before"], one["canonical_after"]) == (first, second)
        assert one["results"] == {
            str(first): ["VALID", "INVALID"],
            str(third): ["INVALID", "VALID"],
        }
        workunit, _ = judged(app, outputs=(b"a", b"b", b"c"))
        (one,) = run_json("--workunit", workunit.name)["workunits"]
        assert one["canonical_after"] is None
        assert {after for _, after in one["results"].values()} == {"INCONCLUSIVE"}

    def test_revalidation_compares_with_the_validator_of_the_app(self):
        app = rows.an_app("sums", validator="numeric", validator_options={"absolute": 1})
        _, results = judged(app)
        (one,) = run_json("sums")["workunits"]
        assert one["results"] == {str(results[2].pk): ["INVALID", "VALID"]}

    def test_a_workunit_that_cannot_be_compared_is_listed_with_the_error(self):
        judged(rows.an_app("sums", validator="numeric", validator_options={"nonsense": 1}))
        (one,) = run_json("sums")["workunits"]
        assert "nonsense" in one["trouble"]
        assert run_json("sums")["would_change"] == 0

    @pytest.mark.parametrize("count", [1, 20])
    def test_comparing_any_number_of_workunits_uses_6_statements(self, count):
        app = rows.an_app("sums")
        for _ in range(count):
            judged(app)
        assert statements_of(lambda: run("sums")) == 6


class TestChoosing:
    def chosen(self, **which):
        return revalidate.choose(**which)

    def test_workunits_can_be_chosen_by_app_batch_or_name(self):
        app = rows.an_app("sums")
        batch = Batch.objects.create(name="b", submitter=rows.an_account(), created_at=NOON)
        one, _ = judged(app, batch=batch)
        two, _ = judged(app)
        judged(rows.an_app("other"))
        assert self.chosen(app="sums").ids == [one.pk, two.pk]
        assert self.chosen(batch_id=batch.pk).ids == [one.pk]
        assert self.chosen(workunit=two.name).ids == [two.pk]
        assert run_json("--batch", "b")["compared"] == 1

    def test_only_invalid_chooses_workunits_with_an_invalid_result(self):
        app = rows.an_app("sums")
        judged(app, outputs=(b"a", b"a"))
        with_invalid, _ = judged(app)
        assert self.chosen(app="sums", results=ResultFilter(only_invalid=True)).ids == [
            with_invalid.pk
        ]

    def test_a_period_chooses_workunits_with_a_success_that_was_reported_in_it(self):
        app = rows.an_app("sums")
        early, _ = judged(app)
        late, (result, *_) = judged(app)
        rows.update(result, received_at=rows.hours(3))
        hour = rows.hours(1)
        assert self.chosen(app="sums", results=ResultFilter(since=hour)).ids == [late.pk]
        assert self.chosen(app="sums", results=ResultFilter(until=rows.hours(-2))).ids == []
        both = ResultFilter(since=rows.hours(-1), until=rows.hours(0))
        assert self.chosen(app="sums", results=both).ids == [early.pk, late.pk]
        edge = ResultFilter(since=rows.hours(2), until=rows.hours(3))
        assert self.chosen(app="sums", results=edge).ids == []
        assert run_json("sums", "--since", hour.isoformat())["compared"] == 1

    def test_all_workunits_of_an_app_are_read_in_steps(self, monkeypatch):
        monkeypatch.setattr(revalidate, "_READ_AT_ONCE", 2)
        app = rows.an_app("sums")
        ids = [judged(app)[0].pk for _ in range(4)]
        rows.settled(rows.a_workunit(app), assimilate_state=1)
        rows.settled(rows.a_workunit(app), assimilate_state=1)
        chosen = self.chosen(app="sums")
        assert (chosen.ids, chosen.refused) == (ids, {"failed": 2})

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            ({"assimilate_state": 2}, "assimilated"),
            ({"revalidate_requested_at": NOON}, "asked"),
            ({}, "deleted"),
        ],
    )
    def test_workunits_past_revalidation_are_refused_with_the_reason(self, spoil, reason):
        workunit, results = judged(rows.an_app("sums"))
        if spoil:
            rows.update(workunit, **spoil)
        else:
            rows.update(results[0], file_delete_state=1)
        chosen = self.chosen(app="sums")
        assert (chosen.ids, chosen.refused) == ([], {reason: 1})
        errors = io.StringIO()
        run("sums", errors=errors)
        assert errors.getvalue() == (
            f"Warning: 1 workunit cannot be revalidated: {revalidate.REASONS[reason]}.\n"
        )

    def test_failed_and_unvalidated_workunits_are_refused(self):
        app = rows.an_app("sums")
        rows.settled(rows.a_workunit(app), assimilate_state=1)
        rows.a_result(rows.a_workunit(app), "success")
        assert self.chosen(app="sums").refused == {"failed": 1, "unjudged": 1}

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "Name an app, or --workunit NAME"),
            (("sums", "--workunit", "x"), "Name an app, or --workunit NAME"),
            (("nothing",), "There is no app 'nothing'"),
            (("--workunit", "nothing"), "There is no workunit 'nothing'"),
            (("--batch", "nothing"), "There is no batch 'nothing'"),
            (("--batch", "b", "--submitter", "x@y.example"), "No account has the e-mail address"),
            (("sums", "--since", "2026-02-02", "--until", "2026-02-01"), "is empty. Hint"),
            (("sums", "--since", "soon"), "'soon' is not a time"),
        ],
    )
    def test_invalid_revalidate_arguments_are_refused(self, words, said):
        rows.an_app("sums")
        with pytest.raises(CommandError, match=said):
            run(*words)


class TestDoing:
    def test_daemons_revalidate_results_and_do_not_grant_credit_twice(self):
        app = rows.an_app("sums", credit_rule="fixed", credit_per_workunit=10)
        workunit = rows.a_workunit(app, target_nresults=3, need_validate=True, transition_at=None)
        results = [
            rows.a_result(workunit, "success", output=data, uploaded=True)
            for data in (b"1.0", b"1.0", b"1.5")
        ]
        now = NOON
        a_pass(validator, now=now)
        a_pass(transitioner, now=now)
        assert verdicts(results) == [1, 1, 2]
        assert state(workunit) == 1
        paid = CreditEntry.objects.filter(account__isnull=False).count()
        rows.update(app, validator="trivial")
        assert run_json("sums")["would_change"] == 1
        assert run("sums", "--apply") == "Revalidation requested: 1 workunit."
        workunit.refresh_from_db()
        now = rows.due_at(workunit)
        a_pass(transitioner, now=now)
        workunit.refresh_from_db()
        assert (workunit.canonical_result_id, workunit.assimilate_state) == (None, 0)
        assert workunit.revalidate_requested_at is None
        assert verdicts(results) == [0, 0, 0]
        for _ in range(2):
            a_pass(transitioner, now=now)
            a_pass(validator, now=now)
        a_pass(transitioner, now=now)
        assert verdicts(results) == [1, 1, 1]
        assert state(workunit) == 1
        for result in results:
            result.refresh_from_db()
            assert result.granted_credit == 10
        assert CreditEntry.objects.filter(account__isnull=False).count() == paid + 1
        a_pass(assimilator, now=now)
        assert state(workunit) == 2

    def test_revalidation_deletes_recorded_failures(self):
        workunit, _ = judged(rows.an_app("sums"))
        for stage in (1, 2):
            ScienceFailure.objects.create(
                stage=stage, subject_id=workunit.pk, app=workunit.app, error="x", failed_at=NOON
            )
        assert revalidate.request([workunit.pk], now=NOON) == [workunit.pk]
        assert ScienceFailure.objects.count() == 0

    def test_a_revalidation_request_for_an_assimilated_workunit_changes_nothing(self):
        workunit, _ = judged(rows.an_app("sums"))
        a_pass(assimilator)
        assert revalidate.request([workunit.pk], now=rows.hours(1)) == []
        workunit.refresh_from_db()
        assert workunit.revalidate_requested_at is None

    def test_a_request_writes_one_audit_entry_for_each_transaction(self, monkeypatch):
        monkeypatch.setattr(revalidate, "CHUNK", 2)
        ids = [judged(rows.an_app())[0].pk for _ in range(3)]
        revalidate.request(ids, now=NOON, details={"app": "sums"})
        entries = AuditEntry.objects.filter(event="action_taken").order_by("id")
        assert [entry.details["ids"] for entry in entries] == [ids[:2], ids[2:]]
        assert {entry.details["app"] for entry in entries} == {"sums"}
        revalidate.request(ids, now=NOON)
        assert len(entries.all()) == 2

    def test_the_command_writes_an_audit_entry_with_its_user(self):
        judged(rows.an_app("sums"))
        run("sums", "--apply")
        entry = AuditEntry.objects.get(event="action_taken")
        assert entry.actor.startswith("shell:")
        assert (entry.details["action"], entry.details["workunits"]) == ("validate_again", 1)

    def test_second_request_changes_nothing(self):
        workunit, _ = judged(rows.an_app("sums"))
        assert revalidate.request([workunit.pk], now=NOON) == [workunit.pk]
        assert revalidate.request([workunit.pk], now=rows.hours(1)) == []
        workunit.refresh_from_db()
        assert workunit.revalidate_requested_at == rows.due_at(workunit) == NOON

    def test_assimilation_is_not_settled_after_a_revalidation_request(self, monkeypatch):
        """Staff requests revalidation during assimilation, so the assimilator settles nothing."""
        workunit, _ = judged(rows.an_app("sums"))
        settle = assimilator._settle

        def taken_back(*args, **options):
            monkeypatch.setattr(assimilator, "_settle", settle)
            revalidate.request([workunit.pk], now=NOON)
            a_pass(transitioner)
            return settle(*args, **options)

        monkeypatch.setattr(assimilator, "_settle", taken_back)
        assert a_pass(assimilator).done == {"settled by another": 1}
        assert state(workunit) == 0

    def test_number_of_revalidations_is_limited(self):
        app = rows.an_app("sums")
        for _ in range(3):
            judged(app)
        errors = io.StringIO()
        output = run("sums", "--apply", "--at-most", 2, errors=errors)
        assert output == "Revalidation requested: 2 workunits."
        assert "1 more workunit left out" in errors.getvalue()
        with pytest.raises(CommandError) as refused:
            run("sums", "--at-most", 0)
        assert refused.value.returncode == 2


class TestCandidates:
    def test_candidates_wait_for_daemons_or_have_results_at_hosts(self):
        app = rows.an_app("sums")
        unvalidated = rows.a_workunit(app, need_validate=True)
        undecided = [rows.a_workunit(app), rows.a_workunit(app)]
        for workunit, word in zip(undecided, ("unsent", "sent"), strict=True):
            rows.a_result(workunit, "inconclusive")
            rows.a_result(workunit, word)
        finished, _ = judged(app)
        rows.update(finished, assimilate_state=2)
        assimilable, _ = judged(app)
        judged(rows.an_app("other"))
        candidates = revalidate.find_candidates(app.pk)
        assert candidates.ids == sorted(
            [unvalidated.pk, *(workunit.pk for workunit in undecided), assimilable.pk]
        )
        assert candidates.rows_read == {
            "assimilable": 2, "unvalidated": 1, "unsent": 1, "in_progress": 1
        }  # fmt: skip
        assert candidates.is_complete

    def test_each_index_is_read_up_to_the_limit(self, monkeypatch):
        monkeypatch.setattr(revalidate, "MAX_READ", 2)
        app = rows.an_app("sums")
        workunits = [rows.a_workunit(app) for _ in range(3)]
        for workunit in workunits:
            rows.a_result(workunit)
        ready = [judged(app)[0] for _ in range(3)]
        candidates = revalidate.find_candidates(app.pk)
        assert candidates.rows_read == {"assimilable": 2, "unsent": 2}
        assert candidates.ids == [row.pk for row in (*workunits[:2], *ready[:2])]
        assert not candidates.is_complete

    def test_effects_count_answers_verdicts_and_credited_results(self):
        first, results = judged(rows.an_app("sums"))
        second, _ = judged(rows.an_app("other"))
        rows.update(results[0], granted_credit=5)
        effects = revalidate.effects([first.pk, second.pk])
        assert (effects.canonical, effects.valid, effects.invalid) == (2, 4, 2)
        assert (effects.verdicts, effects.credited) == (6, 1)
        assert revalidate.effects([]).verdicts == 0
