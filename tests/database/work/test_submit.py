"""A submission of workunits is written in a few statements, or refused as a whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler import storage
from scheduler.files import download_files
from scheduler.lifecycle import Actor, Axis, Because, ReleaseState, WorkunitState
from scheduler.models import (
    Account,
    App,
    AppVersion,
    Batch,
    File,
    Host,
    LedgerEntry,
    Platform,
    Team,
    Workunit,
    WorkunitFile,
)
from scheduler.work.submission import workunit_rows
from scheduler.work.submission.submit import (
    BadWorkunits,
    BatchRefused,
    DuplicateNames,
    NewFile,
    NewOutput,
    NewWorkunit,
    Submission,
    UnknownApp,
    submit,
)
from tests import rows

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
GOOD = NewWorkunit(outputs=(NewOutput(open_name="out", max_nbytes=1000),))


@pytest.fixture
def own_folder() -> Path:
    return Path(settings.VAR_DIR)


def an_app(name: str = "sieve") -> App:
    app = App.objects.create(name=name, created_at=NOON)
    platform, _ = Platform.objects.get_or_create(name="x86_64-pc-linux-gnu")
    AppVersion.objects.create(app=app, platform=platform, version_num=1, created_at=NOON)
    return app


def an_account(email: str = "ada@example.org") -> Account:
    return Account.objects.create(email=email, cross_project_id="0" * 32, created_at=NOON)


def an_input(content: bytes, open_name: str = "in") -> NewFile:
    return NewFile(open_name=open_name, content=content)


def submit_some(*workunits: NewWorkunit, **options: Any) -> Submission:
    return submit(app="sieve", workunits=workunits, now=NOON, **options)


@pytest.mark.django_db
class TestWhatIsWritten:
    """The rows and files of a submission."""

    def test_a_submitted_workunit_is_due_at_once_with_all_its_parameters(self) -> None:
        an_app()
        later = NOON + timedelta(days=1)
        done = submit_some(
            replace(
                GOOD,
                name="first",
                command_line="--from 3",
                min_quorum=2,
                delay_bound=timedelta(days=3, seconds=1.5),
                priority=-4,
                start_after=later,
                meta={"k": [1, "ü"]},
                app_version_num=1,
            )
        )
        row = Workunit.objects.get()
        assert (done.count, done.workunit_ids, done.names) == (1, (row.pk,), ("first",))
        assert row.name == "first"
        assert row.command_line == "--from 3"
        assert (row.min_quorum, row.target_nresults, row.max_total_results) == (2, 2, 10)
        assert (row.delay_bound, row.priority) == (timedelta(days=3, seconds=1.5), -4)
        assert (row.start_after, row.meta, row.app_version_num) == (later, {"k": [1, "ü"]}, 1)
        assert row.outputs == [{"open_name": "out", "max_nbytes": 1000}]
        assert (rows.due_at(row), row.created_at) == (NOON, NOON)
        assert (row.rsc_fpops_est, row.rsc_memory_bound) == (3.6e12, 5e8)

    def test_creation_is_recorded_in_the_ledger(self) -> None:
        an_app()
        done = submit_some(GOOD)
        assert list(
            LedgerEntry.objects.values_list(
                "at", "workunit_id", "result_id", "axis", "source", "target", "because", "by"
            )
        ) == [
            (
                NOON,
                done.workunit_ids[0],
                None,
                Axis.WORKUNIT,
                0,
                WorkunitState.OPEN,
                Because.SUBMITTED,
                Actor.SUBMITTER,
            )
        ]

    def test_a_pending_dependency_count_without_a_batch_is_refused(self) -> None:
        """No batch would ever release the workunit."""
        an_app()
        with pytest.raises(
            BadWorkunits, match=r"pending_dependency_count is 2\..*Hint: leave it out"
        ):
            submit_some(GOOD, replace(GOOD, pending_dependency_count=2))
        assert not Workunit.objects.exists()

    def test_held_workunits_are_not_released(self) -> None:
        an_app()
        submit_some(GOOD, replace(GOOD, held=True))
        assert list(Workunit.objects.order_by("id").values_list("release_state", flat=True)) == [
            ReleaseState.RELEASED,
            ReleaseState.HELD,
        ]

    def test_ids_and_names_are_returned_in_submission_order(self) -> None:
        an_app()
        many = [replace(GOOD, name=f"w{i}", min_quorum=1 + i % 3) for i in range(20)]
        done = submit_some(*many)
        names = dict(Workunit.objects.values_list("id", "name"))
        assert [names[i] for i in done.workunit_ids] == [f"w{i}" for i in range(20)]
        assert list(done.workunit_ids) == sorted(done.workunit_ids)

    def test_generated_names_differ_between_submissions(self) -> None:
        an_app()
        names = {*submit_some(GOOD, GOOD).names, *submit_some(GOOD, GOOD).names}
        assert len(names) == 4
        assert all(name.startswith("sieve_") for name in names)

    def test_equal_input_content_is_stored_once_and_can_be_downloaded(
        self, own_folder: Path
    ) -> None:
        an_app()
        source = own_folder / "data set.txt"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(b"same")
        submit_some(
            replace(GOOD, input_files=(an_input(b"same"), an_input(b"other", "in2"))),
            replace(GOOD, input_files=(NewFile(open_name="in", path=str(source), sticky=True),)),
        )
        stored = {file.name: file for file in File.objects.all()}
        assert len(stored) == 2
        for name, file in stored.items():
            content = storage.download_path(name).read_bytes()
            assert (len(content), file.sha256[:16] in name) == (file.nbytes, True)
        rows = WorkunitFile.objects.order_by("workunit", "position")
        assert [(r.position, r.open_name, r.sticky, r.file.nbytes) for r in rows] == [
            (0, "in", False, 4),
            (1, "in2", False, 5),
            (0, "in", True, 4),
        ]
        assert not any((own_folder / "download").glob("*/.*.staged"))

    def test_known_content_is_reused_and_can_be_referenced_by_its_file_name(self) -> None:
        an_app()
        submit_some(replace(GOOD, input_files=(an_input(b"same"),)))
        known = File.objects.get()
        submit_some(
            replace(GOOD, input_files=(an_input(b"same"),)),
            replace(GOOD, input_files=(NewFile(open_name="in", known_as=known.name),)),
        )
        assert list(WorkunitFile.objects.values_list("file", flat=True)) == [known.pk] * 3

    def test_content_of_a_file_marked_for_deletion_is_stored_as_a_new_file(self) -> None:
        an_app()
        submit_some(replace(GOOD, input_files=(an_input(b"same"),)))
        old = File.objects.get()
        File.objects.update(doomed_at=NOON)
        submit_some(replace(GOOD, input_files=(an_input(b"same"),)))
        new = File.objects.get(doomed_at=None)
        assert new.name != old.name
        assert storage.download_path(new.name).read_bytes() == b"same"


@pytest.mark.django_db
class TestWhatIsRefused:
    """If a submission has a fault, nothing is written."""

    def test_an_unknown_app_is_refused_and_the_error_suggests_a_similar_name(self) -> None:
        an_app("mersenne")
        with pytest.raises(UnknownApp, match=r"There is no app 'mersene'.*did you mean 'mersenne'"):
            submit(app="mersene", workunits=[GOOD], now=NOON)

    def test_a_deprecated_app_is_refused(self) -> None:
        an_app()
        App.objects.update(deprecated=True)
        with pytest.raises(UnknownApp, match="deprecated"):
            submit_some(GOOD)

    def test_all_faults_are_reported_and_nothing_is_written(self) -> None:
        an_app()
        bad = replace(GOOD, min_quorum=3, target_nresults=2)
        with pytest.raises(BadWorkunits) as refusal:
            submit_some(GOOD, bad, replace(bad, rsc_fpops_est=0))
        assert {i: len(f) for i, f in refusal.value.faults.items()} == {1: 1, 2: 2}
        assert "[1] min_quorum (3) is greater than target_nresults (2)." in str(refusal.value)
        assert not Workunit.objects.exists()

    def test_a_duplicate_name_in_one_submission_is_refused(self) -> None:
        an_app()
        with pytest.raises(DuplicateNames, match="given more than once: twin"):
            submit_some(replace(GOOD, name="twin"), replace(GOOD, name="twin"))

    def test_existing_workunit_names_are_refused_and_listed_in_the_error(self) -> None:
        an_app()
        submit_some(replace(GOOD, name="old"))
        with pytest.raises(DuplicateNames, match="already taken: old") as refusal:
            submit_some(replace(GOOD, name="new"), replace(GOOD, name="old"))
        assert refusal.value.names == ("old",)
        assert list(Workunit.objects.values_list("name", flat=True)) == ["old"]
        assert LedgerEntry.objects.count() == 1

    def test_a_name_released_by_a_purge_during_submission_is_used_with_all_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        an_app()
        submit_some(replace(GOOD, name="a"))
        source = tmp_path / "input.txt"
        source.write_bytes(b"by path")
        ask = workunit_rows.raise_for_taken_names

        def purge_and_ask(names: Iterable[str]) -> None:
            Workunit.objects.all().delete()
            ask(names)

        monkeypatch.setattr(workunit_rows, "raise_for_taken_names", purge_and_ask)
        inputs = (an_input(b"by value"), NewFile(open_name="in2", path=str(source)))
        submit_some(replace(GOOD, name="a", input_files=inputs))
        kept = WorkunitFile.objects.filter(workunit__name="a").order_by("position")
        digests = [storage.download_digest(row.file.name).sha256 for row in kept]
        assert digests == [hashlib.sha256(data).hexdigest() for data in (b"by value", b"by path")]
        assert source.read_bytes() == b"by path"

    def test_a_reference_to_an_unknown_file_is_refused(self) -> None:
        an_app()
        with pytest.raises(download_files.UnknownFiles, match="No such file: gone_1"):
            submit_some(replace(GOOD, input_files=(NewFile(open_name="i", known_as="gone_1"),)))

    def test_no_staged_files_remain_after_a_refused_submission(self, own_folder: Path) -> None:
        an_app()
        source = own_folder / "in.txt"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_bytes(b"y")
        submit_some(replace(GOOD, name="old"))
        inputs = (an_input(b"x"), NewFile(open_name="in2", path=str(source)))
        with pytest.raises(DuplicateNames):
            submit_some(replace(GOOD, name="old", input_files=inputs))
        assert not any((own_folder / "download").glob("*/.*.staged"))
        assert not File.objects.exists()

    def test_a_submission_that_fills_the_disk_leaves_no_files_or_rows(
        self, own_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        an_app()
        write, written = os.write, []

        def full(descriptor: int, data: bytes) -> int:
            written.append(data)
            if len(written) > 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(descriptor, data)

        inputs = [replace(GOOD, input_files=(an_input(b"%d" % i),)) for i in range(5)]
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(OSError, match="No space left"):
                submit_some(*inputs)
        assert not [path for path in (own_folder / "download").rglob("*") if path.is_file()]
        assert not Workunit.objects.exists()
        assert submit_some(*inputs).count == len(inputs)


@pytest.mark.django_db
class TestBatches:
    def test_a_batch_is_created_and_a_later_submission_adds_to_it(self) -> None:
        app, ada = an_app(), an_account()
        first = submit_some(GOOD, batch="b", submitter=ada)
        second = submit_some(GOOD, batch="b", submitter=ada)
        batch = Batch.objects.get()
        assert (first.batch_id, second.batch_id) == (batch.pk, batch.pk)
        assert (batch.app, batch.state) == (app, Batch.State.IN_PROGRESS)
        assert batch.workunits.count() == 2

    def test_two_submitters_can_use_the_same_batch_name(self) -> None:
        an_app()
        one = submit_some(GOOD, batch="b", submitter=an_account("a@example.org"))
        two = submit_some(GOOD, batch="b", submitter=an_account("b@example.org"))
        assert one.batch_id != two.batch_id

    def test_a_batch_without_a_submitter_is_refused(self) -> None:
        an_app()
        with pytest.raises(BatchRefused, match="has no submitter"):
            submit_some(GOOD, batch="b")

    def test_a_submission_into_an_aborted_batch_is_refused(self) -> None:
        an_app()
        ada = an_account()
        submit_some(GOOD, batch="b", submitter=ada)
        Batch.objects.update(state=Batch.State.ABORTED)
        with pytest.raises(BatchRefused, match="Batch 'b' is aborted"):
            submit_some(GOOD, batch="b", submitter=ada)

    def test_a_submission_of_another_app_into_a_batch_is_refused(self) -> None:
        an_app()
        an_app("other")
        ada = an_account()
        submit_some(GOOD, batch="b", submitter=ada)
        with pytest.raises(BatchRefused, match="has workunits of app sieve, not other"):
            submit(app="other", workunits=[GOOD], batch="b", submitter=ada, now=NOON)


@pytest.mark.django_db
class TestWarnings:
    """Submissions that are accepted with a warning."""

    def test_a_plain_submission_returns_no_warnings(self) -> None:
        an_app()
        assert submit_some(GOOD).warnings == ()

    def test_a_short_deadline_returns_a_warning_based_on_the_median_host_speed(self) -> None:
        an_app()
        ada = an_account()
        for fpops in (1e9, 3e9):
            Host.objects.create(account=ada, rpc_at=NOON, created_at=NOON, p_fpops=fpops)
        tight = replace(GOOD, rsc_fpops_est=7.2e12, delay_bound=timedelta(hours=2))
        (warning,) = submit_some(tight).warnings
        assert "run time (1 h at 2.0 GFLOPS, the median of the newest 2 hosts)" in warning

    def test_a_submission_to_an_app_without_a_version_returns_a_warning(self) -> None:
        App.objects.create(name="sieve", created_at=NOON)
        assert "has no version yet" in submit_some(GOOD).warnings[0]


@pytest.mark.django_db
@pytest.mark.parametrize("with_inputs", [False, True])
def test_submitting_any_number_of_workunits_uses_the_same_statements(*, with_inputs: bool) -> None:
    an_app()
    ada = an_account()
    counts = []
    for size in (1, 1000):
        workunits = [
            replace(
                GOOD,
                min_quorum=2 - index % 2,
                input_files=(an_input(b"%d of %d" % (index % 50, size)),) if with_inputs else (),
            )
            for index in range(size)
        ]
        with CaptureQueriesContext(
            connection,
        ) as captured:
            submit_some(*workunits, batch=f"of {size}", submitter=ada)
        counts.append([q["sql"].split()[0] for q in captured.captured_queries])
    assert counts[0] == counts[1]
    statements = [word for word in counts[0] if word not in {"SAVEPOINT", "RELEASE"}]
    # One statement reads the active hosts, because the quorum is 2.
    assert len(statements) == (12 if with_inputs else 8)


@contextmanager
def another_connection() -> Iterator[psycopg.Connection]:
    params = connection.get_connection_params()
    wanted = ("dbname", "user", "password", "host", "port")
    with psycopg.connect(**{key: params[key] for key in wanted if params.get(key)}) as other:
        yield other


def in_thread(call: Callable[[], object]) -> threading.Thread:
    def run() -> None:
        try:
            call()
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def wait_until_blocked(other: psycopg.Connection) -> None:
    """Return once some session waits for a lock; fail after ten seconds."""
    # Within a transaction, pg_stat_activity stays as it was at the first read.
    other.autocommit = True
    for _ in range(1000):
        row = other.execute(
            "SELECT count(*), pg_sleep(0.01) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        ).fetchone()
        if row and row[0]:
            return
    pytest.fail("No session waits for a lock.")


MARK = "UPDATE file SET doomed_at = now() WHERE id = %s AND doomed_at IS NULL"
REFERENCES = "SELECT count(*) FROM workunit_file WHERE file_id = %s"


@pytest.mark.django_db(transaction=True)
class TestTheDeleterAtTheSameMoment:
    """One transaction marks a file for deletion while another submits its content again."""

    def test_content_marked_for_deletion_during_submission_is_stored_as_a_new_file(self) -> None:
        an_app()
        submit_some(replace(GOOD, input_files=(an_input(b"same"),)))
        old = File.objects.get()
        WorkunitFile.objects.all().delete()
        with another_connection() as deleter:
            deleter.execute("SELECT FROM file WHERE id = %s FOR NO KEY UPDATE", [old.pk])
            deleter.execute(MARK, [old.pk])
            again = replace(GOOD, input_files=(an_input(b"same"),))
            submitting = in_thread(lambda: submit_some(again))
            with another_connection() as watcher:
                wait_until_blocked(watcher)
            deleter.commit()
            submitting.join(10)
        new = WorkunitFile.objects.get().file
        assert (new.pk != old.pk, new.doomed_at) == (True, None)
        storage.delete_downloads([old.name])
        assert storage.download_path(new.name).read_bytes() == b"same"

    def test_the_file_deleter_waits_for_a_submission_and_then_sees_its_reference(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        an_app()
        submit_some(replace(GOOD, input_files=(an_input(b"same"),)))
        old = File.objects.get()
        WorkunitFile.objects.all().delete()
        locked, go_on = threading.Event(), threading.Event()
        keep = download_files.keep

        def keep_and_wait(*args: Any, **options: Any) -> Any:
            kept = keep(*args, **options)
            locked.set()
            assert go_on.wait(10)
            return kept

        monkeypatch.setattr(download_files, "keep", keep_and_wait)
        again = replace(GOOD, input_files=(an_input(b"same"),))
        submitting = in_thread(lambda: submit_some(again))
        assert locked.wait(10)
        with another_connection() as deleter, another_connection() as watcher:
            seen: list[int] = []

            def look_before_marking() -> None:
                deleter.execute("SELECT FROM file WHERE id = %s FOR NO KEY UPDATE", [old.pk])
                row = deleter.execute(REFERENCES, [old.pk]).fetchone()
                assert row is not None
                seen.append(row[0])

            looking = in_thread(look_before_marking)
            wait_until_blocked(watcher)
            assert seen == []
            go_on.set()
            looking.join(10)
            submitting.join(10)
        assert seen == [1]
        assert WorkunitFile.objects.get().file_id == old.pk

    def test_concurrent_submissions_of_the_same_new_content_share_its_file(self) -> None:
        an_app()
        again = [replace(GOOD, input_files=(an_input(b"%d" % i),)) for i in range(30)]
        threads = [in_thread(lambda: submit_some(*again)) for _ in range(4)]
        for thread in threads:
            thread.join(20)
        assert (File.objects.count(), WorkunitFile.objects.count()) == (30, 120)
        for file in File.objects.all():
            assert len(storage.download_path(file.name).read_bytes()) == file.nbytes


def test_physical_names_contain_the_digest_and_the_row_id() -> None:
    sha = "ab" * 32
    names = {
        download_files.physical_name(hint, sha, n) for hint in ("in", "in.txt") for n in (1, 2)
    }
    assert names == {
        f"in_{sha[:16]}_1",
        f"in_{sha[:16]}_2",
        f"in_{sha[:16]}_1.txt",
        f"in_{sha[:16]}_2.txt",
    }


@pytest.mark.parametrize("hint", ["", "..", "../../x", "a b%c.tar.gz", ".hidden", "ü" * 300, "x."])
def test_physical_names_are_valid_for_clients(hint: str) -> None:
    name = download_files.physical_name(hint, "0" * 64, 36**5)
    storage.check_name(name)
    assert json.dumps(name) == f'"{name}"'


@pytest.mark.django_db
def test_an_empty_submission_returns_an_empty_result() -> None:
    an_app()
    assert submit_some() == Submission(None, (), (), ())


@pytest.mark.django_db
class TestForWhomWorkIs:
    """Targeted and broadcast work, and the settings of the app that they need."""

    def test_targets_keywords_and_size_classes_are_stored(self) -> None:
        app, ada = an_app(), an_account()
        App.objects.filter(pk=app.pk).update(n_size_classes=3)
        host = Host.objects.create(account=ada, rpc_at=NOON, created_at=NOON)
        team = Team.objects.create(name="Team", created_at=NOON)
        submit_some(
            replace(GOOD, target_host=host.pk, keywords="3,17", size_class=2),
            replace(GOOD, target_account=ada.pk, max_timeouts=4),
            replace(GOOD, target_team=team.pk, rsc_bandwidth_bound=5e4),
            GOOD,
        )
        rows = list(Workunit.objects.order_by("id"))
        assert [row.target_host_id for row in rows] == [host.pk, None, None, None]
        assert [row.target_account_id for row in rows] == [None, ada.pk, None, None]
        assert [row.target_team_id for row in rows] == [None, None, team.pk, None]
        assert (rows[0].keywords, rows[0].size_class) == ("3,17", 2)
        assert (rows[1].max_timeouts, rows[2].rsc_bandwidth_bound) == (4, 5e4)
        assert not any(row.broadcast for row in rows)

    def test_unknown_targets_are_refused(self) -> None:
        an_app()
        kept = Host.objects.create(account=an_account(), rpc_at=NOON, created_at=NOON)
        gone = Host.objects.create(
            account=kept.account, rpc_at=NOON, created_at=NOON, merged_into=kept
        )
        for change, words in (
            ({"target_host": gone.pk}, f"Host {gone.pk} was merged into host {kept.pk}."),
            ({"target_host": 10**9}, "There is no host 1000000000."),
            ({"target_account": 10**9}, "There is no account 1000000000."),
            ({"target_team": 10**9}, "There is no team 1000000000."),
        ):
            with pytest.raises(BadWorkunits, match=words):
                submit_some(replace(GOOD, **change))
        assert not Workunit.objects.exists()

    def test_a_submission_targeted_at_a_denied_host_returns_a_warning(self) -> None:
        an_app()
        host = Host.objects.create(account=an_account(), rpc_at=NOON, created_at=NOON, denied=True)
        (warning,) = submit_some(replace(GOOD, target_host=host.pk)).warnings
        assert f"Host {host.pk} is denied work" in warning

    def test_a_broadcast_requires_an_end_time_and_the_trivial_validator(self) -> None:
        an_app()
        everybody = replace(GOOD, broadcast=True)
        with pytest.raises(BadWorkunits) as refusal:
            submit_some(everybody)
        message = "\n".join(str(fault) for fault in refusal.value.faults[0])
        assert "A broadcast has no end." in message
        assert "has the validator 'bitwise'" in message
        App.objects.update(validator="trivial")
        submit_some(replace(everybody, end_before=NOON + timedelta(days=1)))
        assert Workunit.objects.get().broadcast

    def test_a_single_result_for_an_app_with_adaptive_replication_is_accepted(self) -> None:
        app = an_app()
        App.objects.filter(pk=app.pk).update(target_nresults=2)
        submit_some(GOOD)
        row = Workunit.objects.get()
        assert (row.target_nresults, row.max_total_results) == (1, 10)


def test_rows_of_alternating_shapes_have_their_own_values():
    writer = workunit_rows.WorkunitWriter(honors_priorities=True)
    one, two = NewWorkunit(priority=1), NewWorkunit(priority=2, min_quorum=2, hold_code=-7)
    rows = [writer.prepare(each, "n", ()) for each in (one, two, two, one)]
    assert [row.priority for row in rows] == [1, 2, 2, 1]
    assert [row.hold_code for row in rows] == [None, -7, -7, None]
    assert rows[0].shared_columns == rows[3].shared_columns != rows[1].shared_columns
    assert [row.operations for row in rows] == [3.6e12, 7.2e12, 7.2e12, 3.6e12]
