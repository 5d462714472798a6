"""Builds workunits from command options and BOINC templates, for `submit_work`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from scheduler.boinc_submission import sent_files, templates
from scheduler.boinc_submission.rules.templated import SubmittedFile, WorkunitDescription
from scheduler.boinc_submission.templates import Templates
from scheduler.models import Account, App
from scheduler.work.submission import submit
from scheduler.work.submission.submission_checks import find_target

#: Numeric fields of a workunit, by the command option that sets them.
NUMBERS: Mapping[str, str] = {
    "quorum": "min_quorum",
    "fpops": "rsc_fpops_est",
    "memory": "rsc_memory_bound",
    "disk": "rsc_disk_bound",
    "bandwidth": "rsc_bandwidth_bound",
    "target": "target_nresults",
    "max_errors": "max_error_results",
}
#: Fields of a workunit that are copied from the options, because templates cannot set them.
_COMMON = (
    *("max_timeouts", "priority", "app_version_num", "keywords", "broadcast", "held"),
    *("target_host", "target_account", "target_team", "start_after", "start_before", "end_before"),
)


def workunits(
    options: Mapping[str, Any],
    common: submit.NewWorkunit,
    *,
    submitter: Account | None,
    now: datetime,
) -> list[submit.NewWorkunit]:
    """Return one new workunit for each group of input files.

    The input template determines the number of files in a group.  `common` has the fields that
    templates cannot set.  Values of the template take precedence over options, as in BOINC.  Raises
    `CommandError` for a wrong number of files, and the exceptions in `submit_work`'s `refusals`.
    """
    find_target(options["app"])
    app = App.objects.get(name=options["app"])
    used = _templates(options, app)
    paths = [Path(path) for path in options["paths"]]
    groups = list(_groups(paths, templates.wanted_files(used.input)))
    drafts = templates.workunits(
        [(used, _described(paths, options)) for paths in groups],
        app=app,
        numbers=_numbers(options),
    )
    files = sent_files.find(submitter, templates.names(drafts))
    files |= sent_files.keep_remote_files(submitter, templates.remotes(drafts), now=now)
    fields = {name: getattr(common, name) for name in _COMMON}
    return [replace(templates.with_files(draft, files), **fields) for draft in drafts]


def _templates(options: Mapping[str, Any], app: App) -> Templates:
    own = templates.of_app(app)
    input_text = _text(options["input_template"]) or (own.input if own else "")
    output_text = _text(options["output_template"]) or (own.output if own else None)
    if not input_text:
        msg = f"App {app} has no input template. Hint: name one with --input-template."
        raise CommandError(msg)
    return Templates(input_text, output_text)


def _text(name: str | None) -> str:
    """Return the text of a template, or an empty string if `name` is None.

    `name` is a path, or the name of a file in ``var/templates``.
    """
    if name is None:
        return ""
    path = Path(name)
    if path.is_file():
        return path.read_text(encoding="utf-8", errors="replace")
    if "/" in name:
        msg = f"There is no file {name}. Hint: check the path."
        raise CommandError(msg)
    return templates.by_name(name)


def _groups(paths: Sequence[Path], wanted: int) -> Iterable[Sequence[Path]]:
    if not wanted:
        if paths:
            msg = f"The template needs no input files, {len(paths)} are given. Hint: give none."
            raise CommandError(msg)
        return [()]
    if not paths or len(paths) % wanted:
        msg = (
            f"The template needs {wanted} input files for each workunit, {len(paths)} are given. "
            f"Hint: give {wanted} files for each workunit, one after the other."
        )
        raise CommandError(msg)
    return [paths[first : first + wanted] for first in range(0, len(paths), wanted)]


def _described(paths: Sequence[Path], options: Mapping[str, Any]) -> WorkunitDescription:
    name = paths[0].name if paths else ""
    return WorkunitDescription(
        command_line=(options["command_line"] or "").replace("{file}", name),
        files=tuple(SubmittedFile(name=path.name, path=str(path)) for path in paths),
    )


def _numbers(options: Mapping[str, Any]) -> dict[str, float]:
    numbers = {name: options[o] for o, name in NUMBERS.items() if options[o] is not None}
    if options["deadline"] is not None:
        numbers["delay_bound"] = options["deadline"].total_seconds()
    return numbers
