"""Folders of TDF2: imported once, run, and exported exactly as its format says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Value
from django.db.models.functions import Concat
from django.utils import timezone

from scheduler.models import App, Batch, Bundle, Result, Workunit
from scheduler.work import attempt_history, control, retry
from tests import rows
from tests.lists import a_scientist, an_app_with_lists, members, passes, state
from tests.scripted_client import a_client

pytestmark = pytest.mark.django_db(transaction=True)

CREATED = 1448978609
NAME = "scientist@example.org"


def a_task(number: int, *, until: int = 0, fails: int = 0, max_fails: int = 5) -> str:
    until = until or int(timezone.now().timestamp()) + 7200
    fields = [f"{number}_{fails}", CREATED + number, until, 120, max_fails, fails, f"echo {number}"]
    return "".join(f"{value}\n" for value in fields)


def put(folder: Path, path: str, text: str) -> None:
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


@pytest.fixture
def app(settings) -> App:
    settings.PROJECT = replace(settings.PROJECT, command_apps=True)
    a_scientist()
    return an_app_with_lists(name="sh", kind="command", success_rule="empty_stderr")


def do_import(folder: Path, **options) -> None:
    call_command("import_tdf2", str(folder), app="sh", submitter=NAME, batch="old", **options)


def do_export(folder: Path) -> list[str]:
    call_command("export_tdf2", str(folder), batch="old")
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def attached(name: str = "pc_7"):
    client = a_client(email=f"{name}@example.org", name=name)
    client.ask()
    return client


def test_import_makes_a_workunit_of_each_task_and_a_list_of_each_open_list(app, tmp_path):
    put(tmp_path, "open/1448978610/1_0.task", a_task(1))
    put(tmp_path, "open/1448978610/2_0.task", a_task(2))
    put(tmp_path, "new/3_2.task", a_task(3, fails=2))
    do_import(tmp_path)
    passes()
    first, third = Workunit.objects.get(name="1"), Workunit.objects.get(name="3")
    assert first.command_line == "echo 1"
    assert int(first.created_at.timestamp()) == CREATED + 1
    assert first.expected_duration == timedelta(seconds=120)
    assert first.start_before == first.end_before
    assert third.max_error_results == 3
    assert third.bundle_id == 0
    bundle = Bundle.objects.get(pk=first.bundle_id)
    assert members(bundle) == ["1", "2"]
    assert int(bundle.created_at.timestamp()) == CREATED + 1


@pytest.mark.parametrize(
    ("until", "has_start", "has_end"), [("both", 1, 1), ("start", 1, 0), ("end", 0, 1)]
)
def test_until_limits_start_and_end_unless_told(app, tmp_path, until, has_start, has_end):
    put(tmp_path, "1_0.task", a_task(1))
    do_import(tmp_path, until=until)
    workunit = Workunit.objects.get()
    assert (workunit.start_before is not None, workunit.end_before is not None) == (
        bool(has_start),
        bool(has_end),
    )


def test_second_import_of_the_same_files_changes_nothing(app, tmp_path, capsys):
    put(tmp_path, "open/1448978610/1_0.task", a_task(1))
    put(tmp_path, "2_0.task", a_task(2))
    do_import(tmp_path)
    passes()
    before = (
        list(Workunit.objects.order_by("id").values()),
        list(Bundle.objects.order_by("id").values()),
        list(Batch.objects.values()),
    )
    capsys.readouterr()
    do_import(tmp_path)
    assert "Imported 0 tasks" in capsys.readouterr().out
    assert before == (
        list(Workunit.objects.order_by("id").values()),
        list(Bundle.objects.order_by("id").values()),
        list(Batch.objects.values()),
    )


def test_every_bad_file_is_reported_and_nothing_is_imported(app, tmp_path):
    put(tmp_path, "1_0.task", a_task(1))
    put(tmp_path, "2_0.task", "2_0\n")
    put(tmp_path, "3_0.task", a_task(3).replace("120", "two minutes"))
    (tmp_path / "4_0.task").write_bytes(b"\xff")
    with pytest.raises(CommandError) as refused:
        do_import(tmp_path)
    text = str(refused.value)
    assert "2_0.task: The file has 1 lines. Hint: " in text
    assert "3_0.task, line 4: expected_duration is 'two minutes'. Hint: " in text
    assert "4_0.task: The file is not text in UTF-8. Hint: " in text
    assert not Workunit.objects.exists()


def test_task_whose_name_another_workunit_has_is_refused(app, tmp_path):
    put(tmp_path, "1_0.task", a_task(1))
    do_import(tmp_path)
    with pytest.raises(CommandError, match=r"1_0.task: a workunit 1 exists already, outside"):
        call_command("import_tdf2", str(tmp_path), app="sh", submitter=NAME, batch="other")


def test_app_of_another_kind_is_refused_with_a_hint(app, tmp_path):
    put(tmp_path, "1_0.task", a_task(1))
    App.objects.update(kind="native")
    with pytest.raises(CommandError, match=r"is of kind native.*--kind command"):
        do_import(tmp_path)


def test_export_before_any_work_gives_the_files_back_exactly(app, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    put(source, "open/1448978610/1_0.task", a_task(1))
    put(source, "new/2_3.task", a_task(2, fails=3))
    do_import(source)
    passes()
    assert do_export(target) == ["new/2_3.task", "open/1448978610/1_0.task"]
    for path in ("new/2_3.task", "open/1448978610/1_0.task"):
        assert (target / path).read_text() == (source / path).read_text()


def test_a_day_of_tasks_is_exported_to_the_folders_of_their_states(app, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    for number in (1, 2, 3):
        put(source, f"open/1448978610/{number}_0.task", a_task(number, max_fails=number - 1))
    do_import(source)
    passes()
    client = attached()
    assert client.ask_for_work() == ["1_0", "2_0", "3_0"]
    running = do_export(tmp_path / "running")
    [label] = {path.split("/")[1] for path in running}
    assert label.startswith("1448978610_pc_7_")
    assert running == [f"running/{label}/{number}_0.task" for number in (1, 2, 3)]
    stderr = "<stderr_txt>\nno such file\n</stderr_txt>"
    client.report("1_0", "2_0", state=3, exit_status=1, stderr_out=stderr, upload=None)
    client.report("3_0", upload=b"3\n")
    passes()
    assert state(Bundle.objects.order_by("id")[0]) == "closed"
    files = do_export(target)
    [closed] = {path.split("/")[1] for path in files if path.startswith("closed/")}
    assert closed.startswith(f"{label}_")
    assert files == [
        f"closed/{closed}/3_0.out",
        f"closed/{closed}/3_0.task",
        "failed_archive/2_0.err",
        "failed_archive/2_0.task",
        "failed_count/1_0.err",
        "failed_count/1_0.task",
        "new/2_1.task",
    ]
    assert (target / "failed_archive/2_0.err").read_text() == "no such file\n"
    assert (target / f"closed/{closed}/3_0.out").read_text() == "3\n"
    lines = (target / "failed_archive/2_0.task").read_text().splitlines()
    assert len(lines) == 10
    assert lines[7] == "pc_7"
    assert int(lines[8]) <= int(lines[9])
    again = (target / "new/2_1.task").read_text().splitlines()
    assert (again[0], again[4], again[5], len(again)) == ("2_1", "1", "1", 7)


def test_task_whose_until_has_passed_ends_as_failed_time(app, tmp_path):
    put(tmp_path / "in", "1_0.task", a_task(1, until=CREATED + 60))
    do_import(tmp_path / "in")
    passes()
    passes()
    assert do_export(tmp_path / "out") == ["failed_time/1_0.task"]


def test_members_that_are_opened_again_are_exported_without_a_failure(app, tmp_path):
    put(tmp_path / "in", "open/1448978610/1_0.task", a_task(1))
    do_import(tmp_path / "in")
    passes()
    attached().ask_for_work()
    Result.objects.update(report_deadline=timezone.now() - timedelta(days=1))
    passes()
    assert do_export(tmp_path / "out") == ["open/1448978610/1_0.task"]
    assert (tmp_path / "out/open/1448978610/1_0.task").read_text() == (
        tmp_path / "in/open/1448978610/1_0.task"
    ).read_text()


def test_attempt_that_a_volunteer_aborted_is_no_failure(app, tmp_path):
    put(tmp_path / "in", "1_0.task", a_task(1, max_fails=2))
    put(tmp_path / "in", "2_0.task", a_task(2, max_fails=2))
    do_import(tmp_path / "in", bundle_size=0)
    passes()
    client = attached()
    assert client.ask_for_work(1000) == ["1_0", "2_0"]
    client.report("1_0", state=6, exit_status=203, upload=None)
    client.report("2_0", state=3, exit_status=1, upload=None)
    assert "new/1_0.task" in do_export(tmp_path / "before")
    passes()
    assert attempt_history.rounds_of(Workunit.objects.get(name="1").pk).fails == 0
    files = do_export(tmp_path / "out")
    assert files == [
        "failed_archive/2_0.err",
        "failed_archive/2_0.task",
        "new/1_0.task",
        "new/2_1.task",
    ]
    for folder in ("before", "out"):
        text = (tmp_path / folder / "new/1_0.task").read_text()
        assert text == (tmp_path / "in/1_0.task").read_text()


@pytest.mark.parametrize("order", ["invalid valid", "valid invalid"])
def test_result_that_was_found_invalid_is_a_failed_attempt(app, tmp_path, order):
    put(tmp_path / "in", "1_2.task", a_task(1, fails=2, max_fails=3))
    do_import(tmp_path / "in")
    workunit = Workunit.objects.get()
    for word in order.split():
        result = rows.a_result(workunit, word, output=word.encode(), uploaded=True)
        if word == "valid":
            rows.update(workunit, canonical_result=result, assimilate_state=1)
    assert do_export(tmp_path / "out") == [
        "completed/1_3.out",
        "completed/1_3.task",
        "failed_archive/1_2.err",
        "failed_archive/1_2.out",
        "failed_archive/1_2.task",
    ]
    assert (tmp_path / "out/completed/1_3.out").read_text() == "valid"
    assert (tmp_path / "out/failed_archive/1_2.out").read_text() == "invalid"
    assert (tmp_path / "out/failed_archive/1_2.err").read_text() == "invalid\n"
    fields = (tmp_path / "out/completed/1_3.task").read_text().splitlines()
    # One more failure is allowed, as before: a limit of errors does not count invalid results.
    assert (fields[4], fields[5]) == ("4", "3")


def failed_and_retried(folder: Path) -> None:
    """Import task 1, which must not fail, let it fail twice, and retry it each time."""
    put(folder, "1_3.task", a_task(1, fails=3, max_fails=3))
    put(folder, "2_0.task", a_task(2))
    do_import(folder, bundle_size=0)
    client = attached()
    for name in ("1_0", "1.2_0"):
        passes()
        assert name in client.ask_for_work(1000)
        client.report(name, state=3, exit_status=1, upload=None)
        passes()
        assert retry.retry(Batch.objects.get(name="old").pk, now=timezone.now()).count == 1
    passes()


def test_retry_is_exported_as_the_next_attempt_of_its_task(app, tmp_path, capsys):
    failed_and_retried(tmp_path / "in")
    files = do_export(tmp_path / "out")
    assert [path for path in files if path.endswith(".task") and "/1_" in path] == [
        "failed_archive/1_3.task",
        "failed_archive/1_4.task",
        "new/1_5.task",
    ]
    assert "Hint" not in "".join(capsys.readouterr())
    Workunit.objects.update(name=Concat(Value("earlier "), "name"))
    call_command("import_tdf2", str(tmp_path / "out"), app="sh", submitter=NAME, batch="new")
    again = Workunit.objects.get(name="1")
    retried = Workunit.objects.get(name="earlier 1.2.2")
    assert again.meta["tdf2"] == {"fails": 5, "max_fails": 5}
    assert again.max_error_results == retried.max_error_results == 0
    assert again.command_line == retried.command_line


def test_retry_after_an_end_without_a_failure_gets_another_id(app, tmp_path):
    put(tmp_path / "in", "1_0.task", a_task(1))
    do_import(tmp_path / "in")
    for name in ("1", "1.2"):
        passes()
        control.cancel(names=[name], now=timezone.now())
        passes()
        batch = Batch.objects.get(name="old").pk
        assert retry.retry(batch, names=[name], now=timezone.now()).count == 1
    control.cancel(names=["1.2.2"], now=timezone.now())
    passes()
    assert do_export(tmp_path / "out") == [
        "failed/1_2.task",
        "failed_archive/1_0.task",
        "failed_archive/1_1.task",
    ]


def test_names_that_are_no_numbers_are_left_out_with_a_warning(app, tmp_path, capsys):
    put(tmp_path / "in", "1_0.task", a_task(1))
    put(tmp_path / "in", "2_0.task", a_task(2))
    put(tmp_path / "in", "3_0.task", a_task(3))
    do_import(tmp_path / "in")
    Workunit.objects.filter(name="1").update(name="1.2")
    Workunit.objects.filter(name="2").update(name="2_0")
    passes()
    assert do_export(tmp_path / "out") == ["new/3_0.task"]
    assert "tasks are numbers: 2, such as 1.2. Hint: " in "".join(capsys.readouterr())
    call_command("import_tdf2", str(tmp_path / "out"), app="sh", submitter=NAME, batch="old")


def test_export_refuses_a_folder_that_is_not_empty(app, tmp_path):
    put(tmp_path / "in", "1_0.task", a_task(1))
    do_import(tmp_path / "in")
    with pytest.raises(CommandError, match=r"is not empty. Hint: name a new folder"):
        do_export(tmp_path / "in")
