"""Streamed submissions: the rows, concurrent submissions and cut connections."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.files import unused_files
from scheduler.models import (
    App,
    Batch,
    File,
    FileHold,
    IdempotencyKey,
    LedgerEntry,
    Submitter,
    Workunit,
    WorkunitFile,
)
from scheduler.work.submission import bulk
from scheduler.work.submission.facts import NewBatch
from scheduler.work.submission.rules.work_from_dicts import new_workunit
from scheduler.work.submission.submit import submit
from tests.conftest import NOON
from tests.rows import an_account, an_app, an_app_version

OUT = {"outputs": ["out"]}


@pytest.fixture
def app():
    app = an_app("sieve")
    an_app_version(app)
    return app


def lines_of(workunits):
    return (bulk.Line(number, one) for number, one in enumerate(workunits, 1))


def stream(workunits, submitter=None, *, key=None, batch=None, digest="d", now=NOON):
    return bulk.submit_lines(
        bulk.Head(app="sieve", batch=batch),
        lines_of(workunits),
        submitter=submitter,
        key=None if key is None else bulk.Key(key, lambda: digest),
        now=now,
    )


def at_once(*calls):
    """Run functions at the same time; return their values or exceptions, in order."""
    said = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def run(place, call):
        try:
            start.wait(10)
            said[place] = call()
        except Exception as error:  # noqa: BLE001  it is what is looked at
            said[place] = error
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return said


# All ways of submission


NAMES = st.text("abcdefgh", min_size=8, max_size=8)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
WORKUNITS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "outputs": st.just(["out"])},
        optional={
            "command_line": WORDS,
            "min_quorum": st.integers(1, 4),
            "rsc_fpops_est": st.floats(1e6, 1e13),
            "delay_bound_seconds": st.integers(3600, 10**6),
            "priority": st.integers(-(2**31) + 1, 2**31 - 1),
            "held": st.booleans(),
            "meta": st.dictionaries(WORDS, st.one_of(WORDS, st.none(), st.booleans()), max_size=2),
            "start_after": st.just("2026-02-01T12:00:00+02:00"),
            "requested_cpus": st.floats(0, 64),
            "requested_gpus": st.integers(0, 8),
            "input_files": st.lists(
                st.fixed_dictionaries(
                    {"open_name": NAMES, "content": WORDS, "sticky": st.booleans()}
                ),
                max_size=2,
                unique_by=lambda file: file["open_name"],
            ),
        },
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda one: one["name"],
)


def rows():
    """Return the rows that a submission wrote, without their ids, and delete them."""
    workunits = [
        {k: v for k, v in row.items() if k not in {"id", "batch_id"}}
        for row in Workunit.objects.order_by("name").values()
    ]
    inputs = list(
        WorkunitFile.objects.order_by("workunit__name", "position").values_list(
            "workunit__name", "position", "file__sha256", "open_name", "copy_file", "sticky"
        )
    )
    births = list(
        LedgerEntry.objects.order_by("id").values_list("axis", "source", "target", "because", "by")
    )
    for model in (WorkunitFile, Workunit, FileHold, Batch):
        model.objects.all().delete()
    LedgerEntry.objects.all().delete()
    return workunits, inputs, births


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
class TestTheSameRows:
    @settings(
        max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
    )
    @given(WORKUNITS)
    def test_all_ways_of_submitting_write_the_same_rows(self, described):
        submit(app="sieve", workunits=[new_workunit(one) for one in described], now=NOON)
        as_objects = rows()
        stream(described)
        as_dicts = rows()
        text = [json.dumps(one).encode() for one in described]
        bulk.submit_lines(
            bulk.Head(app="sieve", batch=None),
            (bulk.read_line(number, line) for number, line in enumerate(text, 1)),
            submitter=None,
            now=NOON,
        )
        assert as_objects == as_dicts == rows()

    def test_other_name_of_a_field_replaces_the_default_of_the_app(self):
        App.objects.update(workunit_defaults={"outputs": ["out"], "max_error_results": 7})
        stream([{"max_fails": 0}, {}])
        limits = Workunit.objects.order_by("id").values_list("max_error_results", flat=True)
        assert list(limits) == [0, 7]

    def test_start_offset_gives_each_workunit_its_own_start(self):
        fields = {**OUT, "start_after": "2026-02-01T12:00:00Z", "start_offset_seconds": 3600}
        stream([fields] * 40)
        starts = list(Workunit.objects.values_list("start_after", flat=True))
        first = datetime(2026, 2, 1, 12, tzinfo=UTC)
        assert all(first <= start <= first + timedelta(hours=1) for start in starts)
        assert all(start.microsecond % 1000 == 0 for start in starts)
        assert len(set(starts)) > 30

    def test_ids_beyond_four_bytes_are_supported(self):
        with connection.cursor() as cursor:
            cursor.execute("SELECT setval(pg_get_serial_sequence('workunit', 'id'), %s)", [2**33])
            cursor.execute("SELECT setval(pg_get_serial_sequence('file', 'id'), %s)", [2**34])
        stream([{**OUT, "input_files": [{"open_name": "in", "content": "x"}]}])
        ref = WorkunitFile.objects.get()
        assert (ref.workunit_id, ref.file_id) == (2**33 + 1, 2**34 + 1)
        assert LedgerEntry.objects.get().workunit_id == 2**33 + 1


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
@pytest.mark.parametrize("own", [False, True])
def test_a_chunk_of_any_size_uses_the_same_statements(own):
    ada = an_account("ada", is_superuser=True)
    counts = []
    for size in (1, 400):
        work = [
            {**OUT, "input_files": [{"open_name": "in", "content": f"{size} {own * n}"}]}
            for n in range(size)
        ]
        with CaptureQueriesContext(connection) as captured:
            stream(work, ada, key=f"of-{size}", batch=NewBatch(name=f"of {size}"))
        counts.append(len(captured))
    assert counts[0] == counts[1]


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
def test_all_faults_are_counted_when_whole_chunks_are_unreadable():
    texts = [b"{}"] + [b"unreadable"] * 1300 + [json.dumps(OUT).encode(), b"the last"]
    lines = (bulk.read_line(number, text) for number, text in enumerate(texts, 1))
    with pytest.raises(bulk.BadLines, match=r"1301 faults in 1303 workunits") as refused:
        bulk.submit_lines(bulk.Head(app="sieve", batch=None), lines, submitter=None, now=NOON)
    assert refused.value.count == 1301
    assert not Workunit.objects.exists()


# Concurrent submissions


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("app")
class TestAtTheSameTime:
    def test_concurrent_submissions_in_opposite_order_store_each_content_once(self):
        ada, bob = (an_account(name, is_superuser=True) for name in ("ada", "bob"))
        work = [
            {**OUT, "input_files": [{"open_name": "in", "content": f"{n}"}]} for n in range(1200)
        ]
        replies = at_once(lambda: stream(work, ada), lambda: stream(work[::-1], bob))
        assert [told.status for told in replies] == [201, 201]
        assert (File.objects.count(), Workunit.objects.count()) == (1200, 2400)
        assert not File.objects.exclude(doomed_at=None).exists()

    def test_equal_names_in_opposite_order_are_taken_by_one_submission(self):
        ada = an_account("ada", is_superuser=True)
        work = [{**OUT, "name": f"w{n}"} for n in range(300)]
        replies = at_once(lambda: stream(work, ada), lambda: stream(work[::-1], ada))
        assert sorted(type(one).__name__ for one in replies) == ["DuplicateNames", "Outcome"]
        refused = next(one for one in replies if isinstance(one, Exception))
        assert refused.count == 300
        assert Workunit.objects.count() == 300

    def test_concurrent_submissions_cannot_exceed_the_quota(self):
        bob = an_account("bob")
        Submitter.objects.create(
            account=bob, all_apps=True, max_unfinished_workunits=300, created_at=NOON
        )
        work = [OUT] * 200
        calls = [lambda name=name: stream(work, bob, batch=NewBatch(name=name)) for name in "abc"]
        replies = at_once(*calls)
        assert sorted(type(one).__name__ for one in replies) == ["Outcome"] + ["QuotaExceeded"] * 2
        assert Workunit.objects.count() == 200

    def test_two_concurrent_requests_with_one_key_are_carried_out_once(self):
        ada = an_account("ada", is_superuser=True)
        work = [{**OUT, "input_files": [{"open_name": "in", "content": f"{n}"}]} for n in range(50)]
        call = lambda: stream(work, ada, key="k", batch=NewBatch())  # noqa: E731  three times
        replies = at_once(call, call, call)
        assert len({json.dumps(told.answer, sort_keys=True) for told in replies}) == 1
        assert sorted(told.replayed for told in replies) == [False, True, True]
        assert Workunit.objects.count() == 50
        assert Batch.objects.count() == IdempotencyKey.objects.count() == 1

    def test_no_transaction_is_open_while_lines_are_read(self):
        ada = an_account("ada", is_superuser=True)
        seen = []

        def slow():
            for number in range(1100):
                seen.append(connection.in_atomic_block)
                yield bulk.Line(number, OUT)

        bulk.submit_lines(bulk.Head(app="sieve", batch=None), slow(), submitter=ada, now=NOON)
        assert (len(seen), any(seen)) == (1100, False)


# Interrupted submissions


class GoneAway(Exception):
    """Raised when the client has gone away."""


@pytest.mark.django_db
@pytest.mark.usefixtures("app")
class TestHalfWay:
    WORK = [{**OUT, "input_files": [{"open_name": "in", "content": f"{n}"}]} for n in range(1200)]

    def cut(self):
        yield from lines_of(self.WORK[:1100])
        raise GoneAway

    def test_an_interrupted_submission_leaves_no_rows(self):
        ada = an_account("ada", is_superuser=True)
        with pytest.raises(GoneAway):
            bulk.submit_lines(
                bulk.Head(app="sieve", batch=NewBatch()), self.cut(), submitter=ada, now=NOON
            )
        assert not Workunit.objects.exists()
        assert not Batch.objects.exists()
        assert not FileHold.objects.exists()
        assert not File.objects.filter(doomed_at=None).exists()

    def test_files_left_by_a_crash_are_marked_for_deletion_when_their_holds_expire(
        self, monkeypatch
    ):
        ada = an_account("ada", is_superuser=True)
        monkeypatch.setattr("scheduler.files.file_holds.Holds.abandon", lambda *_, **__: None)
        with pytest.raises(GoneAway):
            bulk.submit_lines(
                bulk.Head(app="sieve", batch=None), self.cut(), submitter=ada, now=NOON
            )
        held = FileHold.objects.first()
        assert FileHold.objects.count() == File.objects.count() == 1000
        assert unused_files.drop_past_holds(NOON, 500) == 0
        assert unused_files.drop_past_holds(held.until, 500) == 1000
        assert not File.objects.filter(doomed_at=None).exists()

    def test_a_submission_is_refused_if_its_files_are_marked_for_deletion_meanwhile(self):
        def marked_rows():
            yield from lines_of(self.WORK[:600])
            File.objects.update(doomed_at=NOON)

        with pytest.raises(bulk.download_files.FileInMotion, match="Hint: submit again"):
            bulk.submit_lines(
                bulk.Head(app="sieve", batch=None), marked_rows(), submitter=None, now=NOON
            )
        assert not Workunit.objects.exists()
