"""The end of batches: kept outputs, retirement, and batches that follow others."""

from __future__ import annotations

import pytest

from daemons import file_deleter, housekeeper, purger, transitioner
from scheduler import storage
from scheduler.health import invariants
from scheduler.models import Batch, LedgerEntry, ResultFile, Workunit
from scheduler.work import batches, control, explain, followers, retry
from scheduler.work.batches import BadChange, BatchNotReady
from scheduler.work.progress import costs_of, progress_of
from scheduler.work.submission import new_batches
from scheduler.work.usage import usage_of
from tests.conftest import NOON
from tests.database.passes import a_pass
from tests.rows import a_result, a_workunit, an_app, an_input, hours, settled, update
from tests.scientists import a_batch, done_in, failed_in, in_batch

pytestmark = pytest.mark.django_db

State = Batch.State
LATER = hours(2)


def reread(row):
    row.refresh_from_db()
    return row


def woken(workunit):
    update(workunit, transition_at=NOON)
    a_pass(transitioner)
    return reread(workunit)


def broken() -> list[str]:
    """Return violations of invariants about files only, because test rows have no ledger."""
    about = {"kept_outputs_exist", "needed_outputs_exist", "inputs_have_a_workunit"}
    found = [one for one in invariants.invariants() if one.name in about]
    return [str(what) for one in found for what in one.find(LATER)]


# Kept outputs


def test_outputs_of_canonical_results_are_kept_until_the_batch_is_retired():
    batch = a_batch(app=an_app(one_result_per="nothing"))
    workunit = done_in(batch)
    spare = a_result(workunit, "valid", output=b"42", uploaded=True)
    woken(workunit)
    kept, gone = workunit.results.order_by("id")
    assert (kept.file_delete_state, gone.file_delete_state) == (0, 1)
    assert reread(workunit).file_delete_state == 1
    a_pass(file_deleter)
    assert storage.upload_path(kept.output_files.get().name).exists()
    assert not storage.upload_path(spare.output_files.get().name).exists()
    a_pass(purger, now=hours(10_000))
    assert broken() == []
    batches.complete(now=NOON)
    assert batches.retire(batch.pk, now=LATER) == 1
    a_pass(transitioner, now=LATER)
    a_pass(file_deleter, now=LATER)
    assert not storage.upload_path(kept.output_files.get().name).exists()
    a_pass(purger, now=hours(10_000))
    assert not Workunit.objects.exists()


def test_input_files_of_failed_workunits_are_kept_until_the_batch_is_retired():
    batch = a_batch()
    failed, done = failed_in(batch), done_in(batch)
    an_input(done, file=an_input(failed))
    woken(failed)
    woken(done)
    assert (reread(failed).file_delete_state, reread(done).file_delete_state) == (0, 1)


def test_fsck_finds_a_kept_output_marked_for_deletion():
    batch = a_batch()
    workunit = done_in(batch)
    assert broken() == []
    update(workunit.results.get(), file_delete_state=1)
    assert any("kept" in line for line in broken())


def test_explain_shows_that_outputs_are_kept():
    workunit = done_in(a_batch())
    said = explain.explanation_of_workunit(workunit.pk, now=NOON).reasons
    assert "its outputs are kept until its batch is retired" in said


def test_batch_keeps_the_totals_of_purged_workunits():
    batch = a_batch(keep_outputs=False)
    done, failed = done_in(batch), failed_in(batch)
    update(done.results.get(), granted_credit=7)
    before = (progress_of([batch], now=NOON), costs_of([batch]))

    def used_by_day():
        since, until = NOON.date(), hours(24).date()
        return usage_of(batch.submitter, since=since, until=until, by="day")

    before_purge = used_by_day()
    assert [(one.day, one.workunits, one.credit) for one in before_purge] == [(NOON.date(), 2, 7)]
    for workunit in (done, failed):
        woken(workunit)
    a_pass(file_deleter)
    a_pass(purger, now=hours(10_000))
    assert not Workunit.objects.exists()
    reread(batch)
    assert (batch.purged_done, batch.purged_failed) == (1, 1)
    assert (progress_of([batch], now=NOON), costs_of([batch])) == before
    assert costs_of([batch])[batch.pk].credit == 7
    assert used_by_day() == before_purge


# Ending


def test_a_completed_batch_stores_its_completion_time():
    batch = a_batch()
    done_in(batch)
    assert batches.complete(now=LATER) == 1
    assert (reread(batch).state, batch.completed_at) == (State.COMPLETE, LATER)


def test_an_aborted_batch_stays_aborted_and_stores_when_its_last_workunit_ended():
    batch = a_batch()
    open_one = in_batch(batch, transition_at=None)
    assert batches.abort(batch.pk, reason="enough", now=NOON).changed == 1
    assert batches.complete(now=NOON) == 0
    settled(open_one, assimilate_state=2)
    assert batches.complete(now=LATER) == 1
    assert (reread(batch).state, batch.completed_at) == (State.ABORTED, LATER)


def test_ended_batch_cannot_be_aborted_and_open_batch_cannot_be_retired():
    over, running = a_batch("over", state=State.COMPLETE), a_batch("running")
    in_batch(running, transition_at=None)
    with pytest.raises(BatchNotReady, match=r"there is nothing to abort.*Hint: retire it"):
        batches.abort(over.pk, reason="", now=NOON)
    with pytest.raises(BatchNotReady, match=r"cannot be retired.*Hint: wait for its end"):
        batches.retire(running.pk, now=NOON)
    assert (reread(over).state, reread(running).state) == (State.COMPLETE, State.IN_PROGRESS)


def test_a_batch_can_be_retired_as_soon_as_its_last_workunit_is_assimilated():
    batch = a_batch()
    done_in(batch)
    assert batches.retire(batch.pk, now=NOON) == 1
    assert (reread(batch).state, batch.completed_at) == (State.RETIRED, NOON)


def test_retiring_twice_changes_nothing():
    batch = a_batch(state=State.COMPLETE)
    done_in(batch)
    assert batches.retire(batch.pk, now=NOON) == 1
    assert batches.retire(batch.pk, now=LATER) == 0
    assert reread(batch).retired_at == NOON


@pytest.mark.parametrize("state", [State.ABORTED, State.RETIRED])
def test_the_housekeeper_finishes_an_interrupted_abort_or_retirement(state, monkeypatch):
    monkeypatch.setattr(batches, "_CHUNK", 2)
    monkeypatch.setattr(control, "_CHUNK", 2)
    batch = a_batch(state=State.IN_PROGRESS if state == State.ABORTED else State.COMPLETE)
    make = in_batch if state == State.ABORTED else done_in
    for _ in range(5):
        make(batch)
    # As after a crash: the state of the batch is committed, the workunits are not.
    update(batch, state=state)
    assert batches.finish(now=NOON) == 5
    assert batches.finish(now=NOON) == 0
    if state == State.RETIRED:
        assert reread(batch).retired_at == NOON
        assert not Workunit.objects.filter(outputs_kept=True).exists()
    else:
        assert not Workunit.objects.filter(cancel_requested_at=None).exists()


def test_a_batch_can_be_changed_and_invalid_changes_are_refused():
    batch = a_batch()
    a_batch("taken", batch.submitter)
    batches.change(
        batch.pk,
        {"expire_at": LATER, "meta": {"a": 1}, "name": "new"},
        by=batch.submitter,
        now=NOON,
    )
    assert (reread(batch).expire_at, batch.meta, batch.name) == (LATER, {"a": 1}, "new")
    with pytest.raises(BadChange, match=r"is past.*Hint: abort the batch"):
        batches.change(batch.pk, {"expire_at": NOON}, by=batch.submitter, now=NOON)
    with pytest.raises(BadChange, match="There is a batch 'taken' already"):
        batches.change(batch.pk, {"name": "taken"}, by=batch.submitter, now=NOON)
    for nonsense, words in (
        ({"name": "a\nb"}, "is not a name for a batch"),
        ({"meta": {"a": "x" * 65_536}}, "meta has 65545 characters"),
    ):
        with pytest.raises(BadChange, match=words):
            batches.change(batch.pk, nonsense, by=batch.submitter, now=NOON)
    update(batch, state=State.RETIRED)
    with pytest.raises(BatchNotReady, match="change only its name or meta"):
        batches.change(batch.pk, {"accelerate": True}, by=batch.submitter, now=NOON)


def test_a_batch_that_another_batch_follows_cannot_be_deleted():
    first = a_batch("first", state=State.RETIRED)
    a_batch("second", first.submitter, after=first)
    with pytest.raises(BatchNotReady, match="'second' follows 'first'"):
        batches.delete(first.pk)


# Following


def a_chain(**fields):
    """Two batches with a workunit each; the second batch follows the first."""
    first = a_batch("first")
    second = a_batch("second", first.submitter, after=first, app=first.app, **fields)
    waiting = in_batch(second, release_state=1, pending_dependency_count=1, waits_for_batch=True)
    return first, second, waiting


def state_of(workunit) -> tuple[int, int]:
    reread(workunit)
    return workunit.release_state, workunit.error_mask


def test_a_following_batch_waits_until_its_predecessor_is_done():
    first, second, waiting = a_chain()
    before = in_batch(first)
    a_pass(transitioner)
    assert followers.settle(now=NOON) == 0
    assert "waits for batch first to end" in explain.reasons_of(waiting.pk, now=NOON)
    settled(before, a_result(before, "valid"), assimilate_state=2, transition_at=None)
    a_pass(housekeeper)
    a_pass(transitioner)
    assert state_of(waiting) == (3, 0)
    assert waiting.results.count() == 2
    assert reread(second).let_go_at == NOON
    assert followers.settle(now=LATER) == 0


@pytest.mark.parametrize("how", ["failed", "aborted", "purged"])
def test_failed_batch_fails_all_batches_that_follow_it(how):
    first, second, waiting = a_chain()
    third = a_batch("third", first.submitter, after=second, app=first.app)
    last = in_batch(third, release_state=1, pending_dependency_count=1, waits_for_batch=True)
    if how == "failed":
        failed_in(first)
        done_in(first)
    elif how == "purged":
        update(first, purged_failed=1)
    else:
        in_batch(first)
        batches.abort(first.pk, reason="", now=NOON)
    batches.complete(now=NOON)
    assert followers.settle(now=NOON) == 1
    a_pass(transitioner)
    assert state_of(waiting) == (1, 256)
    entry = LedgerEntry.objects.filter(workunit_id=waiting.pk).order_by("id")[0]
    assert entry.because == 20 or entry.because
    update(waiting, assimilate_state=2, finished_at=NOON)
    batches.complete(now=NOON)
    assert reread(second).state == State.COMPLETE
    assert followers.settle(now=NOON) == 1
    a_pass(transitioner)
    assert state_of(last) == (1, 256)


def test_a_following_batch_keeps_waiting_if_its_predecessor_gets_new_workunits(monkeypatch):
    first, second, waiting = a_chain()
    update(first, state=State.COMPLETE)
    read = followers.fetch

    def add_meanwhile(name, params):
        rows = read(name, params)
        if name == "work/read_followers":
            in_batch(first, created_at=NOON)
            update(first, state=State.IN_PROGRESS)
        return rows

    monkeypatch.setattr(followers, "fetch", add_meanwhile)
    assert followers.settle(now=NOON) == 0
    for row in (second, waiting):
        row.refresh_from_db()
    assert (waiting.pending_dependency_count, second.let_go_at) == (1, None)


def test_fsck_finds_workunits_released_too_early_or_never_released():
    first, second, unseen = a_chain()
    in_batch(first)
    early = in_batch(second, release_state=1, pending_dependency_count=1, waits_for_batch=True)
    [rule] = [one for one in invariants.invariants() if one.name == "followers_wait"]
    assert rule.find(NOON) == []
    update(early, pending_dependency_count=0, waits_for_batch=False)
    update(second, let_go_at=NOON)
    found = {one.name: one.detail for one in rule.find(NOON)}
    assert {rule.name: found} == {
        "followers_wait": {
            early.name: "was released before batch first finished",
            unseen.name: "waits for a batch, but its own batch was released",
        }
    }


def test_after_any_releases_a_batch_when_its_predecessor_ends_in_any_state():
    first, _, waiting = a_chain(after_any=True)
    running = in_batch(first)
    batches.abort(first.pk, reason="", now=NOON)
    assert followers.settle(now=NOON) == 0
    settled(running, assimilate_state=2)
    batches.complete(now=NOON)
    assert followers.settle(now=NOON) == 1
    a_pass(transitioner)
    assert state_of(waiting) == (3, 0)


def test_release_continues_after_a_crash_between_two_chunks(monkeypatch):
    monkeypatch.setattr(followers, "_CHUNK", 2)
    first, second, _ = a_chain()
    for _ in range(4):
        in_batch(second, release_state=1, pending_dependency_count=1, waits_for_batch=True)
    update(first, state=State.COMPLETE)
    one = Workunit.objects.filter(batch=second).earliest("id")
    update(one, pending_dependency_count=0, waits_for_batch=False)  # the chunk that was committed
    assert followers.settle(now=NOON) == 4
    assert not Workunit.objects.filter(pending_dependency_count__gt=0).exists()


def test_workunits_added_to_a_released_following_batch_are_released_later():
    first, second, _ = a_chain()
    update(first, state=State.COMPLETE)
    assert followers.settle(now=NOON) == 1
    # The first batch is reopened and the second gets a workunit: it waits again.
    update(first, state=State.IN_PROGRESS)
    late = in_batch(second, release_state=1, pending_dependency_count=1, waits_for_batch=True)
    update(second, let_go_at=None)
    update(first, state=State.COMPLETE)
    assert followers.settle(now=LATER) == 1
    assert reread(late).pending_dependency_count == 0


# Retries


def test_retry_submits_failed_workunits_again_with_the_same_parameters():
    batch = a_batch(state=State.COMPLETE)
    failed = failed_in(
        batch, error_mask=2, command_line="--x 1", meta={"n": 1}, end_before=hours(-1)
    )
    file = an_input(failed)
    done_in(batch)
    assert retry.retry(batch.pk, now=NOON) == retry.Retried(count=1)
    again = Workunit.objects.get(name=f"{failed.name}.2")
    assert (again.command_line, again.meta, again.end_before) == ("--x 1", {"n": 1}, None)
    assert (again.outputs, again.min_quorum, again.outputs_kept) == (failed.outputs, 2, True)
    assert again.input_files.get().file == file
    assert (reread(batch).state, batch.completed_at) == (State.IN_PROGRESS, None)
    found = progress_of([batch], now=NOON)[batch.pk]
    assert (found.total, found.done, found.failed, found.unsent) == (2, 1, 0, 1)
    assert retry.retry(batch.pk, now=NOON) == retry.Retried()
    a_pass(transitioner)
    assert again.results.count() == 2
    assert broken() == []


def failed_alone(**fields) -> Workunit:
    workunit = settled(a_workunit(**fields), assimilate_state=2, transition_at=None)
    update(workunit, error_mask=2)
    return workunit


def test_failed_workunits_without_a_batch_are_retried_once():
    failed = failed_alone(command_line="--x 1", meta={"n": 1}, priority=7)
    file = an_input(failed)
    in_a_batch, unfinished = failed_in(a_batch(), error_mask=2), a_workunit()
    names = [failed.name]
    assert retry.retry(None, names=names, now=NOON) == retry.Retried(count=1)
    again = Workunit.objects.get(name=f"{failed.name}.2")
    assert reread(failed).retried_as == again.pk
    assert (again.batch, again.outputs_kept, again.priority) == (None, False, 7)
    assert (again.command_line, again.meta, again.outputs) == ("--x 1", {"n": 1}, failed.outputs)
    assert again.input_files.get().file == file
    assert retry.retry(None, names=names, now=NOON) == retry.Retried()
    assert retry.retry(None, now=NOON) == retry.Retried()
    for other in (in_a_batch, unfinished):
        with pytest.raises(control.WorkunitsNotFound, match=f"failed workunit {other.name}"):
            retry.retry(None, names=[other.name], now=NOON)
    assert reread(in_a_batch).retried_as is None
    a_pass(transitioner)
    assert again.results.count() == 2
    assert broken() == []


def test_workunits_without_a_batch_that_cannot_be_retried_are_counted(monkeypatch):
    monkeypatch.setattr(retry, "_CHUNK", 1)
    failed_alone(past_inputs=[])
    taken, stopped = failed_alone(), failed_alone()
    a_workunit(name=f"{taken.name}.2")
    update(stopped, error_mask=16)
    skipped = retry.Retried(cancelled=1, inputs_gone=1, names_taken=1)
    assert retry.retry(None, now=NOON) == skipped
    assert retry.retry(None, names=[stopped.name], now=NOON) == retry.Retried(count=1)


def test_retry_truncates_long_names_and_keeps_them_unique():
    batch = a_batch()
    for end in "ab":
        failed_in(batch, error_mask=2, name="x" * 199 + end)
    for attempt in (1, 2, 3):
        assert retry.retry(batch.pk, now=NOON) == retry.Retried(count=2)
        assert len(set(Workunit.objects.values_list("name", flat=True))) == 2 * attempt + 2
        Workunit.objects.filter(error_mask=0).update(error_mask=2)
    assert Workunit.objects.filter(name__startswith="x" * 180).count() == 8


def test_a_cancelled_workunit_is_retried_only_by_name():
    batch = a_batch()
    stopped = failed_in(batch)
    assert retry.retry(batch.pk, now=NOON) == retry.Retried(cancelled=1)
    assert retry.retry(batch.pk, names=[stopped.name], now=NOON).count == 1
    with pytest.raises(control.WorkunitsNotFound, match="failed workunit nobody"):
        retry.retry(batch.pk, names=["nobody"], now=NOON)


def test_workunits_that_cannot_be_retried_are_counted():
    batch = a_batch()
    failed_in(batch, error_mask=2, past_inputs=[])
    taken = failed_in(batch, error_mask=2)
    in_batch(batch, name=f"{taken.name}.2")
    assert retry.retry(batch.pk, now=NOON) == retry.Retried(inputs_gone=1, names_taken=1)


def test_retry_of_an_aborted_batch_is_refused():
    batch = a_batch(state=State.ABORTED)
    with pytest.raises(BatchNotReady, match="aborted and takes no more work"):
        retry.retry(batch.pk, now=NOON)


def test_a_following_batch_can_be_retried_after_its_predecessor_was_retried_and_is_done():
    first, second, waiting = a_chain()
    failed = failed_in(first, error_mask=2)
    update(first, state=State.COMPLETE)
    followers.settle(now=NOON)
    update(waiting, error_mask=256, assimilate_state=1)
    update(waiting, assimilate_state=2, finished_at=NOON)
    with pytest.raises(new_batches.BatchRefused, match="has failed workunits"):
        retry.retry(second.pk, now=NOON)
    retry.retry(first.pk, now=NOON)
    again = Workunit.objects.get(name=f"{failed.name}.2")
    settled(again, a_result(again, "valid"), assimilate_state=2)
    batches.complete(now=NOON)
    assert retry.retry(second.pk, now=NOON).count == 1
    assert Workunit.objects.get(name=f"{waiting.name}.2").release_state == 3
    third = a_batch("third", first.submitter, after=first, app=first.app)
    last = in_batch(third, release_state=1, pending_dependency_count=1, waits_for_batch=True)
    followers.settle(now=NOON)
    assert reread(last).pending_dependency_count == 0


def test_fsck_finds_kept_outputs_in_a_retired_batch():
    batch = a_batch(state=State.RETIRED, retired_at=NOON)
    done_in(batch)
    assert any("retired" in line for line in broken())
    assert ResultFile.objects.count() == 1
