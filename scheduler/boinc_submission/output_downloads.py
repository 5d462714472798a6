"""Outputs for BOINC's submitters: `get_output.php`, and counts of work.

Links to outputs carry a hash of the submitter's key (PROTOCOL 8.2).  What is missing, and what is
another's, is the same to whoever asks: `ERROR:` and a sentence, as BOINC says it, with status 404,
so that no program takes the sentence for an output.
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
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_safe

from scheduler import storage
from scheduler.boinc.wire.xml import INT64
from scheduler.boinc_submission import remote_outputs
from scheduler.boinc_submission.handler import xml_reply
from scheduler.boinc_submission.remote_outputs import Owned, Row
from scheduler.boinc_submission.wire import replies as wire
from scheduler.health import status
from scheduler.models import Workunit
from scheduler.people import account_keys

_NOT_YOURS: Final = (
    "bad authenticator, or no such {}: outputs are fetched with the submitter's submission key, "
    "which staff prints with `manage.py account_key make EMAIL --kind submission`. "
    "Hint: check the name and the owner of the key; keys of BOINC clients cannot fetch outputs."
)


class _NoOutput(LookupError):
    """There is nothing to send; the text says why."""


@require_safe
def get_output(request: HttpRequest) -> HttpResponseBase:
    """Send one output, or a zip of those of a workunit or batch."""
    answer = _COMMANDS.get(request.GET.get("cmd", ""))
    if answer is None:
        return _error("bad command. Hint: there are " + ", ".join(_COMMANDS) + ".")
    try:
        return answer(request.GET, timezone.now())
    except _NoOutput as error:
        return _error(str(error))


def _error(message: str) -> HttpResponse:
    return HttpResponse(f"ERROR: {message}", status=404, content_type="text/plain")


Asked = Mapping[str, str]


def _recorded(found: Owned[Row] | None, what: str, now: datetime) -> Row:
    """Return the row, and record the use of the key; raises `_NoOutput` for None."""
    if found is None:
        raise _NoOutput(_NOT_YOURS.format(what))
    account_keys.record_use(found.submitter, found.key, now=now)
    return found.row


def _result_file(asked: Asked, now: datetime) -> HttpResponseBase:
    asked_for = remote_outputs.result(_name(asked, "result_name"), said=asked.get("auth_str", ""))
    found = _recorded(asked_for, "job instance", now)
    return _one(found.pk, _number(asked, "file_num"))


def _workunit_file(asked: Asked, now: datetime) -> HttpResponseBase:
    name, key = _name(asked, "wu_name"), asked.get("auth_str", "")
    found = _recorded(remote_outputs.workunit_by_name(name, key=key), "workunit", now)
    return _one(_canonical(found), _number(asked, "file_num"))


def _workunit_files(asked: Asked, now: datetime) -> HttpResponseBase:
    asked_for = remote_outputs.workunit(_number(asked, "wu_id"), said=asked.get("auth_str", ""))
    found = _recorded(asked_for, "workunit", now)
    if found.batch_id is None:
        raise _NoOutput(_NOT_YOURS.format("workunit"))
    _canonical(found)
    return _zip(f"{found.name}.zip", found.batch_id, found.pk, now)


def _batch_files(asked: Asked, now: datetime) -> HttpResponseBase:
    asked_for = remote_outputs.batch(
        batch_id=_number(asked, "batch_id"),
        name=_name(asked, "batch_name"),
        said=asked.get("auth_str", ""),
    )
    found = _recorded(asked_for, "batch", now)
    return _zip(f"batch_{found.pk}.zip", found.pk, None, now)


def _name(asked: Asked, name: str) -> str:
    """A name that is asked for; what no name has, PostgreSQL would not even look up."""
    return asked.get(name, "").replace("\0", "?")


def _number(asked: Asked, name: str) -> int:
    said = asked.get(name, "")
    # Python refuses to read numbers of more than 4300 digits.
    if said and not (re.fullmatch(r"[0-9]{1,19}", said) and int(said) <= INT64):
        raise _NoOutput(f"{name} is no number: {said[:40]!r}. Hint: give a whole number.")
    return int(said or 0)


def _canonical(workunit: Workunit) -> int:
    if workunit.canonical_result_id is None:
        raise _NoOutput(f"no canonical result for wu {workunit.name}. Hint: wait for its end.")
    return workunit.canonical_result_id


def _one(result_id: int, position: int) -> HttpResponseBase:
    found = remote_outputs.output(result_id, position)
    if found is None:
        raise _NoOutput(f"bad file num: {position}. Hint: outputs are counted from 0.")
    try:
        source = storage.open_upload(found.name)
    except (OSError, storage.BadFileName):
        raise _NoOutput(f"no such file {found.name}. Hint: was its batch retired?") from None
    response = FileResponse(
        source, as_attachment=True, filename=found.name, content_type="application/octet-stream"
    )
    response["Content-Length"] = str(found.nbytes)
    return response


def _zip(name: str, batch_id: int, workunit_id: int | None, now: datetime) -> HttpResponseBase:
    response = StreamingHttpResponse(
        storage.gathered(_zipped(batch_id, workunit_id, now)), content_type="application/zip"
    )
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    # A proxy in front would keep a large one on its disk before it sends the first byte.
    response["X-Accel-Buffering"] = "no"
    return response


def _zipped(batch_id: int, workunit_id: int | None, now: datetime) -> Iterator[bytes]:
    """The outputs under their physical names, as BOINC has them; what has gone is left out."""
    bundle: storage.Bundle = storage.BUNDLES["zip"]()
    for name, nbytes in remote_outputs.outputs_of(batch_id, workunit_id=workunit_id):
        with ExitStack() as stack:
            try:
                source = stack.enter_context(storage.open_upload(name))
            except (OSError, storage.BadFileName):
                continue
            yield from bundle.add(name, source, nbytes, now)
    yield from bundle.end()


_COMMANDS: Final[Mapping[str, Callable[[Asked, datetime], HttpResponseBase]]] = {
    "result_file": _result_file,
    "batch_files": _batch_files,
    "workunit_file": _workunit_file,
    "workunit_files": _workunit_files,
}


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def server_status(request: HttpRequest) -> HttpResponseBase:
    """Say how much work there is, as BOINC's libraries ask for it."""
    if request.GET.get("counts", "0") in {"", "0"}:
        return _error("only counts=1 is answered here. Hint: /status.json has all figures.")
    counted = status.current(now=timezone.now()).counted
    said = {
        "results_ready_to_send": counted.results["unsent"],
        "results_in_progress": counted.results["in_progress"],
        "results_need_file_delete": counted.deletable_outputs,
        "wus_need_validate": counted.waiting["validator"],
        "wus_need_assimilate": counted.waiting["assimilator"],
        "wus_need_file_delete": counted.waiting["file_deleter"],
    }
    return xml_reply(wire.counts(said))
