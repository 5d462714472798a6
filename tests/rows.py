"""Saved rows with default values, in states that the operations can produce."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from allauth.account.models import EmailAddress

from scheduler import storage
from scheduler.models import (
    Account,
    App,
    AppVersion,
    File,
    Host,
    Platform,
    Refusal,
    Result,
    ResultFile,
    Workunit,
    WorkunitFile,
    WorkunitWakeup,
)
from scheduler.results.facts import output_name, result_name
from tests.builders import WORDS
from tests.conftest import NOON

_numbers = count(1)

OUTPUTS = [{"open_name": "out", "max_nbytes": 1_000_000}]


def an_app(name: str = "", **fields: Any) -> App:
    """Create an app; by default an account may retry a workunit without delay."""
    fields = {"created_at": NOON, "retry_same_account_after": timedelta(0)} | fields
    return App.objects.create(name=name or f"app{next(_numbers)}", **fields)


def an_app_version(app: App, **fields: Any) -> AppVersion:
    """Create a version of an app without files, for Linux if `fields` has no platform."""
    platform, _ = Platform.objects.get_or_create(name="x86_64-pc-linux-gnu")
    fields = {"version_num": next(_numbers), "created_at": NOON, "platform": platform} | fields
    return AppVersion.objects.create(app=app, **fields)


def an_account(name: str = "", **fields: Any) -> Account:
    """Create a volunteer's account without keys."""
    name = name or f"volunteer{next(_numbers)}"
    fields = {"email": f"{name}@example.org", "name": name, "created_at": NOON} | fields
    account = Account.objects.create(cross_project_id="", password="!", **fields)
    EmailAddress.objects.create(user=account, email=account.email, primary=True)
    return account


def a_host(account: Account | None = None, **fields: Any) -> Host:
    fields = {"rpc_at": NOON, "created_at": NOON} | fields
    return Host.objects.create(account=account or an_account(), **fields)


def a_workunit(app: App | None = None, **fields: Any) -> Workunit:
    """Create a workunit of quorum 2 with one output, due at noon, without results."""
    fields = {
        "name": f"wu{next(_numbers)}",
        "outputs": OUTPUTS,
        "min_quorum": 2,
        "target_nresults": 2,
        "created_at": NOON - timedelta(days=2),
        "transition_at": NOON,
    } | fields
    due_at = fields.pop("transition_at")
    workunit = Workunit.objects.create(app=app or an_app(), **fields)
    _step(workunit, transition_at=due_at)
    return workunit


def a_result(
    workunit: Workunit,
    word: str = "unsent",
    *,
    host: Host | None = None,
    output: bytes | None = None,
    uploaded: bool = False,
    **fields: Any,
) -> Result:
    """Create a result in the state named by `word`, with the bytes `output` as output 0.

    With `uploaded` the output is also on disk.  The guard triggers accept new rows only in their
    first states, so the later states are reached by updates, as in the scheduler.
    """
    attempt = workunit.results.count()
    server_state, outcome, validate_state = WORDS[word]
    if host is None and word not in {"unsent", "inactive", "unneeded", "unsendable"}:
        host = a_host()
    if host is not None:
        fields = {
            "host": host,
            "account": host.account,
            "sent_at": NOON - timedelta(hours=2),
            "report_deadline": NOON + timedelta(days=1),
            "credit_deadline": NOON + timedelta(days=2),
        } | fields
    if word in {"success", "valid", "inconclusive", "invalid", "error", "aborted", "nocheck"}:
        fields = {
            "received_at": NOON - timedelta(hours=1),
            "elapsed_time": 3000.0,
            "cpu_time": 2900.0,
            "flops_estimate": 1e9,
            "exit_status": 203 if word == "aborted" else 0,
        } | fields
    files_state = fields.pop("file_delete_state", 0)
    result = Result.objects.create(
        workunit=workunit,
        app=workunit.app,
        name=result_name(workunit.name, attempt),
        attempt=attempt,
        created_at=workunit.created_at,
        server_state=1 if word == "inactive" else 2,
    )
    _walk(result, server_state=server_state, outcome=outcome, **fields)
    if validate_state:
        _walk(result, validate_state=validate_state)
    for state in {0: (), 1: (1,), 2: (1, 2), 3: (1, 3)}[files_state]:
        _step(result, file_delete_state=state)
    result.refresh_from_db()
    if output is not None:
        an_output(result, output, uploaded=uploaded)
    return result


def walk(result: Result, **fields: Any) -> None:
    """Move a result to a state by legal moves, with one update for each move."""
    _walk(result, **fields)
    result.refresh_from_db()


def _walk(result: Result, **fields: Any) -> None:
    target = fields.get("server_state", 0)
    if target in {4, 5} and result.server_state < 4 and fields.get("outcome") not in {2, 5}:
        _step(result, **{**fields, "server_state": 4, "outcome": 0})
    if result.outcome == 0 and fields.get("outcome") == 6:
        _step(result, server_state=5, outcome=1)
    _step(result, **fields)


def update(row: Any, **fields: Any) -> None:
    """Change columns of a row in the database, then read the row again."""
    _step(row, **fields)
    row.refresh_from_db()


def _step(row: Any, **fields: Any) -> None:
    """Change columns in the database and on `row`, without reading the row again."""
    if isinstance(row, Workunit) and "transition_at" in fields:
        fields["transition_at"] = _requeue(row, fields["transition_at"])
    type(row).objects.filter(pk=row.pk).update(**fields)
    for name, value in fields.items():
        setattr(row, name, value)


def _requeue(workunit: Workunit, due_at: datetime | None) -> datetime | None:
    """Put a workunit that is due by noon into the queue; return its `transition_at`."""
    WorkunitWakeup.objects.filter(workunit_id=workunit.pk).delete()
    if due_at is None or due_at > NOON:
        return due_at
    WorkunitWakeup.objects.create(workunit_id=workunit.pk, inserted_at=due_at)
    return None


def due_at(workunit: Workunit) -> datetime | None:
    """Return when a workunit was woken, else when it must be looked at, else None."""
    queued = WorkunitWakeup.objects.filter(workunit_id=workunit.pk).order_by("-id").first()
    workunit.refresh_from_db(fields=["transition_at"])
    return queued.inserted_at if queued else workunit.transition_at


def an_output(
    result: Result, data: bytes, *, position: int = 0, uploaded: bool = False
) -> ResultFile:
    """Create a reported output of a result; with `uploaded`, also write its file."""
    name = output_name(result.name, result.pk, position)
    if uploaded:
        path = storage.upload_path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return ResultFile.objects.create(
        result=result,
        position=position,
        name=name,
        nbytes=len(data),
        md5=hashlib.md5(data).hexdigest(),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def an_input(workunit: Workunit, data: bytes = b"in", *, file: File | None = None) -> File:
    """Add an input file to a workunit: `file`, or a new file with this data."""
    if file is None:
        staged = storage.stage_bytes(data)
        name = f"in_{staged.digest.sha256[:12]}_{next(_numbers)}"
        storage.publish(staged, name)
        digest = staged.digest
        file = File.objects.create(
            name=name,
            sha256=digest.sha256,
            md5=digest.md5,
            nbytes=digest.nbytes,
            created_at=NOON,
        )
    WorkunitFile.objects.create(
        workunit=workunit, file=file, position=workunit.input_files.count(), open_name="in"
    )
    return file


def settled(workunit: Workunit, canonical: Result | None = None, **fields: Any) -> Workunit:
    """Set a workunit's canonical result, or an error if that is None, and later states."""
    if canonical is None:
        _step(workunit, error_mask=16)
    else:
        _step(workunit, canonical_result=canonical)
    done = fields.pop("assimilate_state", 0)
    files = fields.pop("file_delete_state", 0)
    for state in range(1, done + 1):
        _step(workunit, assimilate_state=state)
    for state in {0: (), 1: (1,), 2: (1, 2), 3: (1, 3)}[files]:
        _step(workunit, file_delete_state=state)
    if done == 2:
        fields = {"finished_at": NOON - timedelta(hours=1)} | fields
    update(workunit, **fields)
    return workunit


def refuse(workunit: Workunit, host: Host, at: datetime = NOON, **fields: Any) -> Refusal:
    """Record that the host was refused a result of the workunit for lack of memory."""
    fields = {"reason": "memory", "sentence": "too little memory", "first_at": at} | fields
    return Refusal.objects.create(
        workunit_id=workunit.pk, host_id=host.pk, app_id=workunit.app_id, at=at, **fields
    )


def hours(number: float) -> datetime:
    """Return NOON plus a number of hours."""
    return NOON + timedelta(hours=number)
