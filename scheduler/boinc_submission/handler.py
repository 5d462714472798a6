"""The commands of `submit_rpc_handler.php`, BOINC's interface for submitters.

Submitters can read and change only their own work; other work is reported as nonexistent.
Every reply has HTTP status 200, as BOINC's libraries expect.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from tempfile import SpooledTemporaryFile
from typing import Final

from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from scheduler import storage
from scheduler.boinc.database_outages import outage_log
from scheduler.boinc.wire.xml import BadXml
from scheduler.boinc_submission import remote_submission as operations
from scheduler.boinc_submission import reply_messages, sent_files, templates
from scheduler.boinc_submission import submission_reads as queries
from scheduler.boinc_submission.described_work import moment, new_batch
from scheduler.boinc_submission.multipart import BadForm, Form, content_length, read_form, spool
from scheduler.boinc_submission.remote_submission import RemoteRefused
from scheduler.boinc_submission.wire import replies as wire
from scheduler.boinc_submission.wire.requests import Request, read_request
from scheduler.files import download_files
from scheduler.health import maintenance
from scheduler.models import Account, AccountKey, Batch
from scheduler.people import account_keys, quotas
from scheduler.people.submitters import NotAllowed, require_submitter
from scheduler.work import batches
from scheduler.work.submission.submission_checks import SubmissionRefused

log = logging.getLogger(__name__)

XML: Final = "text/xml"
ERR_GENERIC: Final = -1
#: BOINC's error number for "the project is down" (PROTOCOL 0.3).
ERR_PROJECT_DOWN: Final = -183
SUCCESS: Final = "<success>1</success>\n"
#: BOINC's libraries read only 255 bytes, which include the first sentence.
_NO_SUBMISSION_KEY: Final = (
    "bad authenticator: submitting needs a submission key, which the project's staff prints with "
    "`manage.py account_key make EMAIL --kind submission`. "
    "Hint: keys of BOINC clients do not submit, and a password change revokes submission keys."
)

#: Longer requests are spooled to disk until they are complete.  Then each process answers one of
#: them at a time.  `MAX_LONG_REQUESTS` may be answered or queued, for up to
#: `_LONG_TIMEOUT_SECONDS`; more are refused at once, so that they do not occupy every thread.
_LONG_BYTES: Final = 1 << 20
_LONG_TIMEOUT_SECONDS: Final = 30.0
MAX_LONG_REQUESTS: Final = 8
_long_lock = threading.Lock()
_long_slots = threading.BoundedSemaphore(MAX_LONG_REQUESTS)

#: Errors that the submitter can correct; any other exception is a server error, status 500.
REFUSALS: Final = (
    RemoteRefused,
    NotAllowed,
    SubmissionRefused,
    BadForm,
    BadXml,
    batches.BatchNotReady,
    download_files.UnknownFiles,
    download_files.FileInMotion,
    quotas.QuotaExceeded,
    sent_files.FileChanged,
    storage.BadFileName,
    storage.NotShared,
    templates.BadTemplate,
    templates.NoTemplate,
)


@dataclass(frozen=True)
class Call:
    """A request and its time; the account is looked up on first access."""

    request: Request
    now: datetime

    @cached_property
    def account(self) -> Account:
        """The account of the request's key; raises `RemoteRefused`, `NotAllowed`."""
        return account_of(self.request, now=self.now)

    @property
    def batch(self) -> Batch:
        """The batch with the number or name in the request; raises `RemoteRefused`."""
        number, name = self.request.whole("batch_id"), self.request.text("batch_name")
        if not number and not name:
            raise RemoteRefused("batch not specified")
        batch = queries.find_batch(self.account, batch_id=number, name=name)
        if batch is None:
            raise RemoteRefused("no such batch")
        return batch


Answer = Callable[[Call], str]
"""Runs a command and returns the content of its reply."""


@csrf_exempt
@require_http_methods(["POST"])
def submit_rpc_handler(request: HttpRequest) -> HttpResponse:
    """Run the command of a submitter's request and return the reply."""
    return reply_to_form(request, _COMMANDS, "bad command")


def reply_to_form(http: HttpRequest, commands: Mapping[str, Answer], unknown: str) -> HttpResponse:
    """Run the command of the request in a form; `unknown` is the error for unknown commands."""
    max_bytes = settings.PROJECT.max_request_bytes
    try:
        if content_length(http) <= _LONG_BYTES:
            return _reply_to_form(read_form(http, max_bytes=max_bytes), commands, unknown)
        # A request is read completely before it is queued; otherwise a slow client would hold
        # the lock.
        with SpooledTemporaryFile(_LONG_BYTES) as body:
            spool(http, body, max_bytes=max_bytes)
            with _turn():
                return _reply_to_form(
                    read_form(http, max_bytes=max_bytes, body=body), commands, unknown
                )
    except _Busy:
        return xml_reply(wire.error("", ERR_PROJECT_DOWN, "The project is busy; try again."))
    except BadForm as refusal:
        return xml_reply(wire.error("", ERR_GENERIC, f"can't parse request message: {refusal}"))


class _Busy(Exception):
    """Too many long requests are queued, or one is queued for too long."""


@contextmanager
def _turn() -> Iterator[None]:
    """Run the block for one long request at a time; raises `_Busy` on timeout or a full queue."""
    if not _long_slots.acquire(blocking=False):
        raise _Busy
    try:
        if not _long_lock.acquire(timeout=_LONG_TIMEOUT_SECONDS):
            raise _Busy
        try:
            yield
        finally:
            _long_lock.release()
    finally:
        _long_slots.release()


def _reply_to_form(form: Form, commands: Mapping[str, Answer], unknown: str) -> HttpResponse:
    try:
        request = read_request(form.request)
    except BadXml as fault:
        return xml_reply(wire.error("", ERR_GENERIC, f"can't parse request message: {fault}"))
    return run_command(Call(request, timezone.now()), commands, unknown)


def run_command(call: Call, commands: Mapping[str, Answer], unknown: str) -> HttpResponse:
    """Run the command of a request; `unknown` is the error for unknown commands."""
    answer = commands.get(call.request.command)
    if answer is None:
        names = ", ".join(sorted(commands))
        return xml_reply(wire.error("", ERR_GENERIC, f"{unknown}. Hint: there are {names}."))
    return safe_reply(call.request.command, lambda: answer(call))


def safe_reply(command: str, answer: Callable[[], str]) -> HttpResponse:
    """Return the reply of a command; refusals and outages are returned as BOINC's errors."""
    if maintenance.stops_scheduler():
        message = "The project is down for maintenance; try again."
        return xml_reply(wire.error(command, ERR_PROJECT_DOWN, message))
    try:
        inside = answer()
    except RemoteRefused as refusal:
        return _refused(command, refusal.error_num, str(refusal))
    except NotAllowed as refusal:
        return _refused(command, ERR_GENERIC, f"no submit access: {refusal}")
    except REFUSALS as refusal:
        return _refused(command, ERR_GENERIC, str(refusal))
    except (OperationalError, InterfaceError) as error:
        outage_log.begin(error)
        message = "The project's database is unavailable; try again."
        return xml_reply(wire.error(command, ERR_PROJECT_DOWN, message))
    except storage.StoreError as error:
        log.warning("submission_refused", extra={"command": command, "reason": str(error)})
        message = "The project's file store is unavailable; try again."
        return xml_reply(wire.error(command, ERR_PROJECT_DOWN, message))
    return xml_reply(wire.document(command, inside))


def _refused(command: str, error_num: int, message: str) -> HttpResponse:
    # BOINC's libraries read only the first 255 bytes; the log contains the whole message.
    log.info("submission_refused", extra={"command": command, "reason": message})
    return xml_reply(wire.error(command, error_num, message))


def xml_reply(body: bytes) -> HttpResponse:
    response = HttpResponse(body, content_type=XML)
    response["Content-Length"] = str(len(body))
    return response


def account_of(request: Request, *, now: datetime) -> Account:
    """Return the account of a submission key, and record its use in the audit log.

    The keys of BOINC clients are refused, because science programs can read them in
    `init_data.xml`.  Raises `RemoteRefused`, `NotAllowed`.
    """
    key = request.text("authenticator")
    if not key:
        raise RemoteRefused("no authenticator")
    owner = account_keys.find_account_by_key(key)
    if owner is None or owner.kind is not AccountKey.Kind.SUBMISSION:
        raise RemoteRefused(_NO_SUBMISSION_KEY)
    account_keys.record_use(owner.account, owner.key, now=now)
    require_submitter(owner.account)
    return owner.account


# Commands, in BOINC's order


def _abort_batch(call: Call) -> str:
    operations.abort_batch(call.batch, now=call.now)
    return SUCCESS


def _abort_jobs(call: Call) -> str:
    names = call.request.texts("job_name")
    operations.abort_workunits(call.account, names, now=call.now)
    return wire.fields(("aborted", name) for name in names) + SUCCESS


def _create_batch(call: Call) -> str:
    batch_id = operations.create_batch(
        call.account,
        call.request.text("app_name"),
        call.request.text("batch_name"),
        expire_at=moment(call.request.real("expire_time")),
        now=call.now,
    )
    return wire.fields([("batch_id", batch_id)])


def _estimate_batch(call: Call) -> str:
    seconds = operations.estimate(call.account, new_batch(call.request))
    return wire.fields([("seconds", seconds)])


def _get_templates(call: Call) -> str:
    input_template, output_template = operations.templates_of(
        call.account,
        app_name=call.request.text("app_name"),
        workunit_name=call.request.text("job_name"),
    )
    return f"<templates>\n{input_template}\n{output_template}\n</templates>\n"


def _ping(_call: Call) -> str:
    Account.objects.exists()  # fails if the database is unreachable, as in BOINC
    return SUCCESS


def _query_batch(call: Call) -> str:
    with_cpu_time = call.request.whole("get_cpu_time") != 0
    account, number = call.account, call.batch.pk
    batch = queries.batch(account, number, with_cpu_time=with_cpu_time)
    if batch is None:
        raise RemoteRefused("no such batch")
    details = call.request.whole("get_job_details") != 0
    fields = reply_messages.batch_fields(batch, with_cpu_time=with_cpu_time, now=call.now)
    jobs = [
        reply_messages.job(workunit, details=details) for workunit in queries.workunits_of(number)
    ]
    # BOINC's C++ library accepts a reply only if it contains the tag `</jobs>`.
    return wire.fields(fields, "    ") + "".join(jobs) + "    <jobs></jobs>\n"


def _query_batch2(call: Call) -> str:
    account, since = call.account, moment(call.request.real("min_mod_time"))
    named_batches = [_named(account, name) for name in call.request.texts("batch_name")]
    text = [wire.fields([("server_time", f"{call.now.timestamp():.6f}")])]
    for batch in named_batches:
        workunits = queries.workunits_of(batch.pk, since=since)
        text.append(wire.fields([("batch_size", len(workunits))], "    "))
        text += [reply_messages.condor_job(workunit) for workunit in workunits]
    return "".join(text)


def _named(account: Account, name: str) -> Batch:
    batch = queries.find_batch(account, name=name)
    if batch is None:
        raise RemoteRefused(f"no batch named {name}")
    return batch


def _query_batches(call: Call) -> str:
    with_cpu_time = call.request.whole("get_cpu_time") != 0
    return "".join(
        wire.element(
            "batch",
            reply_messages.batch_fields(batch, with_cpu_time=with_cpu_time, now=call.now),
            "    ",
        )
        for batch in queries.batches_of(call.account, with_cpu_time=with_cpu_time)
    )


def _query_completed_job(call: Call) -> str:
    workunit = queries.find_workunit(call.account, name=call.request.text("job_name"))
    if workunit is None:
        raise RemoteRefused("no such job")
    return reply_messages.completed_job(workunit, queries.final_result(workunit))


def _query_job(call: Call) -> str:
    workunit = queries.find_workunit(call.account, workunit_id=call.request.whole("job_id"))
    if workunit is None:
        raise RemoteRefused("no such job")
    return "".join(map(reply_messages.instance, queries.results_of(workunit)))


def _retire_batch(call: Call) -> str:
    operations.retire_batch(call.batch, now=call.now)
    return SUCCESS


def _set_expire_time(call: Call) -> str:
    batches.set_expiry(call.batch.pk, moment(call.request.real("expire_time")))
    return SUCCESS


def _submit_batch(call: Call) -> str:
    batch_id = operations.submit_batch(call.account, new_batch(call.request), now=call.now)
    return wire.fields([("batch_id", batch_id)])


_COMMANDS: Final[Mapping[str, Answer]] = {
    "abort_batch": _abort_batch,
    "abort_jobs": _abort_jobs,
    "create_batch": _create_batch,
    "estimate_batch": _estimate_batch,
    "get_templates": _get_templates,
    "ping": _ping,
    "query_batch": _query_batch,
    "query_batch2": _query_batch2,
    "query_batches": _query_batches,
    "query_completed_job": _query_completed_job,
    "query_job": _query_job,
    "retire_batch": _retire_batch,
    "set_expire_time": _set_expire_time,
    "submit_batch": _submit_batch,
}
