"""Task files and list names of TDF2: the original example, and every fault."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.lifecycle import BundleState
from scheduler.work.rules import tdf2_files
from scheduler.work.rules.tdf2_files import ListName, Task
from scheduler.work.rules.tdf2_plans import FoundFile, plan
from scheduler.work.submission.rules import bundling, new_workunits

STEM = "1448978609795035000_0"
NEW = f"{STEM}\n1448978609\n1448985809\n120\n5\n0\necho 'A'; sleep 2; echo 'B'\n"
EXECUTED = NEW.replace("_0", "") + "worker_123\n1448978619\n1448978622\n"
TASK = Task(
    number="1448978609795035000",
    created=1448978609,
    until=1448985809,
    expected_duration=120,
    max_fails=5,
    fails=0,
    cmd="echo 'A'; sleep 2; echo 'B'",
)


def faults_of(text: str, stem: str = STEM) -> list[str]:
    outcome = tdf2_files.parse(text, stem=stem)
    assert isinstance(outcome, list)
    return [fault.text("f") for fault in outcome]


def with_line(number: int, value: str, text: str = NEW) -> str:
    lines = text.splitlines()
    lines[number - 1] = value
    return "\n".join(lines) + "\n"


def test_seven_lines_are_read_and_written_exactly():
    assert tdf2_files.parse(NEW, stem=STEM) == TASK
    assert tdf2_files.render(TASK) == NEW


def test_ten_lines_are_read_and_written_with_the_suffix_of_the_id():
    task = tdf2_files.parse(EXECUTED, stem="1448978609795035000")
    assert isinstance(task, Task)
    assert (task.worker, task.started, task.ended) == ("worker_123", 1448978619, 1448978622)
    assert tdf2_files.render(task) == NEW + "worker_123\n1448978619\n1448978622\n"


COUNTS = st.integers(0, 2**31 - 2) | st.sampled_from(["", "007", "١", "1.5", "-1", "2147483647"])
TIMES = st.integers(0, tdf2_files.NO_UNTIL) | st.sampled_from(["0", "01", " 1", "1e9"])
TEXTS = st.text(max_size=60) | st.sampled_from(["echo 'A'; sleep 2", "\u2028", " x ", "\x0b\x85"])


@given(
    number=st.from_regex(r"[0-9]{1,60}", fullmatch=True),
    fails=st.integers(0, 9),
    fields=st.tuples(TIMES, TIMES, COUNTS, COUNTS),
    cmd=TEXTS,
    last=st.none() | st.tuples(TEXTS, TIMES, TIMES),
)
def test_every_file_that_is_read_is_written_with_the_same_bytes(number, fails, fields, cmd, last):
    values = [f"{number}_{fails}", *fields, fails, cmd, *(last or ())]
    text = "".join(f"{value}\n" for value in values)
    task = tdf2_files.parse(text, stem=f"{number}_{fails}")
    if isinstance(task, Task):
        assert tdf2_files.render(task) == text


def test_a_last_line_without_newline_is_read():
    assert tdf2_files.parse(NEW.rstrip("\n"), stem=STEM) == TASK


def test_duplicate_of_a_failed_task_counts_the_failure_in_field_and_id():
    task = tdf2_files.parse(EXECUTED, stem="1448978609795035000")
    assert isinstance(task, Task)
    again = task.failed_again()
    assert again.id == "1448978609795035000_1"
    assert tdf2_files.render(again).splitlines()[5] == "1"
    assert len(tdf2_files.render(again).splitlines()) == 7


@pytest.mark.parametrize(
    ("text", "stem", "expected"),
    [
        ("", STEM, "f: The file has 0 lines. Hint: write 7 lines, or 10"),
        (NEW + "worker\n", STEM, "f: The file has 8 lines."),
        (with_line(1, "12 # id"), STEM, "f, line 1: id is '12 # id'."),
        (NEW, "7_0", "f, line 1: id is '1448978609795035000_0', but the file is 7_0.task. Hint: "),
        (with_line(2, "today"), STEM, "f, line 2: created is 'today'. Hint: write a whole number"),
        (with_line(3, "-1"), STEM, "f, line 3: until is '-1'."),
        (with_line(3, "999999999999"), STEM, "f, line 3: until is 999999999999. Hint: write unix"),
        (with_line(1, "١_0"), "١_0", "f, line 1: id is '١_0'."),
        (with_line(1, "7_00"), "7_00", "f, line 1: id is '7_00'."),
        (NEW, "7\x1b[2J", "f, line 1: id is '1448978609795035000_0', but the file is 7?[2J.task."),
        (with_line(2, "01448978609"), STEM, "f, line 2: created is '01448978609'."),
        (with_line(4, "0"), STEM, "f, line 4: expected_duration is 0."),
        (with_line(4, "1200000000"), STEM, "f, line 4: expected_duration is 1200000000. Hint: "),
        (with_line(5, "2147483647"), STEM, "f, line 5: max_fails is 2147483647."),
        (with_line(7, "x" * 65_537), STEM, "f, line 7: cmd has 65537 characters."),
        (with_line(5, "9999999999"), STEM, "f, line 5: max_fails is 9999999999."),
        (with_line(6, "1"), STEM, "f, line 1: id ends with _0, but fails is 1."),
        (with_line(7, " "), STEM, "f, line 7: cmd is empty."),
        (with_line(7, "a\rb"), STEM, "f, line 7: cmd has a control character."),
        (NEW + "a/b\n1\n2\n", STEM, "f, line 8: worker is 'a/b'."),
        (NEW + "w\nx\n2\n", STEM, "f, line 9: started is 'x'."),
        (NEW + "w\n1\ny\n", STEM, "f, line 10: ended is 'y'."),
    ],
)
def test_a_fault_names_the_line_and_what_to_do(text: str, stem: str, expected: str):
    [fault] = faults_of(text, stem)
    assert fault.startswith(expected)
    assert " Hint: " in fault


def test_all_faults_of_a_file_are_reported_together():
    text = with_line(2, "x", with_line(5, "y"))
    assert [fault.partition(":")[0] for fault in faults_of(text)] == ["f, line 2", "f, line 5"]


def test_name_of_a_list_grows_with_its_state():
    created, started, finished = (
        datetime(2015, 12, 1, 14, 3, second, tzinfo=UTC) for second in (29, 39, 50)
    )

    def label(state: BundleState) -> str:
        return tdf2_files.list_label(
            state, created=created, worker="worker_123", started=started, finished=finished
        )

    assert label(BundleState.OPEN) == "1448978609"
    assert label(BundleState.RUNNING) == "1448978609_worker_123_1448978619"
    assert label(BundleState.CLOSED) == "1448978609_worker_123_1448978619_1448978630"


@pytest.mark.parametrize(
    ("state", "name", "expected"),
    [
        ("open", "1448978609", ListName(1448978609)),
        ("running", "1_a_7_2", ListName(1, "a_7", 2)),
        ("closed", "1_a_7_2_3", ListName(1, "a_7", 2, 3)),
        ("closed", "1_3", ListName(1, None, None, 3)),
        ("open", "new", None),
        ("running", "1448978609", None),
        ("running", "1_a\x1b[2J_2", None),
        ("open", "١", None),
    ],
)
def test_name_of_a_list_is_read_by_its_state(state: str, name: str, expected: ListName | None):
    assert tdf2_files.parse_list(name, state=state) == expected


def a_file(path: str, text: str = NEW, **fields) -> FoundFile:
    return FoundFile(tuple(path.split("/")), text, **fields)


def numbered(number: int, text: str = NEW) -> str:
    return text.replace("1448978609795035000", str(number))


def test_new_tasks_and_tasks_of_open_and_running_lists_are_wanted():
    files = [
        a_file("1_0.task", numbered(1)),
        a_file("new/2_0.task", numbered(2)),
        a_file("open/1448978609/3_0.task", numbered(3)),
        a_file("running/1448978609_w_1448978619/4_0.task", numbered(4)),
    ]
    wanted = plan(files).wanted
    assert [(each.task.number, each.in_list) for each in wanted] == [
        ("1", None),
        ("2", None),
        ("3", "open/1448978609"),
        ("4", "running/1448978609_w_1448978619"),
    ]


CLOSED = "closed/1448978609_w_1448978619_1448978700/"


@pytest.mark.parametrize(
    ("changes", "errors", "is_again"),
    [
        ({}, False, False),
        ({}, True, True),
        ({5: "0"}, True, False),
        ({3: "1448978621"}, True, False),
    ],
)
def test_failed_task_of_a_closed_list_is_tried_again_unless_too_often_or_too_late(
    changes: dict[int, str], errors: bool, is_again: bool
):
    text = EXECUTED
    for line, value in changes.items():
        text = with_line(line, value, text)
    made = plan([a_file(CLOSED + "1448978609795035000.task", text, has_errors=errors)])
    assert [each.task.id for each in made.wanted] == ["1448978609795035000_1"] * is_again
    assert made.finished == (not is_again)
    assert made.faults == []


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("open/1448978609795035000_0.task", NEW, "A task in open is in no list."),
        (f"open/mine/{STEM}.task", NEW, "'mine' is not the name of a list in open."),
        (f"old/{STEM}.task", NEW, "'old' is not a folder of TDF2."),
        (f"{CLOSED}{STEM}.task", NEW, "The file has 7 lines, but its list is closed."),
        ("new/1448978609795035000.task", EXECUTED, "The file has 10 lines, but its folder is new."),
        (f"{STEM[:-2]}_7.task", with_line(6, "7", with_line(1, f"{STEM[:-2]}_7")), "fails is 7"),
    ],
)
def test_misplaced_file_is_a_fault(path: str, text: str, expected: str):
    [fault] = plan([a_file(path, text)]).faults
    assert fault.startswith(path)
    assert expected in fault
    assert " Hint: " in fault


def test_list_with_too_many_tasks_is_a_fault():
    files = [a_file(f"open/7/{number}_0.task", numbered(number)) for number in range(1001)]
    assert plan(files[1:]).faults == []
    [fault] = plan(files).faults
    assert fault.startswith("open/7: The list has 1001 tasks. Hint: ")


def test_limits_are_those_of_a_submission():
    assert tdf2_files.MAX_CMD_LENGTH == new_workunits.MAX_TEXT_LENGTH
    assert tdf2_files.MAX_LIST_LENGTH == bundling.MAX_MEMBERS


def test_two_files_of_one_task_are_a_fault():
    again = with_line(6, "1", with_line(1, f"{STEM[:-2]}_1"))
    [fault] = plan([a_file(f"{STEM}.task"), a_file(f"{STEM[:-2]}_1.task", again)]).faults
    assert f"task {STEM[:-2]} is also {STEM}.task" in fault
