"""The operations of BOINC's submitters on batches: create, fill, abort and retire.

Theory of operation.  This module calls the same operations as the API and adds the rules of BOINC's
`submit_rpc_handler`.  A batch is created empty and filled once, by one submission.  If an empty
batch is created again, its number is returned, because a submitter that did not receive the reply
retries.  The name of a filled batch is refused.  Outputs are kept until the batch is retired.
Other submitters' batches are treated as nonexistent.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.db.models import Sum

from scheduler.boinc_submission import sent_files, templates
from scheduler.boinc_submission import submission_reads as queries
from scheduler.boinc_submission.rules.templated import (
    Templated,
    TwoCommandLines,
    WorkunitDescription,
    WrongFiles,
)
from scheduler.boinc_submission.templates import Templates
from scheduler.models import Account, App, Batch, Workunit, WorkunitFile
from scheduler.people import quotas
from scheduler.people.submitters import require_submit
from scheduler.work import batches, control
from scheduler.work.submission import new_batches, submit

State = Batch.State

#: BOINC's error numbers (PROTOCOL 0.3).
ERR_GENERIC, ERR_NOT_UNIQUE = -1, -137
#: Speeds in operations per second: of a project without credit, and per unit of average credit.
_NO_FLOPS, _FLOPS_OF_CREDIT = 1e9, 1e9 / 200
#: BOINC's default for the estimated number of operations of a workunit.
_TYPICAL_OPERATIONS = 3.6e12
_MAX_NAME = 250


class RemoteRefused(ValueError):
    """A submission is refused, with BOINC's message. Hint: see the message."""

    def __init__(self, message: str, error_num: int = ERR_GENERIC) -> None:
        self.error_num = error_num
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedWorkunit:
    """One workunit of a submission, with the texts of its own templates, if any."""

    described: WorkunitDescription
    input_template: str | None = None
    output_template: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRemoteBatch:
    """The batch that a submission describes.

    If `batch_id` is 0, the batch is looked up by `name` or created.  Template names are file names.
    `numbers` apply to all workunits whose templates do not set them.
    """

    app_name: str
    batch_id: int = 0
    name: str = ""
    input_template_name: str = ""
    output_template_name: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    workunits: Sequence[SubmittedWorkunit] = ()


def create_batch(
    account: Account, app_name: str, name: str, *, expire_at: datetime | None, now: datetime
) -> int:
    """Create an empty batch and return its number; an empty batch of the same name is reused.

    Raises `RemoteRefused`, `submitters.NotAllowed`, `new_batches.BatchRefused`.
    """
    app = _app(account, app_name)
    wanted = submit.NewBatch(
        name=name or _generated_name(account, app, now), expire_at=expire_at, keep_outputs=True
    )
    existing = queries.find_batch(account, name=wanted.name or "")
    if existing is None:
        return new_batches.make(wanted, app=app, submitter=account, now=now).pk
    if existing.state == State.INIT and existing.app_id == app.pk and existing.keep_outputs:
        batches.set_expiry(existing.pk, expire_at)
        return existing.pk
    raise _name_is_taken(existing)


def submit_batch(account: Account, new_batch: NewRemoteBatch, *, now: datetime) -> int:
    """Add all workunits of a submission to a batch, or none; return the number of the batch.

    Raises `RemoteRefused`, `files.UnknownFiles`, `quotas.QuotaExceeded` and the exceptions of
    `submit.submit`.
    """
    app = _app(account, new_batch.app_name)
    batch = _batch_to_fill(account, app, new_batch)
    drafts = _drafts(app, new_batch)
    if not drafts:
        raise RemoteRefused("no jobs in the batch. Hint: describe at least one job.")
    physical_names = sent_files.find(account, templates.names(drafts))
    physical_names |= sent_files.keep_remote_files(account, templates.remotes(drafts), now=now)

    def before() -> None:
        quotas.lock(account)
        quotas.require_workunits(account, len(drafts))

    def then(done: submit.Submission) -> None:
        filled = Batch.objects.filter(pk=done.batch_id or 0, workunits_submitted=done.count)
        if not filled.exists():
            raise RemoteRefused("batch not in init state: another submission came first.")
        _keep_permanently(account, drafts, done, now)
        quotas.require_bytes(account)

    done = submit.submit(
        app=app.name,
        workunits=[templates.with_files(draft, physical_names) for draft in drafts],
        batch=submit.NewBatch(
            name=batch.name if batch else new_batch.name or _generated_name(account, app, now),
            keep_outputs=True,
        ),
        submitter=account,
        before=before,
        then=then,
        now=now,
    )
    return done.batch_id or 0


def estimate(account: Account, new_batch: NewRemoteBatch) -> float:
    """Return the seconds that a batch would take if the project had no other work.

    The estimate is BOINC's: the operations of the batch, divided by the recent speed of all hosts.
    """
    app = _app(account, new_batch.app_name)
    common = _batch_templates(app, new_batch)
    base = new_batch.numbers.get("rsc_fpops_est") or _TYPICAL_OPERATIONS
    if common is not None:
        base = templates.number(common.input, "rsc_fpops_est") or base
    operations = sum(
        workunit.described.numbers.get("rsc_fpops_est")
        or (workunit.input_template and templates.number(workunit.input_template, "rsc_fpops_est"))
        or base
        for workunit in new_batch.workunits
    )
    credit = Account.objects.aggregate(sum=Sum("expavg_credit"))["sum"] or 0.0
    return operations / (credit * _FLOPS_OF_CREDIT or _NO_FLOPS)


def abort_batch(batch: Batch, *, now: datetime) -> None:
    """Abort a batch: unsent results are not sent, and clients abort results in progress."""
    with suppress(batches.BatchNotReady):  # the batch is over; as in BOINC, this is a success
        batches.abort(batch.pk, reason="aborted by its submitter", now=now)


def retire_batch(batch: Batch, *, now: datetime) -> None:
    """Retire a batch, so that its outputs are deleted; unfinished work is aborted first."""
    if batch.state == State.RETIRED:
        return
    try:
        batches.retire(batch.pk, now=now)
    except batches.BatchNotReady:
        batches.abort(batch.pk, reason="its batch was retired", now=now)
        batches.retire(batch.pk, now=now)


def abort_workunits(account: Account, names: Sequence[str], *, now: datetime) -> None:
    """Abort the workunits of these names; raises `RemoteRefused`, and then aborts none."""
    own_ids = dict(
        Workunit.objects.filter(name__in=set(names), batch__submitter=account).values_list(
            "name", "pk"
        )
    )
    if missing := [name for name in names if name not in own_ids]:
        raise RemoteRefused(f"no job {missing[0]}")
    if own_ids:
        control.cancel(ids=sorted(own_ids.values()), reason="aborted by its submitter", now=now)


def templates_of(account: Account, *, app_name: str, workunit_name: str) -> tuple[str, str]:
    """Return the templates of an app or of a workunit's app; raises `RemoteRefused`."""
    if app_name:
        app = _app(account, app_name)
    else:
        workunit = queries.find_workunit(account, name=workunit_name)
        if workunit is None:
            raise RemoteRefused(f"job not found: {workunit_name}")
        app = workunit.app
    own = templates.of_app(app)
    if own is None or own.output is None:
        which = "template" if own is None else "output template"
        raise RemoteRefused(_no_template(app, which))
    return templates.wrapped_texts(own)


def _app(account: Account, name: str) -> App:
    """Return the app if the account may submit to it.

    Raises `RemoteRefused`, `submitters.NotAllowed`.
    """
    app = App.objects.filter(name=name).first()
    if app is None:
        raise RemoteRefused(f"app not found: {name}")
    require_submit(account, app)
    return app


def _generated_name(account: Account, app: App, now: datetime) -> str:
    suffix = f"{app.name}:{now.astimezone(UTC):%a, %d %b %Y %H:%M:%S +0000}:{secrets.token_hex(2)}"
    return f"{account.name[: _MAX_NAME - len(suffix) - 1]}:{suffix}"


def _name_is_taken(existing: Batch) -> RemoteRefused:
    state = str(existing.get_state_display()).lower()
    msg = f"batch {existing.name} exists and is {state}. Hint: choose another name."
    return RemoteRefused(msg, ERR_NOT_UNIQUE)


def _batch_to_fill(account: Account, app: App, new_batch: NewRemoteBatch) -> Batch | None:
    """Return the existing batch to fill, or None to create one; raises `RemoteRefused`."""
    if not new_batch.batch_id and not new_batch.name:
        return None
    batch = queries.find_batch(account, batch_id=new_batch.batch_id, name=new_batch.name)
    if batch is None:
        if not new_batch.batch_id:
            return None
        raise RemoteRefused(f"no batch {new_batch.batch_id}")
    if batch.state != State.INIT:
        if not new_batch.batch_id:
            raise _name_is_taken(batch)
        raise RemoteRefused("batch not in init state. Hint: fill each batch by one submission.")
    if batch.app_id != app.pk:
        raise RemoteRefused(f"batch {batch.name} belongs to another app, not to {app.name}.")
    return batch


def _batch_templates(app: App, new_batch: NewRemoteBatch) -> Templates | None:
    own = templates.of_app(app)
    if new_batch.input_template_name:
        output = own.output if own else None
        own = Templates(templates.by_name(new_batch.input_template_name), output)
    if new_batch.output_template_name:
        own = Templates(own.input if own else "", templates.by_name(new_batch.output_template_name))
    return own


def _drafts(app: App, new_batch: NewRemoteBatch) -> list[Templated]:
    """Build each workunit from its templates; raises `RemoteRefused`, `BadTemplate`."""
    common = _batch_templates(app, new_batch)
    described = []
    for index, workunit in enumerate(new_batch.workunits):
        input_text = workunit.input_template or (common.input if common else "")
        output_text = workunit.output_template or (common.output if common else None)
        if not input_text or not output_text:
            which = "input template" if not input_text else "output template"
            raise RemoteRefused(f"job {index} is missing {which}: {_no_template(app, which)}")
        described.append((Templates(input_text, output_text), workunit.described))
    try:
        return templates.workunits(described, app=app, numbers=new_batch.numbers)
    except WrongFiles as fault:
        raise RemoteRefused(
            f"wrong # of input files for job {_index(fault)}: "
            f"need {fault.n_wanted}, got {fault.n_submitted}"
        ) from fault
    except (templates.BadTemplate, TwoCommandLines) as fault:
        raise RemoteRefused(f"job {_index(fault)}: {fault}") from fault


def _index(fault: Exception) -> str:
    return fault.__notes__[-1]


def _no_template(app: App, which: str) -> str:
    return (
        f"template file missing. Hint: app {app.name} has no {which}: set it in the app, or put "
        f"{app.name}_in and {app.name}_out into var/templates."
    )


def _keep_permanently(
    account: Account, drafts: Iterable[Templated], done: submit.Submission, now: datetime
) -> None:
    """Hold the input files marked `no_delete`, which are kept after their workunits are purged."""
    places = {
        (id_, position)
        for id_, draft in zip(done.workunit_ids, drafts, strict=True)
        for position, placed in enumerate(draft.inputs)
        if placed.file.no_delete
    }
    if not places:
        return
    rows = WorkunitFile.objects.filter(
        workunit_id__in={id_ for id_, _ in places}, position__in={place for _, place in places}
    ).values_list("workunit_id", "position", "file__name")
    names = {name for id_, position, name in rows if (id_, position) in places}
    sent_files.hold_permanently(account, names, now=now)
