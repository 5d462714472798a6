"""Workunits of a shell's words and BOINC's templates, for `submit_work`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from scheduler.boinc_submission import sent_files, templates
from scheduler.boinc_submission.templates import Described, GivenFile, Templates
from scheduler.models import Account, App
from scheduler.work.submission import submit
from scheduler.work.submission.submission_checks import find_target

#: Options that set a number of BOINC's.
NUMBERS: Mapping[str, str] = {
    "quorum": "min_quorum",
    "fpops": "rsc_fpops_est",
    "memory": "rsc_memory_bound",
    "disk": "rsc_disk_bound",
    "bandwidth": "rsc_bandwidth_bound",
    "target": "target_nresults",
    "max_errors": "max_error_results",
}


def workunits(
    options: Mapping[str, Any],
    common: submit.NewWorkunit,
    *,
    submitter: Account | None,
    now: datetime,
) -> list[submit.NewWorkunit]:
    """One workunit for as many files as the input template wants; `common` says the rest.

    What the template says goes before what the options say, as in BOINC.  Raises what reading a
    template raises, and `CommandError` for files left over.
    """
    find_target(options["app"])
    app = App.objects.get(name=options["app"])
    given = _templates(options, app)
    paths = [Path(path) for path in options["paths"]]
    groups = list(_groups(paths, templates.wanted_files(given.input)))
    made = templates.workunits(
        [(given, _described(paths, options)) for paths in groups], app=app, numbers=_said(options)
    )
    found = sent_files.find(submitter, templates.names(made))
    found |= sent_files.keep_elsewhere(submitter, templates.remotes(made), now=now)
    return [_with_rest(templates.finished(one, found), common) for one in made]


def _templates(options: Mapping[str, Any], app: App) -> Templates:
    own = templates.of_app(app)
    given = _text(options["input_template"]) or (own.input if own else "")
    brought = _text(options["output_template"]) or (own.output if own else None)
    if not given:
        msg = f"App {app} has no input template. Hint: name one with --input-template."
        raise CommandError(msg)
    return Templates(given, brought)


def _text(named: str | None) -> str:
    """The text of a template: a file's, by path, or by its name in ``var/templates``."""
    if named is None:
        return ""
    path = Path(named)
    if path.is_file():
        return path.read_text(encoding="utf-8", errors="replace")
    if "/" in named:
        msg = f"There is no file {named}. Hint: check the path."
        raise CommandError(msg)
    return templates.named(named)


def _groups(paths: Sequence[Path], wanted: int) -> Iterable[Sequence[Path]]:
    if not wanted:
        if paths:
            msg = f"The template wants no input files, {len(paths)} are given. Hint: give none."
            raise CommandError(msg)
        return [()]
    if not paths or len(paths) % wanted:
        msg = (
            f"The template wants {wanted} input files for each workunit, {len(paths)} are given. "
            f"Hint: give {wanted} for each, one after the other."
        )
        raise CommandError(msg)
    return [paths[first : first + wanted] for first in range(0, len(paths), wanted)]


def _described(paths: Sequence[Path], options: Mapping[str, Any]) -> Described:
    return Described(
        command_line=(options["command_line"] or "").replace(
            "{file}", paths[0].name if paths else ""
        ),
        files=tuple(GivenFile(name=path.name, path=str(path)) for path in paths),
    )


def _said(options: Mapping[str, Any]) -> dict[str, float]:
    said = {name: options[o] for o, name in NUMBERS.items() if options[o] is not None}
    if options["deadline"] is not None:
        said["delay_bound"] = options["deadline"].total_seconds()
    return said


def _with_rest(workunit: submit.NewWorkunit, common: submit.NewWorkunit) -> submit.NewWorkunit:
    return replace(
        workunit,
        max_timeouts=common.max_timeouts,
        priority=common.priority,
        app_version_num=common.app_version_num,
        keywords=common.keywords,
        target_host=common.target_host,
        target_account=common.target_account,
        target_team=common.target_team,
        broadcast=common.broadcast,
        start_after=common.start_after,
        start_before=common.start_before,
        end_before=common.end_before,
        held=common.held,
    )
