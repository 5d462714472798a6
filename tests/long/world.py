"""A small project that anything may happen to, on a real database."""

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
from scheduler.models import Account, Result, Workunit
from scheduler.results import revalidate
from scheduler.work import batches, cancel, followers, retry
from scheduler.work.submission.facts import NewBatch, NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.new_batches import BatchRefused
from scheduler.work.submission.submit import submit
from tests.conftest import NOON
from tests.long import checks, counted, sameness
from tests.long.computers import Computer
from tests.long.faults import Fault
from tests.long.ground import ANGELS, WANDERERS
from tests.long.lateness import late_results

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
#: The daemons that a quiet server still needs, in the order in which work comes to them.
WORKING = (
    "timeout_checker",
    "transitioner",
    "validator",
    "assimilator",
    "file_deleter",
)
#: The number of rounds of all daemons after which nothing may be left to do at once.
MOST_ROUNDS = 40
BATCH = "together"
#: The differences between computers: most are small and always on. The last one computes for a
#: share of the time that is below the minimum that BOINC accepts.
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
    """Everything of one walk: the clock, the computers, what was submitted and what died."""

    def __init__(self, ground, tried, *, anew=False):
        ground.clear(anew=anew)
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
        #: App of each workunit by name, of all that were ever committed.
        self.submitted = {}
        self.deaths = Counter()
        self.given = set()
        #: Uploads that came when they were not expected any more.
        self.strays = set()
        self.fault = None
        #: The events, a line each, with the time of the walk.
        self.story = []
        #: The answers that sinks of another process received (`learn_from`).
        self.answers = {}

    # Events

    def go_back(self, seconds):
        """The clock is set back a little; what was decided ahead of it is no fault."""
        self.latest = max(self.latest, self.now)
        self.now -= timedelta(seconds=seconds)

    def faults(self):
        """The faults at the latest moment that any clock has shown.

        Uploads that came once more after their deletion go with the antique files.
        """
        found = checks.broken(max(self.now, self.latest))
        return [one for one in found if self.strays.isdisjoint(one.split())]

    def arm(self, number, *, after):
        """Have the next thing that happens die at its n-th statement or commit."""
        self.fault = Fault(number, after=after)

    def happen(self, what, act):
        """Do something; if a fault is armed, it may die on the way. None if it died."""
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
        """Add an event to the story that is shown when a promise is broken."""
        self.story.append(f"{self.now:%d. %H:%M:%S} {line}")

    def submit(self, app, number, *, batch=False, **rules):
        """Submit workunits with inputs that others may share; their names."""
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
                batch=f"{BATCH} {app}" if batch else None,
                submitter=who,
                now=self.now,
            ),
        )
        born = set(Workunit.objects.filter(name__in=names).values_list("name", flat=True))
        self.submitted |= {name: app for name in names if name in born}
        return names

    def run(self, daemon, *, shard=(0, 1), limit=1000):
        """One pass of a daemon."""
        found = registry.find(daemon)
        return self.happen(
            daemon, lambda: found.run_pass(now=self.now, limit=limit, shard=Shard(*shard))
        )

    def meet(self, computer, **said):
        """Uploads, then one RPC; its reply is lost if the server died after the commit."""
        return self.meet_together([(self.computers + self.angels).index(computer)], [said])

    def meet_of(self, index, **said):
        """One RPC of the computer of this number: so that another process can be told of it."""
        return self.meet_together([index], [said])

    def meet_together(self, indexes, saids):
        """RPCs that are answered at once, each of another computer."""
        them = [(self.computers + self.angels)[index] for index in indexes]
        for computer, said in zip(them, saids, strict=True):
            self.note(f"{computer.name} says {said}")
            for name, end in said.get("reports", ()):
                computer.upload(self, name, end)
        self.happen("rpc" if len(them) == 1 else "rpcs", lambda: self._converse(them, saids))

    def _converse(self, them, saids):
        calls = [computer.speak(**said) for computer, said in zip(them, saids, strict=True)]
        with patch.object(conversation.log, "warning", _no_batch_is_undone):
            replies = conversation.answer_all(calls, config=settings.PROJECT, now=self.now)
        for computer, call, reply in zip(them, calls, replies, strict=True):
            if isinstance(reply, Exception):
                raise reply
            self._hold_deadlines(call.request, reply)
            given = computer.hear(self, reply)
            self.note(f"{computer.name} is given {', '.join(given) or 'nothing'}")

    def _hold_deadlines(self, request, reply):
        """Check that the host can finish its results in time, and count the requests by kind."""
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
        """Take over what an act did in another process, whose copy of this world it changed."""
        changed = {"meet_of": args[:1], "meet_together": args[0]}.get(what, ())
        for index in changed:
            self.computers[index] = other.computers[index]
        self.given |= other.given
        counted.learn(other.answers)
        self.strays |= other.strays
        self.submitted |= other.submitted

    def note_given(self, names):
        self.given.update(names)

    def note_upload(self, result_name, upload):
        """Remember uploads that came when their files had been deleted, or rows purged."""
        state = (
            Result.objects.filter(name=result_name)
            .values_list("file_delete_state", flat=True)
            .first()
        )
        if state != 0:
            self.strays.add(upload)

    def open_workunits(self):
        """Names of the workunits that live, in the order of their ids."""
        return list(Workunit.objects.order_by("pk").values_list("name", flat=True))

    def staff(self, wish, name):
        """Something that staff asks for a workunit, or for its batch."""
        act = {
            "cancel": lambda: cancel.cancel(names=[name], reason="walk", now=self.now),
            "hold": lambda: cancel.hold(names=[name], now=self.now),
            "release": lambda: cancel.release(names=[name], now=self.now),
            "revalidate": lambda: revalidate.request(
                revalidate.choose(workunit=name).ids, now=self.now
            ),
        }[wish]
        return self.happen(wish, act)

    def follow(self, app, number, *, batch, after=None, after_any=False, by="f"):
        """Submit to a batch, which may follow another; refused if that one failed."""
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

    def follow_anew(self, app, first, *, batch, **follow):
        """Add to a batch, then to another that follows it."""
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
        """One after the other, as the housekeeper does."""
        for wish in wishes:
            self.change_batch(wish, batch)

    def merge(self, kept, merged):
        try:
            return self.happen(
                "merge",
                lambda: merge_hosts.merge(kept_id=kept.host_id, merged_id=merged.host_id),
            )
        except merge_hosts.CannotMerge:
            return None

    # How it ends

    def quiet(self):
        """Make passes of all daemons until none has anything to do at this moment."""
        for _round in range(MOST_ROUNDS):
            if not sum([_changed(self.run(name)) for name in WORKING]):
                return
        raise AssertionError(f"After {MOST_ROUNDS} rounds the daemons still find work.")

    def unfinished(self):
        """Workunits that the science has not taken, and results that are not over."""
        return (
            Workunit.objects.exclude(assimilate_state=2).exists()
            or Result.objects.exclude(server_state=5).exists()
        )

    def wind_down(self):
        """Run all open work to its end, with honest computers and time alone."""
        self.fault = None
        counted.refusals.clear()
        cancel_helpless(self)
        self.quiet()
        for turn in range(60):
            if not self.unfinished():
                break
            parked.retry(everything=True, now=self.now)
            if names := list(
                Workunit.objects.filter(release_state=2).values_list("name", flat=True)
            ):
                cancel.release(names=names, now=self.now)
            if turn % 4 < 3:
                self._finish_honestly()
            self.quiet()
            self.change_batches("complete", "finish", "settle")
            is_lost = not _anything_to_send()
            self.now += DAY if is_lost else HOUR if turn < 4 else 7 * HOUR

    def _finish_honestly(self):
        """Make all computers report their results, and request work while there is some."""
        is_left = _anything_to_send()
        for computer in (*self.computers, *self.angels):
            knows_us = computer.host_id or computer.owner in ANGELS
            if knows_us and (computer.held or is_left):
                reports = [(name, "right") for name in computer.held]
                self.meet(computer, reports=reports, wants=5e4)
                is_left = _anything_to_send()

    def rest(self):
        """Let every deadline pass, so that no file is needed any more."""
        for _day in range(4):
            self.now += timedelta(days=2)
            self.quiet()


def _no_batch_is_undone(event, *, extra=None):
    """A batch that was undone was made good, RPC by RPC; but nothing here may go wrong."""
    if event == "batch_undone":
        raise AssertionError(f"A batch was undone: {extra}")


def _anything_to_send():
    return Result.objects.filter(server_state=2).exists()


def cancel_helpless(world):
    """Cancel work that is targeted to a host that no computer uses any more."""
    helpless = Workunit.objects.filter(assimilate_state=0, target_host__isnull=False).exclude(
        target_host__in=[computer.host_id for computer in world.computers]
    )
    names = list(helpless.values_list("name", flat=True))
    if names:
        cancel.cancel(names=names, reason="its computer is gone", now=world.now)


def _failed_in(batch):
    failed = batch.workunits.exclude(error_mask=0).filter(retried_as=None)
    return list(failed.values_list("name", flat=True))


def _changed(tally):
    return bool(tally is not None and (tally.changed or tally.more))
