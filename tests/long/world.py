"""The state of a random walk: a small project on a real database."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from unittest.mock import patch

from django.conf import settings

from daemons import registry
from daemons.tally import Shard, Tally
from scheduler.boinc import conversation
from scheduler.health import parked
from scheduler.hosts import merge_hosts
from scheduler.lifecycle import ServerState
from scheduler.models import Account, Host, Queue, Result, Workunit
from scheduler.pool import claims
from scheduler.pool.facts import Filter, PoolHost
from scheduler.queues import admission, named_queues
from scheduler.results import revalidate
from scheduler.work import batches, control, dependencies, followers, retry
from scheduler.work.dependencies import DependencyRefused
from scheduler.work.submission.facts import NewBatch, NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.new_batches import BatchRefused
from scheduler.work.submission.submission_checks import QueueChanged, SubmissionRefused
from scheduler.work.submission.submit import DuplicateNames, submit
from tests.conftest import NOON
from tests.long import checks, counted, sameness
from tests.long.computers import Computer
from tests.long.faults import Fault
from tests.long.ground import ANGELS, WANDERERS
from tests.long.lateness import late_results

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
#: The daemons that process workunits, in the order in which workunits reach them.
WORKING = (
    "timeout_checker",
    "transitioner",
    "validator",
    "assimilator",
    "file_deleter",
)
#: The number of rounds after which no daemon may have work that is due.
MOST_ROUNDS = 40
BATCH = "together"
#: (Copy, owner) -> fields of `Computer` that differ from the defaults.  The last computer's active
#: fraction is below BOINC's minimum.
MACHINES = {
    (0, "ada"): {},
    (0, "bob"): {"ncpus": 8},
    (0, "cleo"): {"ncpus": 4},
    (0, "dan"): {},
    (1, "ada"): {"on_frac": 0.5, "active_frac": 0.5},
    (1, "bob"): {"ncpus": 8, "on_frac": 0.9},
    (1, "cleo"): {"ncpus": 4, "active_frac": 0.25},
    (1, "dan"): {"on_frac": 0.1, "active_frac": 0.5},
}


class World:
    """The state of one walk: the clock, the computers, submitted workunits, and deaths."""

    def __init__(self, ground, tried, *, rebuild=False):
        ground.clear(rebuild=rebuild)
        self.tried = tried
        sameness.forget()
        self.now = self.latest = NOON
        self.computers = [
            Computer(owner, ground.keys[owner], kind=copy % 2, copy=copy, **MACHINES[copy, owner])
            for copy in range(2)
            for owner in WANDERERS
        ]
        self.angels = [
            Computer(owner, ground.keys[owner], kind=kind, copy=kind)
            for owner in ANGELS
            for kind in range(2)
        ]
        #: Workunit name -> app, for all committed workunits.
        self.submitted = {}
        self.deaths = Counter()
        #: Whether a refused submission has left input files on the disk, until they are antique.
        self.has_orphans = False
        self.given = set()
        #: Names of uploads that arrived after their files were deleted or their rows purged.
        self.strays = set()
        self.fault = None
        #: The events, one line each, with the time of the walk.
        self.story = []
        #: The assimilator calls of another process (`learn_from`).
        self.answers = {}

    # Events

    def go_back(self, seconds):
        """Set the clock back by `seconds`; checks still use the latest time shown."""
        self.latest = max(self.latest, self.now)
        self.now -= timedelta(seconds=seconds)

    def faults(self):
        """Return the violations at the latest time that the clock has shown.

        Late uploads (`strays`) are ignored, because they are deleted with the antique files.
        """
        violations = checks.broken(max(self.now, self.latest))
        return [one for one in violations if self.strays.isdisjoint(one.split())]

    def arm(self, number, *, after):
        """Let the next act die before or after its n-th statement or commit."""
        self.fault = Fault(number, after=after)

    def happen(self, what, act):
        """Run `act`, with the armed fault if there is one; return None if it died."""
        fault, self.fault = self.fault, None
        if fault is None:
            answer = act()
        else:
            answer = None
            with fault.at_work():
                answer = act()
            if fault.has_struck:
                self.deaths[what] += 1
                self.tried[f"death in {what}"] += 1
                sameness.forget()
                self.note(f"death in {what}, at {fault.struck_at}")
                return None
        self.note(f"{what}: {answer.sentence()}" if isinstance(answer, Tally) else what)
        return answer

    def note(self, line):
        """Add an event to the story that is shown when a check fails."""
        self.story.append(f"{self.now:%d. %H:%M:%S} {line}")

    def submit(self, app, number, *, batch=False, **rules):
        """Submit workunits, which share three input files; return their names.

        `batch` is a `NewBatch`, or True for a batch of the app.
        """
        first = len(self.submitted)
        names = [f"{app}_{first + index}" for index in range(number)]
        rules = {"delay_bound": timedelta(days=1), "rsc_fpops_est": 1e12} | rules
        new = [
            NewWorkunit(
                name=name,
                input_files=(NewFile(open_name="in", content=b"shared %d" % (first % 3)),),
                outputs=(NewOutput(open_name="out", max_nbytes=1000),),
                **rules,
            )
            for name in names
        ]
        who = Account.objects.get(name=WANDERERS[0]) if batch else None
        self.happen(
            "submit",
            lambda: submit(
                app=app,
                workunits=new,
                batch=f"{BATCH} {app}" if batch is True else batch or None,
                submitter=who,
                now=self.now,
            ),
        )
        born = set(Workunit.objects.filter(name__in=names).values_list("name", flat=True))
        self.submitted |= {name: app for name in names if name in born}
        return names

    def run(self, daemon, *, shard=(0, 1), limit=1000):
        """Run one pass of a daemon; return its tally, or None if it died."""
        module = registry.find(daemon)
        return self.happen(
            daemon, lambda: module.run_pass(now=self.now, limit=limit, shard=Shard(*shard))
        )

    def run_in_turn(self, *daemons):
        """Run one pass of each daemon, in order."""
        for daemon in daemons:
            self.run(daemon)

    def meet(self, computer, **options):
        """Upload outputs, then send one RPC; its reply is lost if the server dies."""
        return self.meet_together([(self.computers + self.angels).index(computer)], [options])

    def meet_of(self, index, **options):
        """Send one RPC of the computer with this index; for acts in other processes."""
        return self.meet_together([index], [options])

    def meet_together(self, indexes, options_of_each):
        """Send RPCs of several computers, which the server answers in one batch."""
        them = [(self.computers + self.angels)[index] for index in indexes]
        for computer, options in zip(them, options_of_each, strict=True):
            self.note(f"{computer.name} sends {options}")
            for name, end in options.get("reports", ()):
                computer.upload(self, name, end)
        self.happen(
            "rpc" if len(them) == 1 else "rpcs", lambda: self._converse(them, options_of_each)
        )

    def _converse(self, them, options_of_each):
        calls = [
            computer.speak(**options)
            for computer, options in zip(them, options_of_each, strict=True)
        ]
        with patch.object(conversation.log, "warning", _no_batch_is_undone):
            replies = conversation.answer_all(calls, config=settings.PROJECT, now=self.now)
        for computer, call, reply in zip(them, calls, replies, strict=True):
            if isinstance(reply, Exception):
                raise reply
            self._hold_deadlines(call.request, reply)
            given = computer.hear(self, reply)
            self.note(f"{computer.name} is given {', '.join(given) or 'nothing'}")

    def _hold_deadlines(self, request, reply):
        """Check that the host can finish its results in time, and count requests by kind."""
        if not reply.results:
            return
        names = [result.name for result in reply.results]
        flops = dict(Result.objects.filter(name__in=names).values_list("name", "flops_estimate"))
        checks.hold(late_results(request, reply, flops, now=self.now))
        times = request.time_stats
        self.tried[
            "sent to an idle host" if not request.estimated_delay else "sent to a queue"
        ] += 1
        self.tried["sent to an inactive host"] += times.on_frac * times.active_frac < 1
        self.tried["sent with threads"] += any(one.plan_class for one in reply.results)

    def learn_from(self, other, what, args):
        """Merge the changes that an act made to the copy of this world in another process."""
        changed = {"meet_of": args[:1], "meet_together": args[0]}.get(what, ())
        for index in changed:
            self.computers[index] = other.computers[index]
        self.given |= other.given
        self.tried.update(other.tried)
        counted.learn(other.answers)
        self.strays |= other.strays
        self.submitted |= other.submitted
        self.has_orphans |= other.has_orphans

    def note_given(self, names):
        self.given.update(names)

    def note_upload(self, result_name, upload):
        """Record an upload that arrived after its file was deleted or its row purged."""
        state = (
            Result.objects.filter(name=result_name)
            .values_list("file_delete_state", flat=True)
            .first()
        )
        if state != 0:
            self.strays.add(upload)

    def open_workunits(self):
        """Return the names of all workunits in the database, in the order of their ids."""
        return list(Workunit.objects.order_by("pk").values_list("name", flat=True))

    def staff(self, wish, name):
        """Perform an action of staff on a workunit: cancel, hold, release or revalidate."""
        act = {
            "cancel": lambda: control.cancel(names=[name], reason="walk", now=self.now),
            "hold": lambda: control.hold(names=[name], now=self.now),
            "release": lambda: control.release(names=[name], now=self.now),
            "revalidate": lambda: revalidate.request(
                revalidate.choose(workunit=name).ids, now=self.now
            ),
        }[wish]
        return self.happen(wish, act)

    def follow(self, app, number, *, batch, after=None, after_any=False, by="f"):
        """Submit to a batch that may follow another; a refusal is ignored."""
        first = len(self.submitted)
        names = [f"{app}_{by}{first + index}" for index in range(number)]
        outputs = (NewOutput(open_name="out", max_nbytes=1000),)
        wanted = NewBatch(name=batch, after=after, after_any=after_any)
        try:
            self.happen(
                "follow",
                lambda: submit(
                    app=app,
                    workunits=[NewWorkunit(name=name, outputs=outputs) for name in names],
                    batch=wanted,
                    submitter=Account.objects.get(name=WANDERERS[0]),
                    now=self.now,
                ),
            )
        except BatchRefused:
            return
        self.submitted |= dict.fromkeys(names, app)

    def submit_graph(self, app, number, *, parents=(), children=(), group=False, held=False):
        """Submit workunits, each of which may wait for `parents` and for the one before it.

        The last one may get `children`, and a group may wait for it.  Refusals are ignored.
        """
        first = len(self.submitted)
        names = [f"{app}_n{first + index}" for index in range(number)]
        new = [
            NewWorkunit(
                name=name,
                outputs=(NewOutput(open_name="out", max_nbytes=1000),),
                after=tuple(parents) if index == 0 else (names[index - 1],),
                held=held and index == 0 and not parents,
                continuations=tuple(children) if index == number - 1 else (),
                delay_bound=timedelta(days=1),
                rsc_fpops_est=1e12,
            )
            for index, name in enumerate(names)
        ]
        if group:
            joined = f"{app}_group{first}_{self.now:%d%H%M%S}"
            new.append(NewWorkunit(name=joined, group=True, after=(names[-1],)))
        try:
            self.happen("submit", lambda: submit(app=app, workunits=new, now=self.now))
        except (DependencyRefused, DuplicateNames):
            return names
        born = set(Workunit.objects.filter(name__in=names).values_list("name", flat=True))
        self.submitted |= {name: app for name in names if name in born}
        return names

    def link(self, parent, children, *, remove=False):
        """Add or remove dependencies; a refusal is ignored, and so is a purged parent."""
        change = dependencies.remove_continuations if remove else dependencies.add_continuations
        parent_id = Workunit.objects.filter(name=parent).values_list("pk", flat=True).first()
        if parent_id is None:
            return
        try:
            self.happen("link", lambda: change(parent_id, children, now=self.now))
        except (DependencyRefused, Workunit.DoesNotExist):
            return

    def follow_anew(self, app, first, *, batch, **follow):
        """Add a workunit to the batch `first`, then one to a batch that follows it."""
        self.follow(app, 1, batch=first.name, by="g")
        self.follow(app, 1, batch=batch, by="g", **follow)

    def change_batch(self, wish, batch):
        act = {
            "accelerate": lambda: batches.accelerate(batch.pk, now=self.now),
            "slow down": lambda: batches.accelerate(batch.pk, on=False, now=self.now),
            "abort": lambda: batches.abort(batch.pk, reason="walk", now=self.now),
            "complete": lambda: batches.complete(now=self.now),
            "retire": lambda: batches.retire(batch.pk, now=self.now),
            "finish": lambda: batches.finish(now=self.now),
            "settle": lambda: followers.settle(now=self.now),
            "retry": lambda: retry.retry(batch.pk, names=_failed_in(batch), now=self.now),
        }[wish]
        try:
            return self.happen(f"batch: {wish}", act)
        except (batches.BatchNotReady, BatchRefused):
            return None

    def change_batches(self, *wishes, batch=None):
        """Perform several changes in order, as the housekeeper does."""
        for wish in wishes:
            self.change_batch(wish, batch)

    # Queues, task lists and the pool

    def change_queue(self, name, **facts):
        """Change the limit of a queue, or the time until which it is disabled."""
        queue = Queue.objects.get(name=name)
        self.note(f"queue {name}: {facts}")
        return self.happen(
            "change of a queue", lambda: named_queues.change(queue, now=self.now, **facts)
        )

    def change_admission(self, name, **facts):
        """Change the app or the trust of a queue; a refusal is ignored."""
        try:
            self.change_queue(name, **facts)
        except (
            admission.QueueBusy,
            named_queues.QueueOfOtherApp,
            named_queues.QueueHasInfiniteDeadlines,
        ) as refusal:
            self.tried["refused a change of a queue"] += 1
            self.note(f"the change is refused: {refusal}")

    def submit_to_queue(self, queue, app, number, **rules):
        """Submit workunits to a queue, which may refuse them."""
        try:
            self.submit(app, number, queue=queue, **rules)
        except SubmissionRefused as refusal:
            # Only a change of the queue is noticed after the input files were stored.
            self.has_orphans |= isinstance(refusal, QueueChanged)
            self.tried["refused a submission to a queue"] += 1
            self.note(f"queue {queue} refuses work of app {app}: {refusal}")

    def acquire(self, index, count):
        """Claim up to `count` results for a host of the pool; the server chooses them.

        The client does not have the results; the next RPC sends them.
        """

        def act(pool_host, **options):
            return list(claims.acquire(pool_host, Filter(), count=count, **options).results)

        return self._claim(index, "acquire", act)

    def claim(self, index, result_id):
        """Claim a result for a host of the pool by its id; a refusal is ignored."""
        return self._claim(index, "claim", claims.claim_one, result_id)

    def _claim(self, index, what, act, *args, **options):
        host = Host.objects.filter(pk=self.computers[index].host_id, merged_into=None).first()
        if host is None:
            return []
        pool_host = PoolHost(0, host.pk, host.account_id)
        options |= {"config": settings.PROJECT, "now": self.now}
        try:
            claimed = self.happen(what, lambda: act(pool_host, *args, **options)) or []
        except (claims.ClaimRefused, claims.ResultUnknown) as refusal:
            self.tried["refused a claim"] += 1
            self.note(f"{what} is refused: {refusal}")
            return []
        results = claimed if isinstance(claimed, list) else [claimed]
        self.tried["claimed from the pool"] += len(results)
        self.note(f"{self.computers[index].name} claims {[one.name for one in results]}")
        return results

    def holders(self, kind):
        """Return (computer, result) of all results in progress of queues or of task lists."""
        running = Result.objects.filter(
            server_state=ServerState.IN_PROGRESS, target_kind=kind
        ).order_by("pk")
        by_host = {computer.host_id: computer for computer in self.computers}
        return [
            (by_host[result.host_id], result) for result in running if result.host_id in by_host
        ]

    def check_queues(self, before):
        """Check queues and task lists, and count the rows; return the numbers for the next call."""
        rows, after = checks.queue_rows(), checks.queue_numbers()
        self.tried.update(rows)
        violations = checks.over_limit(before, after)
        checks.hold(violations + (checks.broken_queues(self.now) if rows.total() else []))
        return after

    def open_queues(self):
        """Enable all queues, and replace limits of 0."""
        for queue in Queue.objects.order_by("pk"):
            facts = {"disabled_until": None}
            if queue.max_in_progress == 0:
                facts["max_in_progress"] = 2
            self.change_queue(queue.name, **facts)

    def merge(self, kept, merged):
        try:
            return self.happen(
                "merge",
                lambda: merge_hosts.merge(kept_id=kept.host_id, merged_id=merged.host_id),
            )
        except merge_hosts.CannotMerge:
            return None

    # The end of a walk

    def quiet(self):
        """Run passes of all daemons until none has work that is due."""
        for _round in range(MOST_ROUNDS):
            if not sum([_changed(self.run(name)) for name in WORKING]):
                return
        raise AssertionError(f"After {MOST_ROUNDS} rounds the daemons still find work.")

    def unfinished(self):
        """Return whether a workunit is not assimilated or a result not over."""
        return (
            Workunit.objects.exclude(assimilate_state=2).exists()
            or Result.objects.exclude(server_state=5).exists()
        )

    def wind_down(self):
        """Finish all open work with correct answers, without faults."""
        self.fault = None
        counted.refusals.clear()
        self.open_queues()
        cancel_helpless(self)
        self.quiet()
        for turn in range(60):
            if not self.unfinished():
                break
            parked.retry(everything=True, now=self.now)
            if names := list(
                Workunit.objects.filter(release_state=2).values_list("name", flat=True)
            ):
                control.release(names=names, now=self.now)
            if turn % 4 < 3:
                self._finish_honestly()
            self.quiet()
            self.change_batches("complete", "finish", "settle")
            is_lost = not _anything_to_send()
            self.now += DAY if is_lost else HOUR if turn < 4 else 7 * HOUR

    def _finish_honestly(self):
        """Report right answers for all results, and request work while any is unsent."""
        is_left = _anything_to_send()
        for computer in (*self.computers, *self.angels):
            knows_us = computer.host_id or computer.owner in ANGELS
            if knows_us and (computer.held or is_left):
                reports = [(name, "right") for name in computer.held]
                self.meet(computer, reports=reports, wants=5e4)
                is_left = _anything_to_send()

    def rest(self):
        """Advance the clock beyond all deadlines, so that no file is needed any more."""
        for _day in range(4):
            self.now += timedelta(days=2)
            self.quiet()


def _no_batch_is_undone(event, *, extra=None):
    """Raise AssertionError if a batch of RPCs was rolled back; nothing here may cause that."""
    if event == "batch_undone":
        raise AssertionError(f"A batch was undone: {extra}")


def _anything_to_send():
    return Result.objects.filter(server_state=2).exists()


def cancel_helpless(world):
    """Cancel workunits whose target host no computer uses any more."""
    helpless = Workunit.objects.filter(assimilate_state=0, target_host__isnull=False).exclude(
        target_host__in=[computer.host_id for computer in world.computers]
    )
    names = list(helpless.values_list("name", flat=True))
    if names:
        control.cancel(names=names, reason="its computer is gone", now=world.now)


def _failed_in(batch):
    failed = batch.workunits.exclude(error_mask=0).filter(retried_as=None)
    return list(failed.values_list("name", flat=True))


def _changed(tally):
    return bool(tally is not None and (tally.changed or tally.more))
