"""A dataset has each workunit's records exactly once, despite crashes."""

from __future__ import annotations

import csv
import json
import os
import threading

import pytest
from django.db import connection

from daemons import assimilator
from daemons.science import dataset
from daemons.science.interfaces import Records
from scheduler import storage
from scheduler.models import ScienceFailure, Workunit
from tests import rows
from tests.database.daemons.test_assimilator import failed, finished
from tests.database.passes import a_pass, statements_of

pytestmark = pytest.mark.django_db


def an_app(**options):
    return rows.an_app("sums", assimilator="dataset", assimilator_options=options)


def parts(settings, name="dataset", suffix="jsonl"):
    return sorted((settings.VAR_DIR / "results/sums" / name).glob(f"[!.]*.{suffix}"))


def lines(settings, **where):
    return [
        json.loads(line)
        for path in parts(settings, **where)
        for line in path.read_text().splitlines()
    ]


class Crash(BaseException):
    """Stands for the end of the daemon's process."""


def test_each_record_is_written_as_a_line_with_the_key_of_its_workunit(settings):
    app = an_app()
    one = finished(app, name="a", data=b'{"sum": 3}')
    two = finished(app, name="b", data=b'[{"sum": 4}, {"sum": 5}]')
    three = finished(app, name="c", data='{"ø": 6}\n\n{"sum": 7}\n'.encode())
    assert a_pass(assimilator).done == {"assimilated": 3}
    assert lines(settings) == [
        {"_key": f"Manyhands/{one.pk}", "_workunit": "a", "sum": 3},
        {"_key": f"Manyhands/{two.pk}", "_workunit": "b", "sum": 4},
        {"_key": f"Manyhands/{two.pk}", "_workunit": "b", "sum": 5},
        {"_key": f"Manyhands/{three.pk}", "_workunit": "c", "ø": 6},
        {"_key": f"Manyhands/{three.pk}", "_workunit": "c", "sum": 7},
    ]


@pytest.mark.parametrize("where", ["before the files", "before the sync", "before settling"])
def test_a_crash_before_settlement_does_not_duplicate_records(where, settings, monkeypatch):
    app = an_app()
    workunits = [finished(app, data=b'{"sum": %d}' % number) for number in range(3)]

    def crash(*_args, **_options):
        raise Crash

    room, name = {
        "before the files": (dataset, "put"),
        "before the sync": (storage, "sync_results"),
        "before settling": (assimilator, "_settle"),
    }[where]
    with monkeypatch.context() as patch:
        patch.setattr(room, name, crash)
        with pytest.raises(Crash):
            a_pass(assimilator)
    assert len(lines(settings)) == (0 if where == "before the files" else 3)
    assert Workunit.objects.filter(assimilate_state=1).count() == 3
    # The lease has expired, and more workunits are finished, so the batch is a different one.
    workunits.append(finished(app, data=b'{"sum": 3}'))
    a_pass(assimilator, now=rows.hours(2), limit=2)
    a_pass(assimilator, now=rows.hours(2), limit=2)
    assert Workunit.objects.filter(assimilate_state=1).count() == 0
    assert sorted(line["sum"] for line in lines(settings)) == [0, 1, 2, 3]


def test_a_crash_while_writing_a_part_keeps_the_old_part(settings, monkeypatch):
    app = an_app()
    finished(app, data=b'{"sum": 0}')
    a_pass(assimilator)
    finished(app, data=b'{"sum": 1}')

    def crash(_descriptor):
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", crash)
        with pytest.raises(Crash):
            a_pass(assimilator)
    assert [line["sum"] for line in lines(settings)] == [0]
    a_pass(assimilator, now=rows.hours(2))
    assert [line["sum"] for line in lines(settings)] == [0, 1]


def test_record_is_written_once_after_a_lost_lease(settings, monkeypatch):
    """Two processes write the same records; the second finds the lines of the first."""
    finished(an_app(), data=b'{"sum": 1}')
    settle = assimilator._settle

    def another_comes_first(*args, **options):
        monkeypatch.setattr(assimilator, "_settle", settle)
        a_pass(assimilator, now=rows.hours(2))
        return settle(*args, **options)

    monkeypatch.setattr(assimilator, "_settle", another_comes_first)
    assert a_pass(assimilator).done == {"settled by another": 1}
    assert [line["sum"] for line in lines(settings)] == [1]


@pytest.mark.django_db(transaction=True)
def test_concurrent_assimilators_write_every_record_once(settings):
    app = an_app()
    for number in range(60):
        finished(app, data=b'{"sum": %d}' % number)

    def work():
        try:
            while a_pass(assimilator, limit=5).seen:
                pass
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Workunit.objects.filter(assimilate_state=2).count() == 60
    assert sorted(line["sum"] for line in lines(settings)) == list(range(60))


def test_each_part_contains_a_fixed_range_of_workunit_ids(settings):
    app = an_app(part_size=2, name="small")
    workunits = [finished(app, data=b"{}") for _ in range(4)]
    a_pass(assimilator)
    expected = sorted({f"{workunit.pk // 2:09d}.jsonl" for workunit in workunits})
    assert [path.name for path in parts(settings, name="small")] == expected


def test_a_csv_dataset_has_the_columns_named_in_the_options(settings):
    app = an_app(format="csv", columns=["x", "note"])
    one = finished(app, name="a", data=b'x,note\n1,"a, ""b"""\n2,\n')
    a_pass(assimilator)
    two = finished(app, name="b", data=b"x,note\r\n3,c\r\n")
    a_pass(assimilator)
    (path,) = parts(settings, suffix="csv")
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [
            ["_key", "_workunit", "x", "note"],
            [f"Manyhands/{one.pk}", "a", "1", 'a, "b"'],
            [f"Manyhands/{one.pk}", "a", "2", ""],
            [f"Manyhands/{two.pk}", "b", "3", "c"],
        ]


@pytest.mark.parametrize(
    ("options", "data", "said"),
    [
        ({}, b"42", "contains no JSON objects"),
        ({}, b"sum=42", "is not JSON"),
        ({}, b'{"sum": NaN}', "NaN is not a JSON number"),
        ({}, b'{"_key": "x"}', "A record has a field '_key'"),
        ({"output": "other"}, b"{}", "has no output 'other'"),
        ({"format": "csv", "columns": ["x"]}, b"y\n1\n", "has the columns ['y']"),
        ({"format": "csv", "columns": ["x"]}, b"x\n1,2\n", "does not have one field per column"),
        ({"format": "csv", "columns": ["x"]}, b'x\n"1\n2"\n', "contains a line break"),
    ],
)
def test_invalid_records_fail_only_their_own_workunit(options, data, said, settings):
    app = an_app(**options)
    bad = finished(app, data=data)
    good = finished(rows.an_app())
    a_pass(assimilator)
    bad.refresh_from_db()
    good.refresh_from_db()
    assert (bad.assimilate_state, good.assimilate_state) == (1, 2)
    assert said in ScienceFailure.objects.get().error
    assert parts(settings) == []


def test_failed_workunits_are_recorded_only_if_the_option_is_set(settings):
    app = an_app()
    failed(app)
    a_pass(assimilator)
    assert lines(settings) == []
    rows.update(app, assimilator_options={"failed": "record"})
    gone = failed(app, name="gone")
    a_pass(assimilator)
    expected = {"_key": f"Manyhands/{gone.pk}", "_workunit": "gone", "_errors": ["CANCELLED"]}
    assert lines(settings) == [expected]


def test_columns_that_differ_from_the_existing_part_are_a_failure(settings):
    app = an_app(format="csv", columns=["x"])
    finished(app, data=b"x\n1\n")
    a_pass(assimilator)
    rows.update(app, assimilator_options={"format": "csv", "columns": ["y"]})
    bad = finished(app, data=b"y\n1\n")
    a_pass(assimilator)
    bad.refresh_from_db()
    assert bad.assimilate_state == 1
    assert "columns differ from the dataset's" in ScienceFailure.objects.get().error


def test_assimilating_a_batch_uses_two_statements_and_at_most_two_parts(settings):
    app = an_app(part_size=1_000_000)
    for _ in range(100):
        finished(app, data=b'{"sum": 1}')
    assert statements_of(lambda: a_pass(assimilator)) == 2
    assert len(parts(settings)) <= 2


def test_a_key_that_is_a_prefix_of_another_key_is_not_confused_with_it():
    def of(number):
        mark = b'{"_key": "P/%d", ' % number
        return Records("a", "p", number, mark, b"", (mark + b'"x": 1}\n',))

    old = dataset.merged(b"", [of(1), of(11)])
    assert dataset.merged(old, [of(1)]).splitlines() == [
        *of(11).lines[0].splitlines(),
        of(1).lines[0].rstrip(),
    ]
