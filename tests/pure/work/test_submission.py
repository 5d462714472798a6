"""Faults and warnings of workunits before they are stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduler.work.submission.facts import (
    DEFAULT_MAX_ERROR_RESULTS,
    DEFAULT_MAX_TOTAL_RESULTS,
    NewBatch,
    NewFile,
    NewOutput,
    NewWorkunit,
)
from scheduler.work.submission.rules import new_workunits, work_from_dicts

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
GOOD = NewWorkunit(outputs=(NewOutput(open_name="out"),))
GUESS = new_workunits.Speed(1e9, hosts=0)
#: A time that is in the year 10000 in UTC.
LATER_THAN_ALL = datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14)))


def said(workunit: NewWorkunit) -> list[str]:
    found = new_workunits.faults([workunit], max_output_bytes=1 << 30, now=NOON)
    return [str(fault) for fault in found.get(0, ())]


def test_valid_workunit_has_no_faults() -> None:
    assert said(GOOD) == []


def test_keywords_are_comma_separated_numbers() -> None:
    assert [said(replace(GOOD, keywords=words)) for words in ("", "3", "3,17", "3, 17")] == [[]] * 4


def test_quorum_above_the_target_is_a_fault_with_both_numbers_and_a_hint() -> None:
    assert said(replace(GOOD, min_quorum=3, target_nresults=2)) == [
        (
            "min_quorum (3) is greater than target_nresults (2). "
            "Hint: raise target_nresults to 3, or leave it out."
        )
    ]


def test_omitted_limits_default_to_the_quorum() -> None:
    workunit = replace(GOOD, min_quorum=12)
    assert (workunit.target, workunit.total, workunit.successes) == (12, 12, 12)
    assert said(workunit) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "a b"}, "is not a name for a workunit"),
        ({"name": "a..b"}, "is not a name for a workunit"),
        ({"min_quorum": 0}, "min_quorum is 0."),
        ({"target_nresults": 5, "max_total_results": 4}, "greater than max_total_results (4)"),
        ({"target_nresults": 5, "max_success_results": 4}, "greater than max_success_results (4)"),
        ({"max_timeouts": -1}, "max_timeouts is -1."),
        ({"rsc_fpops_est": 0.0}, "rsc_fpops_est is 0."),
        ({"rsc_disk_bound": float("nan")}, "rsc_disk_bound is nan."),
        ({"rsc_fpops_bound": 1.0}, "rsc_fpops_bound (1) is less than"),
        ({"requested_cpus": -1.0}, "requested_cpus is -1. Hint: give a number from 0 to 1024."),
        ({"requested_gpus": 1025.0}, "requested_gpus is 1025."),
        ({"requested_gpus": float("nan")}, "requested_gpus is nan."),
        ({"start_offset_seconds": -1.0}, "start_offset_seconds is -1. Hint: give 0 or more"),
        ({"start_offset_seconds": float("inf")}, "start_offset_seconds is inf."),
        (
            {"start_offset_seconds": 3600.0, "end_before": NOON + timedelta(hours=1)},
            "With start_offset_seconds (3600), it may start after end_before.",
        ),
        (
            {
                "start_offset_seconds": 3600.0,
                "start_after": NOON + timedelta(hours=1),
                "start_before": NOON + timedelta(hours=2),
            },
            "it may start after start_before. Hint: give a smaller offset, or a later start_before",
        ),
        (
            {"start_offset_seconds": 3e9, "start_after": datetime(9990, 1, 1, tzinfo=UTC)},
            "start_after with start_offset_seconds is not in the years 1970 to 9999",
        ),
        ({"delay_bound": timedelta(0)}, "delay_bound_seconds is 0."),
        ({"delay_bound": timedelta(days=36_526)}, "a hundred years at most"),
        ({"rsc_fpops_bound": 1e101}, "up to 1e100"),
        ({"start_after": LATER_THAN_ALL}, "start_after is not in the years 1970 to 9999"),
        ({"end_before": LATER_THAN_ALL}, "end_before is not in the years 1970 to 9999"),
        ({"start_after": datetime(1969, 12, 31, tzinfo=UTC)}, "not in the years 1970 to 9999"),
        ({"end_before": NOON}, "end_before (2026-06-01 12:00:00 UTC) is past."),
        (
            {"start_before": datetime(2026, 6, 1, 17, tzinfo=timezone(timedelta(hours=5.5)))},
            "start_before (2026-06-01 11:30:00 UTC) is past.",
        ),
        ({"start_after": datetime(2026, 1, 1)}, "start_after has no time zone."),  # noqa: DTZ001 - on purpose
        (
            {"start_after": NOON + timedelta(2), "end_before": NOON + timedelta(1)},
            "end_before is not later than start_after.",
        ),
        (
            {"pending_dependency_count": 1},
            "pending_dependency_count is 1. Hint: leave it out; to make workunits wait for",
        ),
        ({"pending_dependency_count": -1}, "pending_dependency_count is -1."),
        ({"command_line": "a\0b"}, "The command line contains a NUL"),
        (
            {"command_line": "x" * 65_537},
            "The command line has 65537 characters. Hint: use at most 65536",
        ),
        (
            {"meta": {"a": "x" * 65_536}},
            "meta has 65545 characters as JSON. Hint: use at most 65536",
        ),
        ({"meta": {"a": float("nan")}}, "meta cannot be written as JSON"),
        ({"meta": {"a": "\0"}}, "meta cannot be written as JSON"),
        ({"keywords": "x" * 300}, "keywords has 300 characters."),
        ({"keywords": "astronomy"}, "keywords is 'astronomy'."),
        ({"keywords": "1,,2"}, "keywords is '1,,2'."),
        ({"input_files": (NewFile(open_name="in"),)}, "'in' has 0 sources."),
        ({"input_files": (NewFile(open_name="../in", content=b""),)}, "not a name that a program"),
        ({"input_files": (NewFile(open_name="in", known_as="\0"),)}, "'in' contains a NUL"),
        ({"input_files": (NewFile(open_name="out", content=b""),)}, "'out' is used for more than"),
        ({"outputs": (NewOutput(open_name="o", max_nbytes=0),)}, "max_nbytes of output 'o' is 0."),
    ],
)
def test_impossible_value_is_a_fault(change: dict[str, object], words: str) -> None:
    found = said(replace(GOOD, **change))  # type: ignore[arg-type]
    assert [words in fault for fault in found] == [True], found


@pytest.mark.parametrize(
    ("draw", "start_after", "milliseconds"),
    [
        (0.0, None, 0),
        (0.5, None, 750),
        (0.999999, None, 1500),
        (0.5, NOON + timedelta(days=1), 86_400_750),
    ],
)
def test_start_offset_adds_at_most_that_many_whole_milliseconds(
    draw: float, start_after: datetime | None, milliseconds: int
) -> None:
    workunit = replace(GOOD, start_offset_seconds=1.5, start_after=start_after)
    drawn = new_workunits.with_start_offset(workunit, now=NOON, draw=draw)
    assert drawn.start_after == NOON + timedelta(milliseconds=milliseconds)
    assert drawn.start_offset_seconds == 0


def test_names_of_tdf_are_other_names_of_fields() -> None:
    read = work_from_dicts.new_workunit({"max_fails": 0, "until": "2027-01-31T12:00:00Z"})
    assert read.max_error_results == 0
    assert read.start_before == datetime(2027, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("fields", "errors", "results"),
    [
        ({"max_retry_count": 0}, 0, 1),
        ({"max_retry_count": 3}, 3, 4),
        ({"max_retry_count": 30, "max_fails": 30}, 30, 31),
        ({"max_retry_count": 3, "min_quorum": 2}, 3, 5),
        ({"max_retry_count": 3, "min_quorum": 2, "target_nresults": 4}, 3, 7),
        ({"max_retry_count": None, "max_total_results": 4}, DEFAULT_MAX_ERROR_RESULTS, 4),
    ],
)
def test_max_retry_count_limits_the_attempts_beyond_the_first(
    fields: dict[str, object], errors: int, results: int
) -> None:
    workunit = work_from_dicts.new_workunit(fields)
    assert (workunit.max_error_results, workunit.total) == (errors, results)
    assert said(replace(workunit, outputs=GOOD.outputs)) == []


@pytest.mark.parametrize(
    ("defaults", "own", "errors", "results"),
    [
        # The target of another description counts, and so does the last limit.
        ({"min_quorum": 2}, {"max_retry_count": 1}, 1, 3),
        ({"max_retry_count": 1}, {"min_quorum": 2, "until": "2027-01-31T12:00:00Z"}, 1, 3),
        ({"max_error_results": 7, "max_total_results": 20}, {"max_retry_count": 1}, 1, 2),
        ({"max_retry_count": 1}, {"max_fails": 7}, 7, DEFAULT_MAX_TOTAL_RESULTS),
        ({"max_retry_count": 1}, {"max_total_results": 7}, 1, 7),
    ],
)
def test_max_retry_count_is_merged_with_defaults(
    defaults: dict[str, object], own: dict[str, object], errors: int, results: int
) -> None:
    named = [work_from_dicts.with_field_names(fields) for fields in (defaults, own)]
    workunit = work_from_dicts.new_workunit({**named[0], **named[1]})
    assert (workunit.max_error_results, workunit.total) == (errors, results)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"max_retry_count": 1, "max_total_results": 3},
            "max_retry_count and max_total_results are both given. Hint: give one: max_retry_count",
        ),
        ({"max_retry_count": 1, "max_fails": 3}, "max_retry_count and max_error_results are both"),
        ({"max_retry_count": -1}, "max_retry_count is -1. Hint: give a whole number from 0"),
        ({"max_retry_count": True}, "max_retry_count is True. Hint: give a whole number from 0"),
        (
            {"max_fails": 1, "max_error_results": 1},
            "max_fails and max_error_results are both given",
        ),
        ({"max_fails": "often"}, "max_fails is 'often'. Hint: give a whole number."),
        ({"until": "soon"}, "start_before is 'soon'. Hint: give a datetime"),
    ],
)
def test_wrong_value_of_another_name_is_a_fault(values: dict[str, object], words: str) -> None:
    with pytest.raises(work_from_dicts.BadDescription) as refusal:
        work_from_dicts.new_workunit(values)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("expire_at", "words"),
    [(NOON, "is past"), (LATER_THAN_ALL, "not in the years 1970 to 9999")],
)
def test_impossible_expiry_of_a_batch_is_a_fault(expire_at: datetime, words: str) -> None:
    [fault] = new_workunits.batch_faults(NewBatch(name="b", expire_at=expire_at), now=NOON)
    assert words in fault.sentence


def test_all_faults_of_all_workunits_are_reported_together() -> None:
    bad = replace(GOOD, name="?", min_quorum=3, target_nresults=2)
    found = new_workunits.faults(
        [bad, GOOD, replace(GOOD, rsc_fpops_est=-1.0)], max_output_bytes=1 << 30, now=NOON
    )
    assert {index: len(faults) for index, faults in found.items()} == {0: 2, 2: 1}


def test_duplicate_names_are_reported_with_their_indexes() -> None:
    named = [replace(GOOD, name=name) for name in ("a", "b", "a")]
    assert new_workunits.duplicates([*named, GOOD, GOOD]) == {"a": [0, 2]}


def warnings_of(workunits, *, app, versions, speed):
    survey = new_workunits.Survey(speed)
    survey.add(new_workunits.Shapes.of(workunits))
    return survey.warnings(app=app, versions=versions)


def test_short_deadline_warning_states_that_the_speed_is_a_guess() -> None:
    workunit = replace(GOOD, rsc_fpops_est=3.6e12, delay_bound=timedelta(hours=2.9))
    (warning,) = warnings_of([workunit], app="a", versions=[1], speed=GUESS)
    assert warning == (
        "delay_bound_seconds (2.9 h) is under 3 times the estimated run time (1 h at 1.0 GFLOPS, a guess "
        "while no host has been seen): many results may miss their deadline."
    )


def test_deadline_of_three_run_times_gives_no_warning() -> None:
    workunit = replace(GOOD, rsc_fpops_est=3.6e12, delay_bound=timedelta(hours=3))
    assert warnings_of([workunit], app="a", versions=[1], speed=GUESS) == ()


def test_measured_speed_of_hosts_determines_the_deadline_warning() -> None:
    workunit = replace(GOOD, rsc_fpops_est=3.6e12, delay_bound=timedelta(hours=2.9))
    fast = new_workunits.Speed(4e9, hosts=7)
    assert warnings_of([workunit], app="a", versions=[1], speed=fast) == ()
    assert str(fast) == "4.0 GFLOPS, the median of the newest 7 hosts"


def test_missing_versions_and_outputs_each_give_one_warning() -> None:
    bare = replace(GOOD, outputs=(), app_version_num=7)
    warnings = warnings_of([bare, bare, GOOD], app="a", versions=[1], speed=GUESS)
    assert warnings == (
        "App a has no version 7 yet: workunits that require it wait for it.",
        "No output files are named for 2 of 3 workunits: hosts upload nothing.",
    )


# Shapes


def test_shapes_are_numbered_in_order_and_counted() -> None:
    one, two = NewWorkunit(name="a"), NewWorkunit(name="b", min_quorum=2)
    again = [replace(one, command_line="--x"), two, one, replace(two, meta={"n": 1})]
    shapes = new_workunits.Shapes.of([one, *again])
    assert list(shapes.numbers) == [0, 0, 1, 0, 1]
    assert list(shapes.firsts) == [one, two]
    assert shapes.counts == [3, 2]


def test_faults_of_a_shape_are_those_of_all_its_workunits() -> None:
    one, two = NewWorkunit(), NewWorkunit(min_quorum=2)
    fault = new_workunits.Fault("It is bad.", "mend it.")
    shapes = new_workunits.Shapes.of([one, two, one, two])
    assert shapes.spread({1: (fault,)}) == {1: (fault,), 3: (fault,)}
    assert shapes.spread({}) == {}


def test_faults_of_alternating_shapes_are_found() -> None:
    good, bad = NewWorkunit(), NewWorkunit(min_quorum=0)
    by_index = new_workunits.faults([good, bad, good, bad], max_output_bytes=1 << 30, now=NOON)
    assert sorted(by_index) == [1, 3]
