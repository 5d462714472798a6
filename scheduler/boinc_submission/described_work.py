"""Converts a submission in BOINC's format to the description of a batch."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from scheduler.boinc_submission.remote_submission import (
    NewRemoteBatch,
    RemoteRefused,
    SubmittedWorkunit,
)
from scheduler.boinc_submission.rules.templated import (
    RemoteFile,
    SubmittedFile,
    WorkunitDescription,
)
from scheduler.boinc_submission.wire.requests import BatchElement, InputFile, JobElement, Request
from scheduler.boinc_submission.wire.templates import MD5, URL
from scheduler.storage import check_name, shared_file

_NUMBERS: Final = (
    "rsc_disk_bound",
    "rsc_fpops_est",
    "rsc_fpops_bound",
    "rsc_memory_bound",
    "delay_bound",
)
#: The last Unix time that a `datetime` can hold: the end of the year 9999.
_MAX_UNIX_TIME: Final = 253_402_300_799


def new_batch(request: Request) -> NewRemoteBatch:
    """Return the batch that a request submits; raises `RemoteRefused`."""
    batch = request.batch
    if batch is None:
        raise RemoteRefused("no batch. Hint: describe the jobs in a <batch>.")
    return NewRemoteBatch(
        app_name=batch.text("app_name"),
        batch_id=batch.whole("batch_id"),
        name=batch.text("batch_name"),
        # BOINC's server expects the second name in the command `estimate_batch`.
        input_template_name=batch.text("input_template_filename")
        or batch.text("workunit_template_file"),
        output_template_name=batch.text("output_template_filename"),
        numbers={name: value for name in _NUMBERS if (value := batch.job_params.real(name)) > 0},
        workunits=tuple(_workunit(job, batch) for job in batch.jobs),
    )


def moment(seconds: float) -> datetime | None:
    """Convert a Unix time; returns None for 0, which means "none", and for times out of range."""
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds <= _MAX_UNIX_TIME else None


def _workunit(job: JobElement, batch: BatchElement) -> SubmittedWorkunit:
    estimate = job.real("rsc_fpops_est")
    team, user, host = (job.whole(f"target_{kind}") or None for kind in ("team", "user", "host"))
    described = WorkunitDescription(
        name=job.text("name") or None,
        command_line=job.text("command_line"),
        files=tuple(_file(each) for each in job.input_files),
        numbers={"rsc_fpops_est": estimate} if estimate > 0 else {},
        priority=_priority(job, batch),
        queue=job.text("queue") or batch.text("queue") or None,
        app_version_num=max(0, batch.whole("app_version_num")),
        target_team=team,
        target_account=None if team else user,
        target_host=None if team or user else host,
    )
    return SubmittedWorkunit(
        described=described, input_template=job.input_template, output_template=job.output_template
    )


def _priority(job: JobElement, batch: BatchElement) -> int | None:
    """Return the priority of the job, or else the priority of the batch.

    Returns None if the request contains no priority, or `allocation_priority`.  In this case, the
    submitters' shares determine the priority.
    """
    if job.has("priority"):
        return job.whole("priority")
    if batch.has("allocation_priority") or not batch.has("priority"):
        return None
    return batch.whole("priority")


def _file(element: InputFile) -> SubmittedFile:
    mode = element.text("mode")
    if mode in _MODES:
        return _MODES[mode](element)
    hint = _REFUSED.get(mode, f"Hint: the modes are {', '.join(_MODES)}.")
    raise RemoteRefused(f"unsupported file mode: {mode or 'none'}. {hint}")


def _inline(element: InputFile) -> SubmittedFile:
    content = element.source.encode()
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return SubmittedFile(name=f"jf_{digest}", content=content)


def _staged(element: InputFile) -> SubmittedFile:
    name = element.source.strip()
    check_name(name)
    return SubmittedFile(name=name, known_as=name)


def _local(element: InputFile) -> SubmittedFile:
    path = shared_file(element.source.strip())
    return SubmittedFile(name=path.rpartition("/")[2], path=path)


def _remote(element: InputFile) -> SubmittedFile:
    url, md5, nbytes = element.text("url"), element.text("md5").lower(), element.real("nbytes")
    if not URL.fullmatch(url):
        msg = f"{url[:60]!r} is not an HTTP URL. Hint: begin it with http:// or https://."
        raise RemoteRefused(msg)
    if not MD5.fullmatch(md5) or nbytes < 1:
        msg = "a remote file needs its md5 (32 hexadecimal digits) and its nbytes. Hint: send both."
        raise RemoteRefused(msg)
    remote = RemoteFile(urls=(url,), md5=md5, nbytes=int(nbytes))
    return SubmittedFile(name=f"jf_{md5}", remote=remote)


_MODES: Final[Mapping[str, Callable[[InputFile], SubmittedFile]]] = {
    "local_staged": _staged,
    "inline": _inline,
    "remote": _remote,
    "local": _local,
}
_REFUSED: Final = {
    "sandbox": "Hint: this server has no sandboxes: send files to job_file.php, as local_staged.",
    "semilocal": "Hint: this server fetches no files: use mode remote, or send it to job_file.php.",
}
