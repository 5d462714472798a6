"""Failing science code of one app harms neither the app's results nor other apps."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from daemons import poison, transitioner, validator
from daemons.science import comparison, worker
from daemons.tally import Shard
from daemons.validator import settling, turns
from scheduler import storage
from scheduler.models import ResultFile, ScienceFailure, Workunit
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, moves, statements_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("targets_allowed")]

MOODY = "python:tests.database.moody.Moody"
QUICK = timedelta(seconds=0.75)


@pytest.fixture(autouse=True)
def fresh_memory(monkeypatch):
    monkeypatch.setattr(turns, "_hangs", {})
    monkeypatch.setattr(turns, "_suspended_until", {})


@pytest.fixture(autouse=True, scope="module")
def no_worker_is_left():
    yield
    worker.stop()


def an_app(**fields):
    return rows.an_app(**{"validator": MOODY, "science_time_limit": timedelta(seconds=20)} | fields)


def asking(*texts, app, words="", **fields):
    """Create a workunit with a result for each text, its output; None means no output."""
    workunit = rows.a_workunit(app, need_validate=True, transition_at=None, **fields)
    states = words.split() or ["success"] * len(texts)
    results = [
        rows.a_result(
            workunit,
            word,
            output=None if text is None else text.encode(),
            uploaded=text is not None,
        )
        for text, word in zip(texts, states, strict=True)
    ]
    return workunit, results


def states(results):
    for result in results:
        result.refresh_from_db()
    return [(result.outcome, result.validate_state) for result in results]


def refreshed(workunit):
    workunit.refresh_from_db()
    return workunit


GOOD, WRONG, OPEN, ERROR = (1, 1), (1, 2), (1, 0), (6, 2)


# Judging


def test_results_that_science_code_groups_together_are_valid_and_get_credit():
    workunit, results = asking("apple", "bread", "air", app=an_app())
    tally = a_pass(validator)
    assert states(results) == [GOOD, WRONG, GOOD]
    refreshed(workunit)
    assert workunit.canonical_result_id == results[0].pk
    assert not workunit.need_validate
    assert workunit.lease_until is None
    assert rows.due_at(workunit) == NOON
    assert moves(workunit) == ["workunit: OPEN→CANONICAL"]
    assert tally.done["results paid"] == 2


def test_a_late_success_is_compared_only_with_the_canonical_result():
    app = an_app()
    workunit, results = asking("apple", "ant", "bread", app=app, words="valid success success")
    rows.settled(workunit, results[0])
    a_pass(validator)
    assert states(results) == [GOOD, GOOD, WRONG]


@pytest.mark.parametrize("text", ["bad", "nothing", None])
def test_a_result_with_unreadable_output_is_a_validate_error_and_is_replaced(text):
    workunit, results = asking("apple", text, app=an_app())
    a_pass(validator)
    assert states(results) == [OPEN, ERROR]
    assert not ScienceFailure.objects.exists()
    a_pass(transitioner)
    assert refreshed(workunit).results.count() == 3


def test_a_result_whose_output_file_is_missing_is_a_validate_error():
    _workunit, results = asking("apple", "ant", app=an_app())
    storage.upload_path(ResultFile.objects.get(result=results[1]).name).unlink()
    a_pass(validator)
    assert states(results) == [OPEN, ERROR]


def test_unavailable_disk_invalidates_no_result(settings, tmp_path):
    workunit, results = asking("apple", "ant", app=an_app())
    settings.VAR_DIR = tmp_path / "not mounted"
    tally = a_pass(validator)
    assert states(results) == [OPEN, OPEN]
    assert tally.done == {"put off": 1}
    assert refreshed(workunit).validate_after == NOON + timedelta(seconds=10)


def test_missing_canonical_output_does_not_invalidate_other_results():
    app = an_app()
    workunit, results = asking("apple", "ant", app=app, words="valid success")
    rows.settled(workunit, results[0])
    storage.upload_path(ResultFile.objects.get(result=results[0]).name).unlink()
    a_pass(validator)
    assert states(results) == [GOOD, OPEN]
    assert "CanonicalUnreadable" in ScienceFailure.objects.get().error


def test_a_workunit_that_already_failed_is_not_validated():
    workunit, results = asking("apple", "ant", app=an_app())
    rows.settled(workunit)
    a_pass(validator)
    assert states(results) == [OPEN, OPEN]
    assert not refreshed(workunit).need_validate


def test_science_code_can_mark_a_valid_result_as_a_runtime_outlier():
    _workunit, results = asking("a", "a slow", "b slow", app=an_app())
    a_pass(validator)
    assert states(results) == [GOOD, GOOD, WRONG]
    assert [result.runtime_outlier for result in results] == [False, True, False]


def test_a_suspicious_result_is_valid_only_with_a_matching_sibling_result():
    workunit, results = asking("a odd", app=an_app(), min_quorum=1, target_nresults=1)
    a_pass(validator)
    assert states(results) == [(1, 4)]
    assert refreshed(workunit).canonical_result_id is None
    a_pass(transitioner)
    assert workunit.results.count() == 2
    workunit.results.filter(server_state=2).delete()
    results.append(rows.a_result(workunit, "success", output=b"apple", uploaded=True))
    rows.update(workunit, need_validate=True)
    a_pass(validator)
    assert states(results) == [GOOD, GOOD]
    assert refreshed(workunit).canonical_result_id == results[0].pk


# Failing


@pytest.mark.parametrize(
    ("text", "said"),
    [("raise", "this cannot be"), ("crash", "exit status 9"), ("hang", "did not answer")],
)
def test_failing_science_puts_the_workunit_off_without_invalid_results(text, said, caplog):
    app = an_app(science_time_limit=QUICK)
    workunit, results = asking("apple", text, app=app)
    tally = a_pass(validator)
    assert states(results) == [OPEN, OPEN]
    assert tally.done == {"put off": 1}
    refreshed(workunit)
    assert workunit.need_validate
    assert workunit.lease_until is None
    assert workunit.validate_after == NOON + timedelta(seconds=10)
    assert said in ScienceFailure.objects.get(subject_id=workunit.pk).error
    assert [r.workunit for r in caplog.records if r.message == "validation_failed"] == [
        workunit.name
    ]


def test_a_science_failure_does_not_stop_other_workunits_of_the_pass():
    """Workunits before and after the failing ones, and those of other apps."""
    app, other = an_app(), an_app()
    odd = asking("raise", "apple", app=app)[0]
    crash = asking("apple", "crash", app=app)[0]
    good = [asking("apple", "apple", app=one)[0] for one in (app, other, rows.an_app())]
    a_pass(validator)
    assert all(refreshed(one).canonical_result_id for one in good)
    assert not refreshed(odd).canonical_result_id
    assert not refreshed(crash).canonical_result_id


def test_hanging_science_code_ends_the_turn_of_its_app_only():
    app, other = an_app(science_time_limit=QUICK), an_app()
    hang = asking("hang", "ant", app=app)[0]
    same = asking("apple", "ant", app=app)[0]
    good = [asking("apple", "apple", app=one)[0] for one in (other, rows.an_app())]
    assert a_pass(validator).more
    assert all(refreshed(one).canonical_result_id for one in good)
    assert not refreshed(same).canonical_result_id
    assert same.lease_until is None
    a_pass(validator)
    assert refreshed(same).canonical_result_id
    assert not refreshed(hang).canonical_result_id


def test_workunits_beyond_the_time_of_a_turn_are_released_at_once(monkeypatch):
    workunit, _ = asking("apple", "ant", app=an_app())
    monkeypatch.setattr(turns, "TURN_SECONDS", -1.0)
    tally = a_pass(validator)
    assert tally.more
    assert tally.done == {}
    refreshed(workunit)
    assert (workunit.lease_until, workunit.validate_after) == (None, None)
    monkeypatch.undo()
    assert a_pass(validator).done["results valid"] == 2


def test_turn_has_a_limit_and_reports_that_more_are_due(monkeypatch):
    app = an_app()
    for _ in range(3):
        asking("apple", "ant", app=app)
    monkeypatch.setattr(turns, "TURN_ROWS", 2)
    passes = [a_pass(validator) for _ in range(2)]
    assert [one.done["with a canonical result"] for one in passes] == [2, 1]
    assert [one.more for one in passes] == [True, False]


def test_new_workunits_are_validated_before_workunits_that_failed():
    app = an_app()
    old = asking("apple", "ant", app=app, validate_after=NOON - timedelta(hours=1))[0]
    fresh = asking("apple", "ant", app=app)[0]
    a_pass(validator, limit=1)
    assert refreshed(fresh).canonical_result_id
    assert not refreshed(old).canonical_result_id


def test_two_shards_validate_different_workunits_of_an_app():
    app = an_app()
    both = [asking("apple", "ant", app=app)[0] for _ in range(2)]
    for index in range(2):
        a_pass(validator, shard=Shard(index, 2))
        judged = [one for one in both if refreshed(one).canonical_result_id]
        assert len(judged) == index + 1


def test_an_app_that_hangs_repeatedly_is_skipped_for_a_while():
    app = an_app(science_time_limit=QUICK)
    for _ in range(3):
        asking("hang", "ant", app=app)
    hung = [a_pass(validator).done for _ in range(3)]
    assert hung == [{"put off": 1}, {"put off": 1}, {}]
    assert a_pass(validator, now=NOON + 8 * QUICK).done == {"put off": 1}


def test_a_workunit_whose_validation_fails_too_often_is_parked(caplog):
    app = an_app(max_science_failures=2)
    workunit, _ = asking("raise", "ant", app=app)
    assert a_pass(validator).done == {"put off": 1}
    assert a_pass(validator, now=NOON + timedelta(seconds=9)).done == {}
    assert a_pass(validator, now=NOON + timedelta(seconds=10)).done == {"parked": 1}
    assert a_pass(validator, now=NOON + timedelta(days=1)).done == {}
    assert ScienceFailure.objects.get().parked_at == NOON + timedelta(seconds=10)
    assert "science_parked" in [record.message for record in caplog.records]
    ScienceFailure.objects.all().delete()
    assert a_pass(validator, now=NOON + timedelta(days=1)).done == {"put off": 1}
    assert refreshed(workunit).need_validate


def test_transient_errors_have_growing_delays_until_success(caplog):
    app = an_app(max_science_failures=2)
    workunit, results = asking("later", "later", app=app)
    now, waits = NOON, []
    for _ in range(5):
        a_pass(validator, now=now)
        waits.append((refreshed(workunit).validate_after - now).total_seconds())
        now = workunit.validate_after
    assert waits == [10, 20, 40, 80, 160]
    assert states(results) == [OPEN, OPEN]
    for result in results:
        path = storage.upload_path(ResultFile.objects.get(result=result).name)
        path.write_text("apple")
    a_pass(validator, now=now)
    assert states(results) == [GOOD, GOOD]
    assert refreshed(workunit).validate_after is None
    assert not ScienceFailure.objects.exists()
    assert {r.message for r in caplog.records} >= {"validation_put_off"}


def test_the_retry_delay_is_at_most_six_hours():
    assert poison.wait_after(1, turns.MAX_WAIT) == timedelta(seconds=10)
    assert poison.wait_after(500, turns.MAX_WAIT) == timedelta(hours=6)


def test_workunit_is_parked_after_ten_times_as_many_transient_errors():
    app = an_app(max_science_failures=1)
    asking("later", "ant", app=app)
    now, parked = NOON, []
    for _ in range(10):
        parked.append("parked" in a_pass(validator, now=now).done)
        now += timedelta(days=1)
    assert parked == [False] * 9 + [True]


def test_validator_that_cannot_be_loaded_invalidates_no_result(caplog):
    app = an_app(validator="python:no.such.module.Class")
    workunit, results = asking("apple", "ant", app=app)
    assert not a_pass(validator).more
    assert states(results) == [OPEN, OPEN]
    assert refreshed(workunit).validate_after == NOON + timedelta(minutes=1)
    assert not ScienceFailure.objects.exists()
    records = [record for record in caplog.records if record.message == "validator_unusable"]
    assert "No module named 'no'" in records[0].reason


def test_invalid_validator_options_are_logged_and_the_work_waits(caplog):
    app = an_app(validator="numeric", validator_options={"absolut": 0.1})
    workunit, _ = asking("1.0", "1.05", app=app)
    a_pass(validator)
    assert refreshed(workunit).need_validate
    records = [record for record in caplog.records if record.message == "unknown_validator"]
    assert "did you mean 'absolute'?" in records[0].reason


# Concurrent changes


@pytest.fixture
def meanwhile(monkeypatch):
    """A list of functions that are called once after the next comparison."""
    happenings = []
    call = worker.call

    def called(target, question, **options):
        answer = call(target, question, **options)
        while happenings:
            happenings.pop()()
        return answer

    monkeypatch.setattr(worker, "call", called)
    return happenings


def test_a_success_reported_during_validation_is_validated_by_the_next_pass(meanwhile):
    workunit, results = asking("apple", "ant", app=an_app())
    meanwhile.append(
        lambda: results.append(rows.a_result(workunit, "success", output=b"air", uploaded=True))
    )
    a_pass(validator)
    assert states(results) == [GOOD, GOOD, OPEN]
    assert refreshed(workunit).need_validate
    assert rows.due_at(workunit) == NOON
    a_pass(validator)
    assert states(results) == [GOOD, GOOD, GOOD]
    assert not refreshed(workunit).need_validate


def test_a_result_that_changed_during_validation_is_not_settled(meanwhile):
    workunit, results = asking("apple", "bread", "ant", app=an_app())
    meanwhile.append(lambda: ResultFile.objects.filter(result=results[1]).update(sha256="0" * 64))
    a_pass(validator)
    assert states(results) == [GOOD, OPEN, GOOD]
    assert refreshed(workunit).need_validate


def test_a_workunit_that_failed_during_validation_is_not_settled(meanwhile):
    workunit, results = asking("apple", "ant", app=an_app())
    meanwhile.append(lambda: rows.settled(workunit))
    a_pass(validator)
    assert states(results) == [OPEN, OPEN]
    assert refreshed(workunit).canonical_result_id is None


def test_a_workunit_is_compared_by_one_validator_at_a_time(meanwhile):
    asking("apple", "ant", app=an_app())
    others = []
    meanwhile.append(lambda: others.append(a_pass(validator)))
    assert a_pass(validator).done["results valid"] == 2
    assert others[0].done == {}


def test_validator_that_returns_after_its_lease_settles_nothing(meanwhile):
    workunit, results = asking("apple", "ant", app=an_app())
    later = NOON + timedelta(hours=1)
    meanwhile.append(lambda: a_pass(validator, now=later))
    tally = a_pass(validator)
    assert tally.done == {"settled by another": 1}
    assert rows.due_at(refreshed(workunit)) == later
    assert states(results) == [GOOD, GOOD]
    assert moves(results[0]) == ["validation: INIT→VALID"]


def test_validator_settles_nothing_while_another_holds_the_lease(meanwhile):
    workunit, results = asking("apple", "ant", app=an_app())
    lease = rows.hours(2)
    meanwhile.append(lambda: rows.update(workunit, lease_token=99, lease_until=lease))
    assert a_pass(validator).done == {"settled by another": 1}
    assert states(results) == [OPEN, OPEN]
    assert refreshed(workunit).lease_until == lease


def test_workunit_that_no_longer_needs_validation_is_released(meanwhile):
    workunit, results = asking("apple", "ant", app=an_app())
    meanwhile.append(lambda: rows.update(workunit, need_validate=False))
    assert a_pass(validator).done == {"settled by another": 1}
    assert states(results) == [OPEN, OPEN]
    assert refreshed(workunit).lease_until is None


def test_the_lease_is_longer_than_the_science_time_limit(meanwhile):
    app = an_app(science_time_limit=timedelta(minutes=30))
    asking("apple", "ant", app=app)
    others = []
    meanwhile.append(lambda: others.append(a_pass(validator, now=NOON + timedelta(minutes=30))))
    a_pass(validator)
    assert others[0].done == {}


def test_results_are_moved_only_after_science_code_has_run(meanwhile, monkeypatch):
    asking("apple", "ant", app=an_app())
    depths = []
    real = settling.sql._run

    def run(name, *args, **options):
        depths.append(name)
        return real(name, *args, **options)

    monkeypatch.setattr(settling.sql, "_run", run)
    meanwhile.append(lambda: depths.append("science"))
    a_pass(validator)
    before = depths[: depths.index("science")]
    assert "lease_unvalidated" in before
    assert "move_results" not in before
    assert depths.index("science") < depths.index("move_results")


def test_a_turn_uses_the_same_statements_for_any_number_of_rows():
    app = an_app()
    version = rows.an_app_version(app)
    hosts = [rows.a_host() for _ in range(2)]
    costs = []
    for count in (1, 60):
        for _ in range(count):
            workunit = rows.a_workunit(app, need_validate=True)
            for host in hosts:
                rows.a_result(
                    workunit, "success", host=host, app_version=version, output=b"a", uploaded=True
                )
        costs.append(statements_of(lambda: a_pass(validator)))
    assert costs[0] == costs[1]
    assert Workunit.objects.filter(canonical_result__isnull=False).count() == 61


def test_the_trivial_validator_accepts_every_result_with_all_its_outputs():
    _workunit, results = asking("a", "b", None, app=rows.an_app(validator="trivial"))
    a_pass(validator)
    assert states(results) == [GOOD, GOOD, ERROR]


def test_the_substring_validator_checks_the_standard_error_of_results():
    app = an_app(validator="substring", validator_options={"text": "converged"})
    _workunit, results = asking("a", "b", "c", app=app)
    for result in results[:2]:
        rows.update(result, stderr="it converged")
    a_pass(validator)
    assert states(results) == [GOOD, GOOD, ERROR]


def test_loaded_outputs_are_cleaned_up_after_the_comparison(tmp_path):
    notes = [tmp_path / "one", tmp_path / "two"]
    app = an_app()
    asking(f"tidy {notes[0]}", f"tidy {notes[1]}", app=app)
    a_pass(validator)
    assert [note.read_text() for note in notes] == ["tidied"] * 2


# Edited plug-ins

PLUGIN = """
from pathlib import Path
from {helper} import same

class Judge:
    def prepare(self, outputs, _options):
        return Path(outputs[0].path).read_text()

    def agree(self, one, other):
        return same(one, other)
"""
SAME_LETTER = "def same(one, other):\n    return one[0] == other[0]\n"
SAME_LENGTH = "def same(one, other):\n    return len(one) == len(other)\n"


def verdicts(app):
    """Compare two outputs with the same letter and a third one that has the length of the first."""
    _workunit, results = asking("apple", "ant", "bread", app=app)
    a_pass(validator)
    return states(results)


@pytest.mark.parametrize(
    ("module", "has_init"),
    [("judging", False), ("judges/judging", True), ("judges/late/judging", False)],
)
def test_an_edited_plugin_takes_effect_at_the_next_scan(settings, monkeypatch, module, has_init):
    monkeypatch.setattr(worker, "MODULES_SCAN_SECONDS", 0)
    science = settings.VAR_DIR / "science"
    file, helper = science / f"{module}.py", science / f"{module}_rules.py"
    file.parent.mkdir(parents=True)
    if has_init:
        for folder in file.relative_to(science).parents[:-1]:
            (science / folder / "__init__.py").touch()
    dotted = module.replace("/", ".")
    file.write_text(PLUGIN.format(helper=f"{dotted}_rules"))
    helper.write_text(SAME_LETTER)
    app = an_app(validator=f"python:{dotted}.Judge")
    assert verdicts(app) == [GOOD, GOOD, WRONG]
    # An unchanged module stays in its worker.
    [before] = worker_of(app)
    assert verdicts(app) == [GOOD, GOOD, WRONG]
    assert worker_of(app) == [before]
    # A module that the plug-in imports is edited in place, then the plug-in is replaced by a file
    # of the same size and time.
    helper.write_text(SAME_LENGTH)
    assert verdicts(app) == [GOOD, WRONG, GOOD]
    [second] = worker_of(app)
    assert second is not before
    assert not before.is_usable()
    edited = file.with_suffix(".new")
    edited.write_text(file.read_text().replace("same(one, other)", "one != other    "))
    times = file.stat()
    os.utime(edited, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert edited.stat().st_size == times.st_size
    edited.replace(file)
    assert verdicts(app) == [GOOD, GOOD, GOOD]


def worker_of(app):
    """Return the running workers of an app's validator."""
    name = f"validator {app.validator}"
    return [each for each in worker._own.values() if each.profile.name == name]


def test_modules_of_a_plugin_are_scanned_once_a_second(monkeypatch):
    clock, scans = [1000.0], []

    def scan(folder, own):
        scans.append(own)
        return iter([(len(scans),)])

    monkeypatch.setattr(worker, "_scanned", {})
    monkeypatch.setattr(worker, "monotonic", lambda: clock[0])
    monkeypatch.setattr(worker, "_module_versions", scan)
    first = worker._modules_digest("judging.Judge")
    clock[0] += 0.9
    assert worker._modules_digest("judging.Judge") == first
    assert len(scans) == 1
    worker._modules_digest("other.Judge")
    assert scans == [["judging", "Judge"], ["other", "Judge"]]
    clock[0] += 0.1
    assert worker._modules_digest("judging.Judge") != first
    # The profile that the science service gets stays small, however many modules there are.
    assert isinstance(first, int)


def test_files_of_data_in_the_science_folder_are_not_searched(settings):
    science = settings.VAR_DIR / "science"
    (science / "data").mkdir(parents=True)
    (science / "data" / "table.py").touch()
    (science / "judging.py").touch()
    loop = science / "loop"
    loop.mkdir()
    (loop / "__init__.py").touch()
    (loop / "loop").symlink_to(loop)
    versions = list(worker._module_versions(str(science), ["judging", "Judge"]))
    inodes = [version[1] for version in versions]
    assert (science / "judging.py").stat().st_ino in inodes
    assert (science / "data" / "table.py").stat().st_ino not in inodes
    assert len(versions) < 20


def test_the_worker_target_resolves_to_compare_message():
    from daemons.science.worker_main import resolve

    assert resolve(comparison.TARGET) is comparison.compare_message
    assert poison.Stage.VALIDATE == 1
