"""Workunits from a template and a submission: the most specific value applies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from scheduler.boinc_submission.facts import InputTemplate, OutputTemplate, TemplateInput
from scheduler.boinc_submission.rules.templated import (
    PlacedFile,
    RemoteFile,
    SubmittedFile,
    TwoCommandLines,
    WorkunitDescription,
    WrongFiles,
    templated,
)
from scheduler.work.submission.facts import NewFile, NewOutput
from scheduler.work.submission.rules import new_workunits

NOTHING = InputTemplate()
MD5 = "0" * 32
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def made(described=None, inputs=NOTHING, outputs=None, numbers=None, defaults=None):
    return templated(
        described or WorkunitDescription(),
        inputs=inputs,
        outputs=outputs,
        numbers=numbers or {},
        defaults=defaults or {},
    )


def test_default_numbers_are_those_of_boinc() -> None:
    workunit = made().workunit
    assert (workunit.min_quorum, workunit.target) == (1, 1)
    assert workunit.max_error_results == 1
    assert (workunit.total, workunit.successes) == (1, 1)
    assert workunit.delay_bound == timedelta(days=7)
    assert (workunit.rsc_fpops_est, workunit.rsc_fpops_bound) == (3.6e12, 8.64e13)
    assert (workunit.rsc_memory_bound, workunit.rsc_disk_bound) == (5e8, 1e9)


@pytest.mark.parametrize(
    ("sayers", "estimate"),
    [
        ({}, 3.6e12),
        ({"app"}, 1e10),
        ({"app", "submission"}, 2e10),
        ({"app", "submission", "template"}, 3e10),
        ({"app", "submission", "template", "workunit"}, 4e10),
    ],
)
def test_most_specific_number_applies(sayers, estimate) -> None:
    said = {
        name: {"rsc_fpops_est": number} if name in sayers else {}
        for name, number in zip(
            ("app", "submission", "template", "workunit"), (1e10, 2e10, 3e10, 4e10), strict=True
        )
    }
    workunit = made(
        WorkunitDescription(numbers=said["workunit"]),
        InputTemplate(numbers=said["template"]),
        numbers=said["submission"],
        defaults=said["app"],
    ).workunit
    assert workunit.rsc_fpops_est == estimate


def test_limits_below_the_target_number_of_results_are_raised_to_it() -> None:
    numbers = {"min_quorum": 2.0, "target_nresults": 3.0, "max_total_results": 2.0}
    workunit = made(inputs=InputTemplate(numbers=numbers)).workunit
    assert (workunit.min_quorum, workunit.target) == (2, 3)
    assert (workunit.total, workunit.successes) == (3, 3)


def test_limits_above_the_target_number_of_results_are_kept() -> None:
    numbers = {"max_total_results": 20.0, "max_success_results": 9.0, "max_error_results": 0.0}
    workunit = made(inputs=InputTemplate(numbers=numbers)).workunit
    assert (workunit.total, workunit.successes, workunit.max_error_results) == (20, 9, 0)


def test_default_flops_bound_grows_with_a_large_estimate() -> None:
    assert made(numbers={"rsc_fpops_est": 1e15}).workunit.rsc_fpops_bound == 1e16
    said = {"rsc_fpops_est": 1e15, "rsc_fpops_bound": 1e12}
    assert (
        made(numbers=said).workunit.rsc_fpops_bound == 1e12
    )  # refused by another check, with a message


@pytest.mark.parametrize("seconds", [1e14, 1e300, float("inf")])
def test_deadline_above_a_hundred_years_is_reported_as_a_fault(seconds: float) -> None:
    workunit = made(numbers={"delay_bound": seconds}).workunit
    [[fault]] = new_workunits.faults([workunit], max_output_bytes=1 << 30, now=NOON).values()
    assert "a hundred years at most" in str(fault)


def test_delay_bound_is_in_seconds() -> None:
    assert made(numbers={"delay_bound": 60.0}).workunit.delay_bound == timedelta(minutes=1)


def test_submitted_files_match_template_inputs_by_position_except_constants() -> None:
    template = InputTemplate(
        inputs=(
            TemplateInput(open_name="a", sticky=True),
            TemplateInput(open_name="b", physical_name="const"),
            TemplateInput(copy_file=True, no_delete=True),
        )
    )
    files = (SubmittedFile(name="x", content=b"x"), SubmittedFile(name="y", known_as="y_1"))
    assert made(WorkunitDescription(files=files), template).inputs == (
        PlacedFile(NewFile(open_name="a", content=b"x", sticky=True)),
        PlacedFile(NewFile(open_name="b"), constant="const"),
        PlacedFile(NewFile(open_name="y", known_as="y_1", copy_file=True, no_delete=True)),
    )


@pytest.mark.parametrize("count", [0, 2])
def test_wrong_number_of_input_files_is_refused(count: int) -> None:
    template = InputTemplate(inputs=(TemplateInput(open_name="a"),))
    files = (SubmittedFile(name="x", content=b"x"),) * count
    with pytest.raises(WrongFiles, match=rf"needs 1 input files, but {count} are named\. Hint: "):
        made(WorkunitDescription(files=files), template)


def test_submission_gives_the_name_of_a_remote_file() -> None:
    template = InputTemplate(
        inputs=(TemplateInput(open_name="a", urls=("https://a/", "https://b/"), md5=MD5, nbytes=9),)
    )
    files = (SubmittedFile(name="x.dat", known_as="x.dat"),)
    assert made(WorkunitDescription(files=files), template).inputs == (
        PlacedFile(
            NewFile(open_name="a"),
            remote=RemoteFile(urls=("https://a/x.dat", "https://b/x.dat"), md5=MD5, nbytes=9),
        ),
    )


def test_command_line_in_template_and_workunit_is_refused() -> None:
    template = InputTemplate(command_line="--template")
    assert made(inputs=template).workunit.command_line == "--template"
    assert made(WorkunitDescription(command_line="--own")).workunit.command_line == "--own"
    with pytest.raises(TwoCommandLines, match=r"'--own', and the template has '--template'\. Hint"):
        made(WorkunitDescription(command_line="--own"), template)


def test_every_output_flag_of_the_template_is_kept() -> None:
    template = OutputTemplate(
        outputs=(
            NewOutput(open_name="o", max_nbytes=5, no_delete=True, gzip_when_done=True),
            NewOutput(open_name="p", max_nbytes=6, copy_file=True, optional=True, no_validate=True),
        ),
        report_immediately=True,
    )
    assert [one.as_json() for one in made(outputs=template).workunit.outputs] == [
        {
            "open_name": "o",
            "max_nbytes": 5,
            "no_delete": True,
            "gzip_when_done": True,
            "report_immediately": True,
        },
        {
            "open_name": "p",
            "max_nbytes": 6,
            "optional": True,
            "copy_file": True,
            "no_validate": True,
            "report_immediately": True,
        },
    ]


def test_outputs_of_the_app_apply_without_an_output_template() -> None:
    workunit = made(defaults={"outputs": ["out"]}).workunit
    assert workunit.outputs == (NewOutput(open_name="out"),)


@pytest.mark.parametrize(
    ("job", "template", "app", "expected"),
    [
        (None, None, None, None),
        (None, None, "app", "app"),
        (None, "template", "app", "template"),
        ("job", "template", "app", "job"),
    ],
)
def test_most_specific_queue_applies(job, template, app, expected) -> None:
    workunit = made(
        WorkunitDescription(queue=job),
        InputTemplate(queue=template),
        defaults={"queue": app} if app else {},
    ).workunit
    assert workunit.queue == expected
