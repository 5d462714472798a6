"""Messages to facts: what a submission of BOINC's says of its workunits."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from scheduler.boinc_submission.remote_submission import NewRemoteBatch, Own, RemoteRefused
from scheduler.boinc_submission.templates import Described, GivenFile, RemoteFile
from scheduler.boinc_submission.wire.requests import BatchSaid, InputFile, JobSaid, Request
from scheduler.storage import check_name, shared_file

_NUMBERS: Final = (
    "rsc_disk_bound",
    "rsc_fpops_est",
    "rsc_fpops_bound",
    "rsc_memory_bound",
    "delay_bound",
)
_URL: Final = re.compile(r"https?://[^\s<>\"'\\]{1,900}")
_MD5: Final = re.compile(r"[0-9a-fA-F]{32}")
#: Later than this nothing expires; datetimes end there.
_LATEST: Final = 253_402_300_799


def new_batch(request: Request) -> NewRemoteBatch:
    """What a request submits; raises `RemoteRefused`."""
    batch = request.batch
    if batch is None:
        msg = "no batch. Hint: describe the jobs in a <batch>."
        raise RemoteRefused(msg)
    return NewRemoteBatch(
        app_name=batch.text("app_name"),
        batch_id=batch.whole("batch_id"),
        name=batch.text("batch_name"),
        # The second name is how BOINC's own server spells it where it estimates.
        input_template_name=batch.text("input_template_filename")
        or batch.text("workunit_template_file"),
        output_template_name=batch.text("output_template_filename"),
        numbers={name: value for name in _NUMBERS if (value := batch.job_params.real(name)) > 0},
        workunits=tuple(_own(job, batch) for job in batch.jobs),
    )


def moment(seconds: float) -> datetime | None:
    """A moment of the wire; None for 0, which says none, and for what no calendar has."""
    return datetime.fromtimestamp(seconds, UTC) if 0 < seconds <= _LATEST else None


def _own(job: JobSaid, batch: BatchSaid) -> Own:
    estimate = job.real("rsc_fpops_est")
    described = Described(
        name=job.text("name") or None,
        command_line=job.text("command_line"),
        files=tuple(_file(each) for each in job.input_files),
        numbers={"rsc_fpops_est": estimate} if estimate > 0 else {},
        priority=_priority(job, batch),
        app_version_num=max(0, batch.whole("app_version_num")),
        target_team=job.whole("target_team") or None,
        target_account=None if job.whole("target_team") else job.whole("target_user") or None,
        target_host=_target_host(job),
    )
    return Own(
        described=described,
        input_template=job.input_template,
        output_template=job.output_template,
    )


def _target_host(job: JobSaid) -> int | None:
    if job.whole("target_team") or job.whole("target_user"):
        return None
    return job.whole("target_host") or None


def _priority(job: JobSaid, batch: BatchSaid) -> int | None:
    """The job's own, or the batch's; by allocation the project's shares say it."""
    if job.has("priority"):
        return job.whole("priority")
    if batch.has("allocation_priority") or not batch.has("priority"):
        return None
    return batch.whole("priority")


def _file(said: InputFile) -> GivenFile:
    mode = said.text("mode")
    if mode in _MODES:
        return _MODES[mode](said)
    hint = _REFUSED.get(mode, f"Hint: the modes are {', '.join(_MODES)}.")
    msg = f"unsupported file mode: {mode or 'none'}. {hint}"
    raise RemoteRefused(msg)


def _inline(said: InputFile) -> GivenFile:
    content = said.source.encode()
    digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return GivenFile(name=f"jf_{digest}", content=content)


def _staged(said: InputFile) -> GivenFile:
    name = said.source.strip()
    check_name(name)
    return GivenFile(name=name, known_as=name)


def _local(said: InputFile) -> GivenFile:
    path = shared_file(said.source.strip())
    return GivenFile(name=path.rpartition("/")[2], path=path)


def _remote(said: InputFile) -> GivenFile:
    url, md5, nbytes = said.text("url"), said.text("md5").lower(), said.real("nbytes")
    if not _URL.fullmatch(url):
        msg = f"{url[:60]!r} is no URL that hosts can fetch. Hint: begin it with http or https."
        raise RemoteRefused(msg)
    if not _MD5.fullmatch(md5) or nbytes < 1:
        msg = "a remote file needs its md5 (32 hexadecimal digits) and its nbytes. Hint: give both."
        raise RemoteRefused(msg)
    remote = RemoteFile(name=f"jf_{md5}", urls=(url,), md5=md5, nbytes=int(nbytes))
    return GivenFile(name=remote.name, remote=remote)


_MODES: Final[Mapping[str, Callable[[InputFile], GivenFile]]] = {
    "local_staged": _staged,
    "inline": _inline,
    "remote": _remote,
    "local": _local,
}
_REFUSED: Final = {
    "sandbox": "Hint: there are no sandboxes here: send the file by job_file.php, as local_staged.",
    "semilocal": "Hint: this server fetches nothing: use mode remote, or send it by job_file.php.",
}
