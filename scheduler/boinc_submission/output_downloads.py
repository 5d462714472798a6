"""Serves outputs (`get_output.php`) and counts of work to BOINC's submitters.

Links to outputs contain a hash of the submitter's key (PROTOCOL 8.2).  The reply for a missing
output and for another submitter's output is the same: `ERROR:` and a message, as in BOINC.  Unlike
in BOINC, the status is 404, so that no program stores the message as an output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import datetime
from typing import Final

from django.http import FileResponse, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.views.decorators.http import require_safe

from scheduler import storage
from scheduler.boinc.wire.xml import INT64
from scheduler.boinc_submission import remote_outputs
from scheduler.boinc_submission.remote_outputs import Owned, Row
from scheduler.models import Workunit
from scheduler.people import account_keys

_NOT_YOURS: Final = (
    "bad authenticator, or no such {}: outputs are fetched with the submitter's submission key, "
    "which staff prints with `manage.py account_key make EMAIL --kind submission`. "
    "Hint: check the name and the owner of the key; keys of BOINC clients cannot fetch outputs."
)


class _NoOutput(LookupError):
    """An output cannot be sent; the exception's text is the reason."""


@require_safe
def get_output(request: HttpRequest) -> HttpResponseBase:
    """Send one output, or a zip of the outputs of a workunit or batch."""
    answer = _COMMANDS.get(request.GET.get("cmd", ""))
    if answer is None:
        return _error("bad command. Hint: the commands are " + ", ".join(_COMMANDS) + ".")
    try:
        return answer(request.GET, timezone.now())
    except _NoOutput as error:
        return _error(str(error))


def _error(message: str) -> HttpResponse:
    return HttpResponse(f"ERROR: {message}", status=404, content_type="text/plain")


Params = Mapping[str, str]


def _recorded(owned: Owned[Row] | None, what: str, now: datetime) -> Row:
    """Return the row, and record the use of the key; raises `_NoOutput` if `owned` is None."""
    if owned is None:
        raise _NoOutput(_NOT_YOURS.format(what))
    account_keys.record_use(owned.submitter, owned.key, now=now)
    return owned.row


def _result_file(params: Params, now: datetime) -> HttpResponseBase:
    name = _name(params, "result_name")
    owned = remote_outputs.result(name, key_hash=params.get("auth_str", ""))
    result = _recorded(owned, "job instance", now)
    return _one(result.pk, _number(params, "file_num"))


def _workunit_file(params: Params, now: datetime) -> HttpResponseBase:
    name, key = _name(params, "wu_name"), params.get("auth_str", "")
    workunit = _recorded(remote_outputs.workunit_by_name(name, key=key), "workunit", now)
    return _one(_canonical(workunit), _number(params, "file_num"))


def _workunit_files(params: Params, now: datetime) -> HttpResponseBase:
    workunit_id = _number(params, "wu_id")
    owned = remote_outputs.workunit(workunit_id, key_hash=params.get("auth_str", ""))
    workunit = _recorded(owned, "workunit", now)
    if workunit.batch_id is None:
        raise _NoOutput(_NOT_YOURS.format("workunit"))
    _canonical(workunit)
    return _zip(f"{workunit.name}.zip", workunit.batch_id, workunit.pk, now)


def _batch_files(params: Params, now: datetime) -> HttpResponseBase:
    owned = remote_outputs.batch(
        batch_id=_number(params, "batch_id"),
        name=_name(params, "batch_name"),
        key_hash=params.get("auth_str", ""),
    )
    batch = _recorded(owned, "batch", now)
    return _zip(f"batch_{batch.pk}.zip", batch.pk, None, now)


def _name(params: Params, name: str) -> str:
    """Return a parameter; NUL, which PostgreSQL refuses, is replaced by "?"."""
    return params.get(name, "").replace("\0", "?")


def _number(params: Params, name: str) -> int:
    text = params.get(name, "")
    # Python refuses to convert numbers of more than 4300 digits.
    if text and not (re.fullmatch(r"[0-9]{1,19}", text) and int(text) <= INT64):
        raise _NoOutput(f"{name} is not a number: {text[:40]!r}. Hint: send a whole number.")
    return int(text or 0)


def _canonical(workunit: Workunit) -> int:
    if workunit.canonical_result_id is None:
        msg = f"no canonical result for wu {workunit.name}. Hint: wait until it is finished."
        raise _NoOutput(msg)
    return workunit.canonical_result_id


def _one(result_id: int, position: int) -> HttpResponseBase:
    output = remote_outputs.output(result_id, position)
    if output is None:
        raise _NoOutput(f"bad file num: {position}. Hint: outputs are counted from 0.")
    try:
        source = storage.open_upload(output.name)
    except (OSError, storage.BadFileName):
        msg = f"no such file {output.name}. Hint: check if its batch was retired."
        raise _NoOutput(msg) from None
    response = FileResponse(
        source, as_attachment=True, filename=output.name, content_type="application/octet-stream"
    )
    response["Content-Length"] = str(output.nbytes)
    return response


def _zip(name: str, batch_id: int, workunit_id: int | None, now: datetime) -> HttpResponseBase:
    response = StreamingHttpResponse(
        storage.gathered(_zipped(batch_id, workunit_id, now)), content_type="application/zip"
    )
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    # Otherwise a proxy would store a large zip on its disk before it sends the first byte.
    response["X-Accel-Buffering"] = "no"
    return response


def _zipped(batch_id: int, workunit_id: int | None, now: datetime) -> Iterator[bytes]:
    """Yield a zip archive of the outputs, with BOINC's names; deleted outputs are left out."""
    bundle: storage.Bundle = storage.BUNDLES["zip"]()
    for name, nbytes in remote_outputs.outputs_of(batch_id, workunit_id=workunit_id):
        with ExitStack() as stack:
            try:
                source = stack.enter_context(storage.open_upload(name))
            except (OSError, storage.BadFileName):
                continue
            yield from bundle.add(name, source, nbytes, now)
    yield from bundle.end()


_COMMANDS: Final[Mapping[str, Callable[[Params, datetime], HttpResponseBase]]] = {
    "result_file": _result_file,
    "batch_files": _batch_files,
    "workunit_file": _workunit_file,
    "workunit_files": _workunit_files,
}
