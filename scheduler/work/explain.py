"""Explains the state of a workunit or result, with its timeline."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db.models import F, Max, Min, OuterRef, QuerySet, Subquery

from scheduler.dispatch.catalog import ANONYMOUS
from scheduler.dispatch.rules import sendability
from scheduler.dispatch.rules.launching import COMMAND, COMMANDS_ARE_OFF
from scheduler.lifecycle import Axis, Outcome, ServerState, next_moves
from scheduler.models import (
    AppVersion,
    Dependency,
    Heartbeat,
    Host,
    Refusal,
    Result,
    ScienceFailure,
    Workunit,
    WorkunitWakeup,
)
from scheduler.models.science import OneResultPer
from scheduler.queues import named_queues, slots
from scheduler.queues.rules import serving
from scheduler.results.facts import (
    JOINED,
    RESULT_COLUMNS,
    WORKUNIT_COLUMNS,
    ResultFacts,
    WorkunitFacts,
)
from scheduler.results.rules.deadline_moves import is_silent
from scheduler.work import task_lists
from scheduler.work.last_error import ERRORS, last_error
from scheduler.work.rules.explanation import (
    MAX_NAMED_PARENTS,
    MAX_NAMED_VERSIONS,
    AllTried,
    Parent,
    Parked,
    Refused,
    Surroundings,
    at,
    explain,
    explain_result,
    explain_sending,
)
from scheduler.work.timeline import describe_move, moves_of

#: The value of `WorkunitFacts.woken_at`, for queries of workunits.  The minimum is used instead of
#: the first row by id, because without statistics PostgreSQL reads the whole queue for the latter.
WOKEN_AT = Subquery(
    WorkunitWakeup.objects.filter(workunit_id=OuterRef("pk"))
    .values("workunit_id")
    .annotate(first_at=Min("inserted_at"))
    .values("first_at")
)


class UnknownName(LookupError):
    """No workunit or result has this name. Hint: purged workunits are in the archive."""


@dataclass(frozen=True, slots=True)
class Step:
    """A move in a timeline; `subject` is the name of the workunit or result that moved."""

    at: datetime
    subject: str
    axis: str
    source: str
    target: str
    because: str
    by: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The timeline of a workunit or a result, and sentences that describe its state.

    `kind` is "workunit" or "result", and `workunit` is the name of the workunit in both cases.
    `may_happen` lists the moves that a result can make next; it is empty for a workunit.
    """

    kind: str
    name: str
    workunit: str
    timeline: tuple[Step, ...]
    reasons: tuple[str, ...]
    may_happen: tuple[str, ...]
    ledger_is_on: bool


def explanation_of(name: str, *, now: datetime) -> Explanation:
    """Explain a workunit or a result by its name; raises `UnknownName`."""
    result = Result.objects.filter(name=name).values("id", "workunit_id").first()
    if result is not None:
        facts = workunit_facts(result["workunit_id"])
        own = next(candidate for candidate in facts.results if candidate.id == result["id"])
        around = surroundings_of(facts, now=now)
        is_unsent = own.server_state == ServerState.UNSENT
        error = last_error(id=own.id) if own.outcome in ERRORS else None
        reasons = (
            *explain_result(own),
            *([error.sentence] if error is not None else []),
            *(explain_sending(around) if is_unsent else ()),
            *_waits_of(own, now=now),
        )
        may_happen = tuple(str(move) for move in next_moves(Axis.RESULT, _state(own)))
        timeline = timeline_of(facts, result_id=own.id)
        return Explanation(
            "result", name, facts.name, timeline, reasons, may_happen, settings.PROJECT.ledger
        )
    workunit_id = Workunit.objects.filter(name=name).values_list("id", flat=True).first()
    if workunit_id is None:
        raise UnknownName(
            f"There is no workunit or result named {name!r}. "
            "Hint: purged workunits are in the archive; try `manage.py archive show NAME`."
        )
    return explanation_of_workunit(workunit_id, now=now)


def explanation_of_workunit(workunit_id: int, *, now: datetime) -> Explanation:
    """Explain a workunit by its id; raises Workunit.DoesNotExist."""
    facts = workunit_facts(workunit_id)
    return Explanation(
        "workunit",
        facts.name,
        facts.name,
        timeline_of(facts),
        explain(facts, now=now, around=surroundings_of(facts, now=now)),
        (),
        settings.PROJECT.ledger,
    )


def reasons_of(workunit_id: int, *, now: datetime) -> tuple[str, ...]:
    """Return sentences that describe a workunit's state; raises Workunit.DoesNotExist."""
    facts = workunit_facts(workunit_id)
    return explain(facts, now=now, around=surroundings_of(facts, now=now))


def surroundings_of(facts: WorkunitFacts, *, now: datetime) -> Surroundings:
    """Read the facts from other tables that affect a workunit, with a few statements."""
    workunit_id = facts.id
    workunit = Workunit.objects.select_related(
        "app", "batch__after", "queue__app", "target_host", "target_account", "target_team"
    ).get(pk=workunit_id)
    refusals = list(Refusal.objects.filter(workunit_id=workunit_id).order_by("-at", "-id"))
    hosts = {host.pk: host for host in Host.objects.filter(pk__in=[r.host_id for r in refusals])}
    versions = AppVersion.objects.filter(app=workunit.app).exclude(platform__name=ANONYMOUS)
    newest = versions.aggregate(at=Max("created_at"))["at"]
    sign = Heartbeat.objects.filter(name="web").values_list("seen_at", flat=True).first()
    is_away = is_silent(sign, now=now, outage_after=settings.PROJECT.outage_after)
    limit = workunit.app.max_infeasible
    counted = [
        r
        for r in refusals
        if r.host_id in hosts
        and _is_about(hosts[r.host_id], now=now)
        and (newest is None or r.at >= newest)
    ]
    confirmed = [
        r
        for r in counted
        if r.counts_at_once
        or r.at >= max(r.first_at, newest or r.first_at) + settings.PROJECT.refusal_counts_after
    ]
    unfit = {r.host_id for r in confirmed}
    return Surroundings(
        refused=tuple(
            Refused(_host(hosts.get(r.host_id), r.host_id), r.sentence, r.at) for r in refusals
        ),
        refused_hosts=len(counted),
        confirmed_hosts=len(confirmed),
        seen_hosts=_hosts_about(workunit, now=now).count() if refusals else 0,
        max_infeasible=settings.PROJECT.max_infeasible if limit is None else limit,
        target=_target(workunit),
        parked=_parked(workunit_id),
        away_since=sign if is_away else None,
        predecessor=_predecessor(workunit),
        parents=_parents(workunit),
        last_error=last_error(workunit=workunit_id) if _has_errors(facts) else None,
        all_tried=_all_tried(workunit, unfit, now=now) if _waits_after_a_turn(facts) else None,
        app_not_served=_app_not_served(workunit),
        rollouts=_rollouts(workunit),
        hold_code=workunit.hold_code,
        queue=_queue(workunit, now=now),
        task_list=task_lists.describe(workunit.bundle_id),
    )


def _queue(workunit: Workunit, *, now: datetime) -> str:
    queue = workunit.queue
    if queue is None:
        return ""
    if queue.app is not None and queue.app_id != workunit.app_id:
        return f"is not sent, because queue {queue.name} sends only work of app {queue.app.name}"
    _unsent, in_progress = named_queues.counts([queue])[queue.pk]
    facts = slots.all_queues()[queue.pk]
    state = serving.describe(facts, in_progress=in_progress, now=now)
    sentence = f"is sent by queue {queue.name}, which {state}"
    seen_since = now - sendability.SEEN_WITHIN
    for waiting in slots.waiting_queues(seen_since=seen_since, queue_id=queue.pk):
        # `describe` has told already whether the queue is stopped or disabled.
        others = waiting._replace(is_stopped=False, disabled_until=None)
        if still := serving.why_still(others, now=now):
            sentence += f"; it stands still: {still[0]}"
    return sentence


def _app_not_served(workunit: Workunit) -> str:
    if workunit.app.kind == COMMAND and not settings.PROJECT.command_apps:
        return f"is not sent: {COMMANDS_ARE_OFF}"
    return ""


def _rollouts(workunit: Workunit) -> tuple[str, ...]:
    """Return a sentence for each version of the app that is sent to a share of the hosts."""
    staged = AppVersion.objects.select_related("app", "platform").filter(
        app=workunit.app, deprecated=False, rollout_percent__lt=100
    )
    return tuple(
        f"may use version {version} on {version.rollout_percent} % of the hosts only, because of "
        "its roll-out"
        for version in staged.order_by("id")[:MAX_NAMED_VERSIONS]
    )


def _host(host: Host | None, host_id: int) -> str:
    return str(host) if host is not None else f"host #{host_id}"


def _is_about(host: Host, *, now: datetime) -> bool:
    is_seen = host.rpc_at > now - sendability.SEEN_WITHIN
    return is_seen and not host.denied and host.merged_into_id is None


def _hosts_about(workunit: Workunit, *, now: datetime) -> QuerySet[Host]:
    """Return the active hosts that the target or the queue of the workunit allows."""
    hosts = Host.objects.filter(
        rpc_at__gt=now - sendability.SEEN_WITHIN, denied=False, merged_into=None
    )
    if workunit.target_host_id is not None:
        hosts = hosts.filter(pk=workunit.target_host_id)
    elif workunit.target_account_id is not None:
        hosts = hosts.filter(account_id=workunit.target_account_id)
    elif workunit.target_team_id is not None:
        hosts = hosts.filter(account__team_id=workunit.target_team_id)
    elif workunit.queue is not None:
        hosts = hosts.filter(named_queues.served_by(workunit.queue))
    return hosts


def _has_errors(facts: WorkunitFacts) -> bool:
    return any(result.outcome in ERRORS for result in facts.results)


def _waits_after_a_turn(facts: WorkunitFacts) -> bool:
    states = {result.server_state for result in facts.results}
    return ServerState.UNSENT in states and max(states) > ServerState.UNSENT


def _all_tried(workunit: Workunit, unfit: Collection[int], *, now: datetime) -> AllTried | None:
    """Return an `AllTried`, or None if an account (or host) may get a result of the workunit now.

    Only accounts and hosts that requested work lately are considered.  `unfit` are the ids of hosts
    with a confirmed refusal, which cannot compute the workunit.
    """
    app, kind = workunit.app, workunit.app.one_result_per
    if kind == OneResultPer.NOTHING:
        return None
    column = "id" if kind == OneResultPer.HOST else "account_id"
    fit = _hosts_about(workunit, now=now).exclude(pk__in=unfit)
    about = set(fit.values_list(column, flat=True).distinct())
    retry_at: dict[int, datetime | None] = {}
    sent = Result.objects.filter(workunit=workunit, sent_at__isnull=False)
    for result in sent.order_by("id"):
        holder = result.host_id if kind == OneResultPer.HOST else result.account_id
        ended = result.received_at or result.report_deadline
        never = result.server_state == ServerState.IN_PROGRESS or result.outcome == Outcome.SUCCESS
        allowed_at = None if never or ended is None else ended + app.retry_same_account_after
        if holder is not None and retry_at.get(holder, now) is not None:
            retry_at[holder] = allowed_at
    if not about or not about <= retry_at.keys():
        return None
    times = [time for holder in about if (time := retry_at[holder]) is not None]
    if any(time <= now for time in times):
        return None
    return AllTried(str(kind), len(about), min(times, default=None))


def _target(workunit: Workunit) -> str:
    if workunit.target_host is not None:
        return f"host {workunit.target_host}"
    if workunit.target_account is not None:
        return f"the hosts of {workunit.target_account}"
    return f"the team {workunit.target_team}" if workunit.target_team is not None else ""


def _predecessor(workunit: Workunit) -> str:
    """Return the name of the batch for which the workunit waits, or an empty string."""
    batch = workunit.batch if workunit.waits_for_batch else None
    return batch.after.name if batch is not None and batch.after is not None else ""


def _parents(workunit: Workunit) -> tuple[Parent, ...]:
    if not workunit.has_parents:
        return ()
    parents = Dependency.objects.filter(child=workunit, parent__canonical_result__isnull=True)
    ranked = parents.order_by("-parent__error_mask", "parent_id")[:MAX_NAMED_PARENTS]
    return tuple(
        Parent(name, has_failed=bool(error_mask))
        for name, error_mask in ranked.values_list("parent__name", "parent__error_mask")
    )


def _parked(workunit_id: int) -> tuple[Parked, ...]:
    """Return the parked failures of a workunit's validation and assimilation.

    The `error` of each failure is the last line of its traceback.
    """
    stages = {
        ScienceFailure.Stage.VALIDATE: "validator",
        ScienceFailure.Stage.ASSIMILATE: "assimilator",
    }
    failures = ScienceFailure.objects.filter(
        stage__in=list(stages), subject_id=workunit_id, parked_at__isnull=False
    )
    return tuple(
        Parked(
            id=failure.pk,
            stage=stages[ScienceFailure.Stage(failure.stage)],
            failures=failure.failures,
            since=failure.parked_at,
            error=failure.error.strip().rpartition("\n")[2],
        )
        for failure in failures.order_by("stage")
        if failure.parked_at is not None
    )


def workunit_facts(workunit_id: int) -> WorkunitFacts:
    """Read a workunit with its results; raises Workunit.DoesNotExist."""
    joined = {name: F(path) for name, path in JOINED.items()} | {"woken_at": WOKEN_AT}
    columns = Workunit.objects.filter(pk=workunit_id).values(*WORKUNIT_COLUMNS, **joined).get()
    results = Result.objects.filter(workunit_id=workunit_id).order_by("id").values(*RESULT_COLUMNS)
    return WorkunitFacts(**columns, results=tuple(ResultFacts(**row) for row in results))


def timeline_of(workunit: WorkunitFacts, *, result_id: int | None = None) -> tuple[Step, ...]:
    """Return the moves of a workunit and its results, or of one result, oldest first."""
    names: dict[int | None, str] = {result.id: result.name for result in workunit.results}
    return tuple(
        Step(
            at=entry.at,
            subject=names.get(entry.result_id, workunit.name),
            **describe_move(entry)._asdict(),
        )
        for entry in moves_of(workunit.id, result_id=result_id)
    )


def _state(result: ResultFacts) -> int:
    return 10 * result.server_state + result.outcome


def _waits_of(result: ResultFacts, *, now: datetime) -> tuple[str, ...]:
    """Return sentences about the hosts or accounts that may not, or not yet, get a result."""
    own = Result.objects.select_related("app").get(pk=result.id)
    kind = own.app.one_result_per
    if own.server_state != ServerState.UNSENT or kind == OneResultPer.NOTHING:
        return ()
    others = Result.objects.filter(workunit_id=own.workunit_id, sent_at__isnull=False)
    lines = []
    for other in others.select_related("account", "host").order_by("id"):
        who = f"{kind} {other.account if kind == OneResultPer.ACCOUNT else other.host}"
        ended = other.received_at or other.report_deadline
        if other.server_state == ServerState.IN_PROGRESS or other.outcome == Outcome.SUCCESS:
            lines.append(f"does not go to {who}, which has {other.name}")
        elif ended is not None and ended + own.app.retry_same_account_after > now:
            again = at(ended + own.app.retry_same_account_after)
            lines.append(f"does not go back to {who}, which had {other.name}, before {again}")
    return tuple(lines)
