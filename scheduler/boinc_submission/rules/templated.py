"""Makes workunits from templates and the descriptions in a submission.

A number is taken from the first source that sets it: the workunit, its template, the whole
submission, the app, BOINC's defaults.

This module uses no database, files or clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from scheduler.boinc_submission.facts import InputTemplate, OutputTemplate, TemplateInput
from scheduler.work.submission.facts import NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.rules.work_from_dicts import new_workunit, with_field_names

#: The defaults of BOINC's own tools (PROTOCOL 7.1).
BOINC_DEFAULTS: Mapping[str, float] = {
    "max_error_results": 1,
    "max_total_results": 1,
    "max_success_results": 1,
}
#: The default of `rsc_fpops_bound`, as a multiple of `rsc_fpops_est`.
_BOUND_OF_ESTIMATE = 10
_MAX_SECONDS = 8.6e13
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
    """A submission names more or fewer files than its template needs.

    Hint: name one for each <file_info> without <physical_name>, in the same order.
    """

    def __init__(self, n_wanted: int, n_submitted: int) -> None:
        self.n_wanted, self.n_submitted = n_wanted, n_submitted
        super().__init__(
            f"The template needs {n_wanted} input files, but {n_submitted} are named. "
            "Hint: name one for each <file_info> without <physical_name>, in the same order."
        )


class TwoCommandLines(ValueError):
    """Template and submission both have a command line. Hint: write it in one of them."""

    def __init__(self, template: str, submission: str) -> None:
        super().__init__(
            f"The submission has the command line {submission[:60]!r}, "
            f"and the template has {template[:60]!r}. "
            "Hint: write it in one of them."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file that hosts download from other servers."""

    urls: tuple[str, ...]
    md5: str
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedFile:
    """A file of a submission: the name, and exactly one source of the content."""

    name: str
    content: bytes | None = None
    path: str | None = None
    known_as: str | None = None
    remote: RemoteFile | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkunitDescription:
    """The parts of a submission that describe one workunit, besides its templates."""

    name: str | None = None
    command_line: str = ""
    files: tuple[SubmittedFile, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    priority: int | None = None
    queue: str | None = None
    app_version_num: int = 0
    target_host: int | None = None
    target_account: int | None = None
    target_team: int | None = None


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """An input file at its position in the workunit.

    `constant` is the name of a stored file, `remote` is a file on another server.  If both are
    None, `file` contains the source of the content.
    """

    file: NewFile
    constant: str | None = None
    remote: RemoteFile | None = None


@dataclass(frozen=True, slots=True)
class Templated:
    """A workunit whose input files are not resolved yet; `workunit.input_files` is empty."""

    workunit: NewWorkunit
    inputs: tuple[PlacedFile, ...]


def templated(
    description: WorkunitDescription,
    *,
    inputs: InputTemplate,
    outputs: OutputTemplate | None,
    numbers: Mapping[str, float],
    defaults: Mapping[str, Any],
) -> Templated:
    """Make one workunit from its templates; raises `WrongFiles`, `TwoCommandLines`.

    `numbers` apply to the whole submission.  `defaults` are the app's `workunit_defaults`; the
    outputs in them are used if there is no output template.  Raises `BadDescription` for invalid
    defaults.
    """
    if inputs.command_line and description.command_line:
        raise TwoCommandLines(inputs.command_line, description.command_line)
    merged = {**numbers, **inputs.numbers, **description.numbers}
    defaults = with_field_names(defaults)
    workunit = new_workunit({**BOINC_DEFAULTS, **defaults})
    workunit = replace(
        workunit,
        **_fields(merged, workunit, explicit={*defaults, *merged}),
        name=description.name,
        command_line=description.command_line or inputs.command_line or workunit.command_line,
        outputs=workunit.outputs if outputs is None else _outputs(outputs),
        queue=description.queue or inputs.queue or workunit.queue,
        priority=workunit.priority if description.priority is None else description.priority,
        app_version_num=description.app_version_num or workunit.app_version_num,
        **_targets(description),
    )
    max_retries = defaults.get("max_retry_count")
    if max_retries is not None and "max_total_results" not in merged:
        # The template has the number of results created at first.
        workunit = replace(workunit, max_total_results=max_retries + workunit.target)
    return Templated(_with_room(workunit), _place(inputs, description.files))


def _targets(description: WorkunitDescription) -> dict[str, Any]:
    """Return the three targets of a submission, or {} if it has none, so that defaults apply."""
    targets = {
        name: getattr(description, name)
        for name in ("target_host", "target_account", "target_team")
    }
    return {} if set(targets.values()) == {None} else targets


def _fields(
    numbers: Mapping[str, float], base: NewWorkunit, *, explicit: set[str]
) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name: int(value) if name in _WHOLE else value for name, value in numbers.items()
    }
    if "delay_bound" in numbers:
        # A timedelta cannot be longer; the submission is refused, because this value is too large.
        fields["delay_bound"] = timedelta(seconds=min(numbers["delay_bound"], _MAX_SECONDS))
    estimate = fields.get("rsc_fpops_est", base.rsc_fpops_est)
    if "rsc_fpops_bound" not in explicit and estimate > base.rsc_fpops_bound:
        fields["rsc_fpops_bound"] = estimate * _BOUND_OF_ESTIMATE
    return fields


def _with_room(workunit: NewWorkunit) -> NewWorkunit:
    """Return the workunit with result limits of at least `target`, as in BOINC."""
    return replace(
        workunit,
        max_total_results=max(workunit.max_total_results or 0, workunit.target),
        max_success_results=max(workunit.max_success_results or 0, workunit.target),
    )


def _outputs(template: OutputTemplate) -> tuple[NewOutput, ...]:
    at_once = template.report_immediately
    return tuple(replace(each, report_immediately=at_once) for each in template.outputs)


def _place(template: InputTemplate, submitted: Sequence[SubmittedFile]) -> tuple[PlacedFile, ...]:
    if template.wanted != len(submitted):
        raise WrongFiles(template.wanted, len(submitted))
    left = iter(submitted)
    return tuple(
        _constant_file(each) if each.is_constant else _submitted_file(each, next(left))
        for each in template.inputs
    )


def _constant_file(wanted: TemplateInput) -> PlacedFile:
    name = wanted.physical_name or ""
    return PlacedFile(_new_file(wanted, name), constant=name)


def _submitted_file(wanted: TemplateInput, submitted: SubmittedFile) -> PlacedFile:
    file = replace(
        _new_file(wanted, submitted.name),
        content=submitted.content,
        path=submitted.path,
        known_as=submitted.known_as,
    )
    if not wanted.urls:
        return PlacedFile(file, remote=submitted.remote)
    # As in BOINC, the name in the submission is appended to the URL in the template.
    urls = tuple(url + submitted.name for url in wanted.urls)
    remote = RemoteFile(urls=urls, md5=wanted.md5, nbytes=wanted.nbytes)
    return PlacedFile(replace(file, content=None, path=None, known_as=None), remote=remote)


def _new_file(wanted: TemplateInput, name: str) -> NewFile:
    return NewFile(
        open_name=wanted.open_name or name,
        copy_file=wanted.copy_file,
        sticky=wanted.sticky,
        no_delete=wanted.no_delete,
    )
