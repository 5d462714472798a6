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
    "cpus": "requested_cpus",
    "gpus": "requested_gpus",
    "start_offset": "start_offset_seconds",
    "bandwidth": "rsc_bandwidth_bound",
    "target": "target_nresults",
    "max_errors": "max_error_results",
}
#: Fields that are part of a workunit's description.  The bound on operations follows the estimate.
_DESCRIBED = frozenset({*NUMBERS.values(), "delay_bound", "rsc_fpops_bound"})
#: Fields of which a workunit has at most one, so that an option for one of them resets the others.
_TARGETS: Mapping[str, Any] = {
    "target_host": None,
    "target_account": None,
    "target_team": None,
    "broadcast": False,
}


def workunits(
    options: Mapping[str, Any],
    fields: Mapping[str, Any],
    *,
    submitter: Account | None,
    now: datetime,
) -> list[submit.NewWorkunit]:
    """Return one new workunit for each group of input files.

    The input template determines the number of files in a group.  `fields` has only the fields of
    `NewWorkunit` whose options were given.  Values of the template take precedence over options, as
    in BOINC's ``create_work``; both take precedence over the app's `workunit_defaults`.  Raises
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
        numbers=_numbers(fields),
    )
    files = sent_files.find(submitter, templates.names(drafts))
    files |= sent_files.keep_remote_files(submitter, templates.remotes(drafts), now=now)
    # `numbers` has the others, because a template may set them.
    others = {name: value for name, value in fields.items() if name not in _DESCRIBED}
    if _TARGETS.keys() & others.keys():
        others = {**_TARGETS, **others}
    return [replace(templates.with_files(draft, files), **others) for draft in drafts]


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


def _numbers(fields: Mapping[str, Any]) -> dict[str, float]:
    numbers = {name: fields[name] for name in NUMBERS.values() if name in fields}
    if "delay_bound" in fields:
        numbers["delay_bound"] = fields["delay_bound"].total_seconds()
    return numbers
