"""The actions of random walks: one function each, drawn by weight.

A rule takes the world and a `random.Random` of its own, and performs one action, or none if it does
not apply.  To add a rule, define it here with `@rule(weight)`.
"""

from __future__ import annotations

from datetime import timedelta

from daemons import registry
from scheduler.lifecycle import ServerState, Target
from scheduler.models import Batch, Dependency, Result, Workunit
from scheduler.work.submission.facts import NewBatch
from tests.long import checks, counted
from tests.long.computers import ENDS
from tests.long.ground import APPS
from tests.long.ground import QUEUES as NAMED_QUEUES

#: Name of a rule -> (weight, function).
RULES = {}

SHARDS = ((0, 1), (0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
JUMPS = (1, 60, 600, 3600, 6 * 3600, 30 * 3600, 60 * 3600)
SMALL_JUMPS_BACK = (1, 30, 600)
#: Seconds of work in a computer's queue when it requests work; half of them are 0.
QUEUES = (0.0, 0.0, 0.0, 1.0, 3000.0, 20000.0)
#: Daemons to choose from; the important ones are listed several times.
CHOSEN = (
    *registry.BY_NAME,
    *("transitioner",) * 4,
    *("validator", "assimilator", "timeout_checker", "file_deleter") * 2,
)


def rule(weight):
    def kept(function):
        RULES[function.__name__] = (weight, function)
        return function

    return kept


# Scientists


@rule(10)
def submit(world, chance):
    quorum = chance.choice((1, 2, 2, 3))
    target = quorum + chance.randrange(2)
    world.submit(
        chance.choice(list(APPS)),
        chance.randint(1, 3),
        min_quorum=quorum,
        target_nresults=target,
        delay_bound=timedelta(hours=chance.choice((1, 6, 24))),
        max_error_results=chance.choice((3, 0, 1, 2)),
        max_total_results=target + chance.choice((6, 2, 1, 4)),
        max_success_results=target + chance.choice((6, 1)),
        max_timeouts=chance.choice((None, None, 0, 1)),
    )


@rule(3)
def submit_oddly(world, chance):
    soon = world.now + timedelta(hours=chance.choice((2, 30)))
    odd = ({"held": True}, {"start_after": soon}, {"end_before": soon}, {"start_before": soon})
    world.submit(chance.choice(list(APPS)), 1, priority=chance.randrange(3), **chance.choice(odd))


@rule(2)
def submit_for_one_host(world, chance):
    hosts = [c.host_id for c in world.computers if c.host_id]
    # With one untrusted target host, the second result of `adaptive` could never be sent.
    apps = [app for app in APPS if app != "adaptive"]
    if hosts:
        try:
            world.submit(chance.choice(apps), 1, target_host=chance.choice(hosts))
        except ValueError:
            """The target host was merged into another."""


@rule(2)
def submit_a_batch(world, chance):
    try:
        world.submit(chance.choice(list(APPS)), chance.randint(1, 2), batch=True)
    except ValueError:
        """The batch accepts no workunits any more."""


@rule(4)
def submit_long_ones(world, chance):
    """Submit long workunits, of which a host can compute few before the deadline."""
    world.submit(
        chance.choice(("threads", "threads", "plain")),
        chance.randint(3, 6),
        rsc_fpops_est=chance.choice((2e12, 1e13)),
        delay_bound=timedelta(hours=chance.choice((1, 3, 6))),
    )


@rule(4)
def submit_a_graph(world, chance):
    names = world.open_workunits()
    world.submit_graph(
        chance.choice(list(APPS)),
        chance.randint(1, 3),
        parents=chance.sample(names, min(chance.randrange(3), len(names))),
        children=chance.sample(names, min(chance.choice((0, 0, 1)), len(names))),
        group=chance.random() < 0.3,
        held=chance.random() < 0.3,
    )


@rule(3)
def change_dependencies(world, chance):
    edges = list(Dependency.objects.order_by("pk").values_list("parent__name", "child__name"))
    if edges and chance.random() < 0.5:
        parent, child = chance.choice(edges)
        world.link(parent, [child], remove=True)
    elif len(names := world.open_workunits()) > 1:
        parent, child = chance.sample(names, 2)
        world.link(parent, [child])


@rule(8)
def submit_to_a_queue(world, chance):
    world.submit_to_queue(
        chance.choice(list(NAMED_QUEUES)),
        chance.choice(("plain", "patient", "classes")),
        chance.randint(1, 4),
        min_quorum=chance.choice((1, 1, 2)),
        delay_bound=timedelta(hours=chance.choice((1, 24))),
        max_timeouts=chance.choice((None, None, 1)),
    )


@rule(5)
def submit_a_list(world, chance):
    try:
        world.submit(
            "lists",
            chance.randint(2, 4),
            batch=True,
            bundle="list",
            expected_duration=timedelta(hours=chance.choice((1, 3))),
            max_error_results=chance.choice((3, 0)),
            max_timeouts=chance.choice((None, None, 0, 1)),
            held=chance.random() < 0.2,
        )
    except ValueError:
        """The batch accepts no workunits any more."""


@rule(3)
def submit_for_the_bundler(world, chance):
    """Submit to a batch whose workunits the server groups into task lists."""
    size = chance.choice((1, 2, 3))
    try:
        world.submit(
            "lists", chance.randint(1, 4), batch=NewBatch(name=f"by {size}", bundle_size=size)
        )
    except ValueError:
        """The batch accepts no workunits any more."""


# Volunteers


@rule(12)
def ask(world, chance):
    wants = chance.choice((1.0, 3000.0, 50000.0))
    world.meet(chance.choice(world.computers), wants=wants, queued=chance.choice(QUEUES))


@rule(16)
def report(world, chance):
    busy = [computer for computer in world.computers if computer.held]
    if not busy:
        return
    computer = chance.choice(busy)
    end = chance.choice(("right", "right", "right", *ENDS))
    names = chance.sample(list(computer.held), min(chance.randint(1, 5), len(computer.held)))
    world.meet(
        computer, reports=[(name, end) for name in names], wants=chance.choice((0.0, 3000.0))
    )


@rule(8)
def several_at_once(world, chance):
    indexes = chance.sample(range(len(world.computers)), chance.randint(2, 5))
    options_of_each = [
        {
            "reports": [
                (name, chance.choice(("right", "right", *ENDS)))
                for name in list(world.computers[index].held)[: chance.randrange(4)]
            ],
            "wants": chance.choice((0.0, 1.0, 3000.0)),
            "queued": chance.choice(QUEUES),
        }
        for index in indexes
    ]
    world.meet_together(indexes, options_of_each)


@rule(3)
def report_again(world, chance):
    those = [computer for computer in world.computers if computer.past]
    if those:
        computer = chance.choice(those)
        name = chance.choice(list(computer.past))
        world.meet(computer, reports=[(name, chance.choice(list(ENDS)))])


@rule(2)
def lose_a_result(world, chance):
    busy = [computer for computer in world.computers if computer.held]
    if busy:
        computer = chance.choice(busy)
        name = chance.choice(list(computer.held))
        computer.past[name] = computer.held.pop(name)
        wants, queued = chance.choice((0.0, 1.0, 1.0)), chance.choice((0.0, 3000.0, 20000.0))
        world.meet(computer, wants=wants, queued=queued)


@rule(1)
def detach(world, chance):
    attached = [computer for computer in world.computers if computer.host_id]
    if attached:
        world.meet(chance.choice(attached), forgets=True, wants=chance.choice((0.0, 1.0)))


@rule(1)
def merge_hosts(world, chance):
    one = chance.randrange(4)
    kept, merged = chance.sample([world.computers[one], world.computers[one + 4]], 2)
    if kept.host_id and merged.host_id:
        world.merge(kept, merged)


# Staff


def _staff(wish):
    def act(world, chance):
        if names := world.open_workunits():
            world.staff(wish, chance.choice(names))

    act.__name__ = wish
    return act


for _weight, _wish in ((2, "cancel"), (1, "hold"), (2, "release"), (2, "revalidate")):
    rule(_weight)(_staff(_wish))


@rule(2)
def change_a_batch(world, chance):
    if existing := list(Batch.objects.order_by("pk")):
        wishes = ("accelerate", "slow down", "complete", "complete", "abort", "retire", "finish")
        wish = chance.choice(wishes)
        world.change_batch(wish, chance.choice(existing))


# Queues, task lists and the pool


@rule(4)
def change_a_limit(world, chance):
    """Set a limit; None is no limit, and 0 stops the queue."""
    world.change_queue(
        chance.choice(list(NAMED_QUEUES)), max_in_progress=chance.choice((None, 0, 1, 2, 2, 3))
    )


@rule(2)
def disable_or_enable_a_queue(world, chance):
    hours = chance.choice((None, None, 2, 48))
    until = None if hours is None else world.now + timedelta(hours=hours)
    world.change_queue(chance.choice(list(NAMED_QUEUES)), disabled_until=until)


@rule(3)
def change_what_a_queue_accepts(world, chance):
    """Change the app or the trust of a queue; both are refused while its work needs them."""
    facts = {"app": chance.choice((None, None, "plain", "patient"))}
    if chance.random() < 0.6:
        facts = {"trusted": chance.random() < 0.6}
    world.change_admission(chance.choice(list(NAMED_QUEUES)), **facts)


def _attached(world, chance):
    """Return the index of a random computer that has contacted the server, or None."""
    attached = [index for index, computer in enumerate(world.computers) if computer.host_id]
    return chance.choice(attached) if attached else None


@rule(5)
def acquire_from_the_pool(world, chance):
    if (index := _attached(world, chance)) is not None:
        world.acquire(index, chance.randint(1, 3))


@rule(4)
def claim_by_id(world, chance):
    """Claim a result of a queue: an unsent one, or (seldom) one that another host has."""
    states = [ServerState.UNSENT] if chance.random() < 0.8 else list(ServerState)
    results = Result.objects.filter(target_kind=Target.QUEUE, server_state__in=states)
    ids, index = list(results.order_by("pk").values_list("pk", flat=True)), _attached(world, chance)
    if ids and index is not None:
        world.claim(index, chance.choice(ids))


def _holder(world, chance):
    """Return a random (computer, result) of a task list or a queue, or None."""
    held_results = world.holders(chance.choice((Target.QUEUE, Target.BUNDLE, Target.BUNDLE)))
    return chance.choice(held_results) if held_results else None


@rule(6)
def report_one_of_a_list_or_queue(world, chance):
    """Report one member of a list early, or free one slot."""
    if held := _holder(world, chance):
        computer, result = held
        end = chance.choice(("right", "right", "right", *ENDS))
        wants = chance.choice((0.0, 3000.0))
        if result.name in computer.held:
            world.meet(computer, reports=[(result.name, end)], wants=wants)


@rule(4)
def time_out_one_of_a_list_or_queue(world, chance):
    """Wait for the deadline of a result, and time out one of those that are late."""
    if held := _holder(world, chance):
        world.now = max(world.now, held[1].report_deadline + timedelta(hours=2))
        world.run("timeout_checker", limit=1)


@rule(2)
def cancel_one_of_a_list(world, chance):
    members = Workunit.objects.filter(bundle_id__gt=0, assimilate_state=0).order_by("pk")
    if names := list(members.values_list("name", flat=True)):
        world.staff("cancel", chance.choice(names))


@rule(2)
def detach_a_holder(world, chance):
    if held := _holder(world, chance):
        world.meet(held[0], forgets=True, wants=chance.choice((0.0, 3000.0)))


# Daemons and time


@rule(40)
def one_pass(world, chance):
    daemon = chance.choice(CHOSEN)
    world.tried[f"pass of {daemon}"] += 1
    world.run(daemon, shard=chance.choice(SHARDS), limit=chance.choice((1000, 1000, 1, 2)))


@rule(4)
def all_daemons(world, _chance):
    world.quiet()


@rule(8)
def time_goes_on(world, chance):
    world.now += timedelta(seconds=chance.choice(JUMPS))


@rule(1)
def time_goes_back(world, chance):
    world.go_back(chance.choice(SMALL_JUMPS_BACK))


# Bad luck


@rule(10)
def somebody_will_die(world, chance):
    world.arm(chance.randrange(16), after=chance.random() < 0.5)


@rule(1)
def the_science_refuses(_world, chance):
    counted.refusals.append(chance.choice((counted.NoRoom("no room today"), OSError("no room"))))


@rule(3)
def look(world, _chance):
    checks.hold(world.faults())
