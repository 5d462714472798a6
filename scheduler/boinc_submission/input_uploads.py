"""Receives input files of BOINC's submitters: `job_file.php` (PROTOCOL 8.2).

A submitter first queries which files are missing on the server, and then sends the missing files as
parts of a form.  After the key is checked, the parts are copied from the connection to the disk one
by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import IO, BinaryIO, Final, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from scheduler import storage
from scheduler.boinc.wire.xml import BadXml
from scheduler.boinc_submission import sent_files
from scheduler.boinc_submission.described_work import moment
from scheduler.boinc_submission.handler import (
    ERR_GENERIC,
    Answer,
    Call,
    run_command,
    safe_reply,
    xml_reply,
)
from scheduler.boinc_submission.multipart import BadForm, Form, read_form
from scheduler.boinc_submission.remote_submission import RemoteRefused
from scheduler.boinc_submission.wire import replies as wire
from scheduler.boinc_submission.wire.requests import read_request
from scheduler.models import Batch


@csrf_exempt
@require_http_methods(["POST"])
def job_file(request: HttpRequest) -> HttpResponse:
    """Answer a query for missing files, or receive files."""
    try:
        form = read_form(request, max_bytes=settings.PROJECT.max_request_bytes)
        message = read_request(form.request)
    except (BadForm, BadXml) as fault:
        return xml_reply(wire.error("", ERR_GENERIC, f"can't parse request message: {fault}"))
    call = Call(message, timezone.now())
    if message.command == "upload_files":
        return safe_reply(message.command, lambda: _upload_files(call, form))
    return run_command(call, _COMMANDS, "no such action")


def _query_files(call: Call) -> str:
    names = call.request.texts("phys_name")
    return wire.absent_files(sent_files.absent(call.account, names, until=_until(call)))


def _upload_files(call: Call, form: Form) -> str:
    names, account, until = call.request.texts("phys_name"), call.account, _until(call)
    for name in names:
        storage.check_name(name)
    staged: list[storage.Staged] = []
    try:
        for _field, content in form.files():
            if len(staged) == len(names):
                raise RemoteRefused(_counts(f"more than {len(names)}", len(names)))
            staged.append(storage.stage_file(cast("BinaryIO", _SpaceChecked(content))))
        if len(staged) < len(names):
            raise RemoteRefused(_counts(str(len(staged)), len(names)))
        files = list(zip(names, staged, strict=True))
        sent_files.keep(account, files, until=until, now=call.now)
    finally:
        for left_over in staged:
            storage.discard(left_over)
    return wire.fields([("success", True)])


class _SpaceChecked:
    """Wraps a file of unknown length, and checks the free disk space before each read."""

    def __init__(self, content: IO[bytes]) -> None:
        self._content = content

    def read(self, size: int = -1) -> bytes:
        """Read a chunk; raises `RemoteRefused` if the disk is full."""
        if not storage.has_room_for(max(size, 0)):
            raise RemoteRefused("the server's disk is full. Hint: try again later.")
        return self._content.read(size)


def _counts(n_files: str, n_names: int) -> str:
    return (
        f"# of uploaded files ({n_files}) doesn't agree with request ({n_names}). "
        "Hint: send one file for each phys_name, in the same order."
    )


def _until(call: Call) -> datetime:
    """Return the time until which the files are held; raises `RemoteRefused`.

    The batch, if any, must be one of the submitter.
    """
    batch: Batch | None = call.batch if call.request.whole("batch_id") else None
    return sent_files.until(
        delete_at=moment(call.request.real("delete_time")), batch=batch, now=call.now
    )


_COMMANDS: Final[Mapping[str, Answer]] = {"query_files": _query_files}
