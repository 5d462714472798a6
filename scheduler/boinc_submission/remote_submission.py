"""What BOINC's submitters do: make batches, fill them, give them up.

Theory of operation.  The same operations as everybody's do the work; this one says what BOINC's
`submit_rpc_handler` adds.  A batch is made empty and filled once, by one submission.  Making it
again before it was filled finds it, for a submitter who lost the answer asks again; afterwards its
name is taken.  Outputs stay until the batch is retired.  Another's batch does not exist.
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
from scheduler.boinc_submission.templates import Described, Templated, Templates
from scheduler.models import Account, App, Batch, Workunit, WorkunitFile
from scheduler.people import quotas
from scheduler.people.submitters import require_submit
from scheduler.work import batches, cancel
from scheduler.work.submission import new_batches, submit

State = Batch.State

#: BOINC's error numbers (PROTOCOL 0.3).
ERR_GENERIC, ERR_NOT_UNIQUE = -1, -137
#: Operations a second of a project whose hosts have done nothing yet, and of one unit of credit.
_NO_FLOPS, _FLOPS_OF_CREDIT = 1e9, 1e9 / 200
#: What BOINC's own guess of a workunit is.
_TYPICAL_OPERATIONS = 3.6e12
_MAX_NAME = 250


class RemoteRefused(ValueError):
    """A submitter is refused, in BOINC's words. Hint: the message says what to change."""

    def __init__(self, message: str, error_num: int = ERR_GENERIC) -> None:
        """Keep BOINC's number."""
        self.error_num = error_num
        super().__init__(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """One workunit as its submitter describes it; templates of its own are texts."""

    described: Described
    input_template: str | None = None
    output_template: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRemoteBatch:
    """What fills a batch; without `batch_id` one is made, of `name` if there is one.

    Template names are those of files.  `numbers` hold for all workunits whose templates do not say
    them.
    """

    app_name: str
    batch_id: int = 0
    name: str = ""
    input_template_name: str = ""
    output_template_name: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    workunits: Sequence[Own] = ()


def create_batch(
    account: Account, app_name: str, name: str, *, expire_at: datetime | None, now: datetime
) -> int:
    """Make an empty batch; returns its number, that of one made before if it is still empty.

    Raises `RemoteRefused`, `submitters.NotAllowed`, `new_batches.BatchRefused`.
    """
    app = _app(account, app_name)
    wanted = submit.NewBatch(
        name=name or _made_name(account, app, now), expire_at=expire_at, keep_outputs=True
    )
    known = queries.find_batch(account, name=wanted.name or "")
    if known is None:
        return new_batches.make(wanted, app=app, submitter=account, now=now).pk
    if known.state == State.INIT and known.app_id == app.pk and known.keep_outputs:
        batches.set_expiry(known.pk, expire_at)
        return known.pk
    raise _name_is_taken(known)


def submit_batch(account: Account, asked: NewRemoteBatch, *, now: datetime) -> int:
    """Fill a batch, all or none; returns its number.

    Raises `RemoteRefused`, `files.UnknownFiles`, `quotas.QuotaExceeded` and what `submit.submit`
    raises.
    """
    app = _app(account, asked.app_name)
    batch = _to_fill(account, app, asked)
    made = _made(app, asked)
    if not made:
        msg = "no jobs in the batch. Hint: describe at least one."
        raise RemoteRefused(msg)
    found = sent_files.find(account, templates.names(made))
    found |= sent_files.keep_elsewhere(account, templates.remotes(made), now=now)

    def before() -> None:
        quotas.lock(account)
        quotas.require_workunits(account, len(made))

    def then(done: submit.Submission) -> None:
        filled = Batch.objects.filter(pk=done.batch_id or 0, workunits_submitted=done.count)
        if not filled.exists():
            msg = "batch not in init state: another submission came first."
            raise RemoteRefused(msg)
        _keep_for_ever(account, made, done, now)
        quotas.require_bytes(account)

    done = submit.submit(
        app=app.name,
        workunits=[templates.finished(one, found) for one in made],
        batch=submit.NewBatch(
            name=batch.name if batch else asked.name or _made_name(account, app, now),
            keep_outputs=True,
        ),
        submitter=account,
        before=before,
        then=then,
        now=now,
    )
    return done.batch_id or 0


def estimate(account: Account, asked: NewRemoteBatch) -> float:
    """How long a batch will take, in seconds, if the project had nothing else to do.

    As BOINC has it: its operations by what all volunteers have lately done.
    """
    app = _app(account, asked.app_name)
    given = _batch_templates(app, asked)
    base = asked.numbers.get("rsc_fpops_est") or _TYPICAL_OPERATIONS
    if given is not None:
        base = templates.number(given.input, "rsc_fpops_est") or base
    operations = sum(
        one.described.numbers.get("rsc_fpops_est")
        or (one.input_template and templates.number(one.input_template, "rsc_fpops_est"))
        or base
        for one in asked.workunits
    )
    credit = Account.objects.aggregate(sum=Sum("expavg_credit"))["sum"] or 0.0
    return operations / (credit * _FLOPS_OF_CREDIT or _NO_FLOPS)


def abort_batch(batch: Batch, *, now: datetime) -> None:
    """Give up a batch: what is unsent is not sent, what is computed is called back."""
    with suppress(batches.BatchNotReady):  # over already: BOINC says that it succeeded
        batches.abort(batch.pk, reason="aborted by its submitter", now=now)


def retire_batch(batch: Batch, *, now: datetime) -> None:
    """Put a batch away, with its outputs; what is still open is given up, as BOINC does."""
    if batch.state == State.RETIRED:
        return
    try:
        batches.retire(batch.pk, now=now)
    except batches.BatchNotReady:
        batches.abort(batch.pk, reason="its batch was retired", now=now)
        batches.retire(batch.pk, now=now)


def abort_workunits(account: Account, names: Sequence[str], *, now: datetime) -> None:
    """Give up workunits of an account's batches, all or none; raises `RemoteRefused`."""
    mine = dict(
        Workunit.objects.filter(name__in=set(names), batch__submitter=account).values_list(
            "name", "pk"
        )
    )
    if missing := [name for name in names if name not in mine]:
        msg = f"no job {missing[0]}"
        raise RemoteRefused(msg)
    if mine:
        cancel.cancel(ids=sorted(mine.values()), reason="aborted by its submitter", now=now)


def templates_of(account: Account, *, app_name: str, workunit_name: str) -> tuple[str, str]:
    """The input and output template of an app, or of a workunit's; raises `RemoteRefused`."""
    if app_name:
        app = _app(account, app_name)
    else:
        workunit = queries.find_workunit(account, name=workunit_name)
        if workunit is None:
            msg = f"job not found: {workunit_name}"
            raise RemoteRefused(msg)
        app = workunit.app
    given = templates.of_app(app)
    if given is None or given.output is None:
        which = "template" if given is None else "output template"
        raise RemoteRefused(_no_template(app, which))
    return templates.said(given)


def _app(account: Account, name: str) -> App:
    """The app that somebody submits to; raises `RemoteRefused`, `submitters.NotAllowed`."""
    app = App.objects.filter(name=name).first()
    if app is None:
        msg = f"app not found: {name}"
        raise RemoteRefused(msg)
    require_submit(account, app)
    return app


def _made_name(account: Account, app: App, now: datetime) -> str:
    said = f"{app.name}:{now.astimezone(UTC):%a, %d %b %Y %H:%M:%S +0000}:{secrets.token_hex(2)}"
    return f"{account.name[: _MAX_NAME - len(said) - 1]}:{said}"


def _name_is_taken(known: Batch) -> RemoteRefused:
    state = str(known.get_state_display()).lower()
    msg = f"batch {known.name} exists and is {state}. Hint: choose another name."
    return RemoteRefused(msg, ERR_NOT_UNIQUE)


def _to_fill(account: Account, app: App, asked: NewRemoteBatch) -> Batch | None:
    """The batch that is there to be filled; None if one is to be made; raises `RemoteRefused`."""
    if not asked.batch_id and not asked.name:
        return None
    batch = queries.find_batch(account, batch_id=asked.batch_id, name=asked.name)
    if batch is None:
        if not asked.batch_id:
            return None
        msg = f"no batch {asked.batch_id}"
        raise RemoteRefused(msg)
    if batch.state != State.INIT:
        if not asked.batch_id:
            raise _name_is_taken(batch)
        msg = "batch not in init state. Hint: fill each batch by one submission."
        raise RemoteRefused(msg)
    if batch.app_id != app.pk:
        msg = f"batch {batch.name} is for another app than {app.name}."
        raise RemoteRefused(msg)
    return batch


def _batch_templates(app: App, asked: NewRemoteBatch) -> Templates | None:
    own = templates.of_app(app)
    if asked.input_template_name:
        brought = own.output if own else None
        own = Templates(templates.named(asked.input_template_name), brought)
    if asked.output_template_name:
        own = Templates(own.input if own else "", templates.named(asked.output_template_name))
    return own


def _made(app: App, asked: NewRemoteBatch) -> list[Templated]:
    """Each workunit of its templates; raises `RemoteRefused`, `BadTemplate`."""
    common = _batch_templates(app, asked)
    described = []
    for index, one in enumerate(asked.workunits):
        given = one.input_template or (common.input if common else "")
        brought = one.output_template or (common.output if common else None)
        if not given or not brought:
            which = "input template" if not given else "output template"
            raise RemoteRefused(f"job {index} is missing {which}: {_no_template(app, which)}")
        described.append((Templates(given, brought), one.described))
    try:
        return templates.workunits(described, app=app, numbers=asked.numbers)
    except templates.WrongFiles as fault:
        msg = (
            f"wrong # of input files for job {_index(fault)}: "
            f"need {fault.wanted}, got {fault.given}"
        )
        raise RemoteRefused(msg) from fault
    except (templates.BadTemplate, templates.TwoCommandLines) as fault:
        msg = f"job {_index(fault)}: {fault}"
        raise RemoteRefused(msg) from fault


def _index(fault: Exception) -> str:
    return fault.__notes__[-1]


def _no_template(app: App, which: str) -> str:
    return (
        f"template file missing. Hint: app {app.name} has no {which}: set it in the app, or put "
        f"{app.name}_in and {app.name}_out into var/templates."
    )


def _keep_for_ever(
    account: Account, made: Iterable[Templated], done: submit.Submission, now: datetime
) -> None:
    """Hold the files that templates want kept when no workunit needs them any more."""
    places = {
        (id_, position)
        for id_, one in zip(done.workunit_ids, made, strict=True)
        for position, placed in enumerate(one.inputs)
        if placed.file.no_delete
    }
    if not places:
        return
    rows = WorkunitFile.objects.filter(
        workunit_id__in={id_ for id_, _ in places}, position__in={place for _, place in places}
    ).values_list("workunit_id", "position", "file__name")
    kept = {name for id_, position, name in rows if (id_, position) in places}
    sent_files.hold_for_ever(account, kept, now=now)
