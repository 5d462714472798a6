"""How a template and what a submission says become a workunit [pure].

Who says a number more narrowly is heard: the workunit itself, then its template, then the whole
submission, then the app, then BOINC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from scheduler.boinc_submission.facts import InputTemplate, OutputTemplate, TemplateInput
from scheduler.work.submission.facts import NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.rules.work_from_dicts import new_workunit

#: What BOINC's own tools take where nobody says a number (PROTOCOL 7.1).
BOINC_DEFAULTS: Mapping[str, float] = {
    "max_error_results": 1,
    "max_total_results": 1,
    "max_success_results": 1,
}
#: How many times its estimate a workunit may run, where nobody says a bound.
_BOUND_OF_ESTIMATE = 10
_MOST_SECONDS = 8.6e13
_WHOLE = frozenset(
    {
        "min_quorum",
        "target_nresults",
        "max_error_results",
        "max_total_results",
        "max_success_results",
        "size_class",
    }
)


class WrongFiles(ValueError):
    """A submission names more or less files than its template wants.

    Hint: one for each <file_info> without <physical_name>, in the same order.
    """

    def __init__(self, wanted: int, given: int) -> None:
        """Keep both numbers."""
        self.wanted, self.given = wanted, given
        super().__init__(
            f"The template wants {wanted} input files, {given} are given. "
            "Hint: name one for each <file_info> without <physical_name>, in the same order."
        )


class TwoCommandLines(ValueError):
    """Template and submission both say a command line. Hint: say it in one of them."""

    def __init__(self, template: str, said: str) -> None:
        """Show both."""
        super().__init__(
            f"The command line is {said[:60]!r}, and {template[:60]!r} in the template. "
            "Hint: say it in one of them."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file that hosts fetch elsewhere; `name` is what the submitter calls it."""

    name: str
    urls: tuple[str, ...]
    md5: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFile:
    """A file that a submission names: `name`, and exactly one of where its content is."""

    name: str
    content: bytes | None = None
    path: str | None = None
    known_as: str | None = None
    remote: RemoteFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a submission says of one workunit beside its templates."""

    name: str | None = None
    command_line: str = ""
    files: tuple[GivenFile, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    priority: int | None = None
    app_version_num: int = 0
    target_host: int | None = None
    target_account: int | None = None
    target_team: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """An input file in its place; `file` says how it is used, the other two where it comes from."""

    file: NewFile
    constant: str | None = None
    remote: RemoteFile | None = None


@dataclass(frozen=True, slots=True)
class Templated:
    """A workunit whose input files are still to be found; `workunit` has none."""

    workunit: NewWorkunit
    inputs: tuple[Placed, ...]


def templated(
    described: Described,
    *,
    inputs: InputTemplate,
    outputs: OutputTemplate | None,
    numbers: Mapping[str, float],
    defaults: Mapping[str, Any],
) -> Templated:
    """Make one workunit of its templates; raises `WrongFiles`, `TwoCommandLines`.

    `numbers` are the whole submission's, `defaults` the app's `workunit_defaults`, whose outputs
    hold where there is no output template.  Raises `BadDescription` for bad defaults.
    """
    if inputs.command_line and described.command_line:
        raise TwoCommandLines(inputs.command_line, described.command_line)
    said = {**numbers, **inputs.numbers, **described.numbers}
    workunit = new_workunit({**BOINC_DEFAULTS, **defaults})
    workunit = replace(
        workunit,
        **_fields(said, workunit, told={*defaults, *said}),
        name=described.name,
        command_line=described.command_line or inputs.command_line or workunit.command_line,
        outputs=workunit.outputs if outputs is None else _outputs(outputs),
        priority=workunit.priority if described.priority is None else described.priority,
        app_version_num=described.app_version_num or workunit.app_version_num,
        target_host=described.target_host,
        target_account=described.target_account,
        target_team=described.target_team,
    )
    return Templated(_roomy(workunit), _place(inputs.inputs, described.files))


def _fields(said: Mapping[str, float], base: NewWorkunit, *, told: set[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: int(value) if name in _WHOLE else value for name, value in said.items()
    }
    if "delay_bound" in said:
        # `submission` says that it is too much; no timedelta holds more.
        fields["delay_bound"] = timedelta(seconds=min(said["delay_bound"], _MOST_SECONDS))
    estimate = fields.get("rsc_fpops_est", base.rsc_fpops_est)
    if "rsc_fpops_bound" not in told and estimate > base.rsc_fpops_bound:
        fields["rsc_fpops_bound"] = estimate * _BOUND_OF_ESTIMATE
    return fields


def _roomy(workunit: NewWorkunit) -> NewWorkunit:
    """Raise, as BOINC does, the limits below the number of results that are made at first."""
    return replace(
        workunit,
        max_total_results=max(workunit.max_total_results or 0, workunit.target),
        max_success_results=max(workunit.max_success_results or 0, workunit.target),
    )


def _outputs(template: OutputTemplate) -> tuple[NewOutput, ...]:
    return tuple(
        NewOutput(
            open_name=each.open_name,
            max_nbytes=each.max_nbytes,
            optional=each.optional,
            copy_file=each.copy_file,
            sticky=each.sticky,
            no_validate=each.no_validate,
            no_delete=each.no_delete,
            gzip_when_done=each.gzip_when_done,
            report_immediately=template.report_immediately,
        )
        for each in template.outputs
    )


def _place(wanted: Sequence[TemplateInput], given: Sequence[GivenFile]) -> tuple[Placed, ...]:
    if (count := sum(not each.is_constant for each in wanted)) != len(given):
        raise WrongFiles(count, len(given))
    left = iter(given)
    return tuple(
        _constant(each) if each.is_constant else _taken(each, next(left)) for each in wanted
    )


def _constant(wanted: TemplateInput) -> Placed:
    name = wanted.physical_name or ""
    return Placed(_used(wanted, name), constant=name)


def _taken(wanted: TemplateInput, given: GivenFile) -> Placed:
    file = replace(
        _used(wanted, given.name),
        content=given.content,
        path=given.path,
        known_as=given.known_as,
    )
    if not wanted.urls:
        return Placed(file, remote=given.remote)
    # As BOINC has it: the address is the template's, the end of it the submission's.
    urls = tuple(url + given.name for url in wanted.urls)
    remote = RemoteFile(name=given.name, urls=urls, md5=wanted.md5, nbytes=wanted.nbytes)
    return Placed(replace(file, content=None, path=None, known_as=None), remote=remote)


def _used(wanted: TemplateInput, name: str) -> NewFile:
    return NewFile(
        open_name=wanted.open_name or name,
        copy_file=wanted.copy_file,
        sticky=wanted.sticky,
        no_delete=wanted.no_delete,
    )
