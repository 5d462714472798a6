"""Scenarios of interleavings: two or three acts, each run by its own process."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings

from scheduler.dispatch import assign
from scheduler.lifecycle import ServerState, Target
from scheduler.models import Batch, QueueSlot, Result
from scheduler.pool import claims
from scheduler.queues.facts import FOREVER
from tests.long import counted
from tests.long.computers import ENDS
from tests.long.ground import APPS
from tests.long.rules import SHARDS

DAY = timedelta(days=1)
SCENARIOS = {}


def play(var, world, what, words, take_turn):
    """Call the method `what` of `world` in a worker process; return the changed world."""
    settings.VAR_DIR = var
    # An act that sleeps until a lock is free lets the other workers proceed.
    assign.sleep = claims.sleep = take_turn
    counted.forget()
    world.tried.clear()
    getattr(world, what)(*words[0], **words[1])
    world.answers = counted.told()
    return world


def act(what, *args, **options):
    return what, (args, options)


def scenario(function):
    SCENARIOS[function.__name__.replace("_", " ")] = function
    return function


def given(world, chance, *, apps=None, quorum=None, extra=0, workunits=None, **rules):
    """Submit and send workunits; return the indexes of the computers that hold results."""
    quorum = quorum or chance.choice((1, 2, 2, 3))
    app = chance.choice(apps or [app for app in APPS if app != "science"])
    world.submit(
        app,
        workunits or chance.randint(1, 3),
        min_quorum=quorum,
        target_nresults=quorum + extra,
        **rules,
    )
    world.run("transitioner")
    for computer in world.computers:
        if not Result.objects.filter(server_state=2).exists():
            break
        world.meet(computer, wants=50000.0)
    world.run("transitioner")
    return [index for index, computer in enumerate(world.computers) if computer.held]


def reports(world, index, end="right", *, wants=0.0):
    """Return the act by which a computer reports all results that it holds."""
    names = list(world.computers[index].held)
    return act("meet_of", index, reports=[(name, end) for name in names], wants=wants)


def ends(chance):
    return chance.choice(("right", "right", "right", "wrong", *ENDS))


def passes(chance, daemon, **options):
    if chance.random() < 0.3:
        options["shard"] = chance.choice(SHARDS)
    return act("run", daemon, **options)


@scenario
def report_and_timeout(world, chance):
    holders = given(world, chance)
    world.now += DAY + timedelta(hours=chance.choice((1, 3)))
    who = chance.choice(holders)
    return [
        reports(world, who, ends(chance)),
        passes(chance, "timeout_checker"),
        passes(chance, "transitioner"),
    ]


@scenario
def report_and_validate(world, chance):
    holders = given(world, chance, quorum=chance.choice((1, 2)), extra=1)
    last = holders.pop(chance.randrange(len(holders)))
    for index in holders:
        what, (args, options) = reports(world, index, ends(chance))
        getattr(world, what)(*args, **options)
    world.run("transitioner")
    return [
        reports(world, last, ends(chance)),
        passes(chance, "validator"),
        passes(chance, "transitioner"),
    ]


@scenario
def two_reports_of_one_result(world, chance):
    holders = given(world, chance)
    who = chance.choice(holders)
    twin = (who + 4) % 8
    world.meet(world.computers[twin])
    world.computers[twin].past |= world.computers[who].held
    names = list(world.computers[who].held)
    again = act("meet_of", twin, reports=[(name, ends(chance)) for name in names])
    return [reports(world, who), again, passes(chance, "transitioner")]


@scenario
def two_transitioners(world, chance):
    holders = given(world, chance)
    what, (args, options) = reports(world, holders[0], ends(chance))
    getattr(world, what)(*args, **options)
    world.submit(chance.choice(["plain", "adaptive"]), 2, min_quorum=2)
    acts = [
        passes(chance, "transitioner"),
        act("run", "transitioner", limit=chance.choice((1, 2, 1000))),
    ]
    if len(holders) > 1:
        acts.append(reports(world, holders[1]))
    return acts


@scenario
def cancel_and_dispatch(world, chance):
    world.submit(
        chance.choice(["plain", "adaptive", "classes", "versions"]),
        2,
        min_quorum=chance.choice((1, 2)),
    )
    world.run("transitioner")
    name = chance.choice(world.open_workunits())
    asks = [act("meet_of", index, wants=50000.0) for index in chance.sample(range(8), 2)]
    return [
        act("staff", "cancel", name),
        chance.choice(asks),
        chance.choice((passes(chance, "transitioner"), asks[0])),
    ]


@scenario
def report_and_cancel(world, chance):
    holders = given(world, chance)
    name = chance.choice(world.open_workunits())
    return [
        reports(world, chance.choice(holders), ends(chance)),
        act("staff", "cancel", name),
        passes(chance, "transitioner"),
    ]


def _late(world, chance):
    """Time out one result and validate the others; return the index of the late computer."""
    holders = given(world, chance, quorum=1, extra=1)
    late = chance.choice(holders)
    world.now += DAY + timedelta(hours=2)
    world.run("timeout_checker")
    for index in holders:
        if index != late:
            what, (args, options) = reports(world, index)
            getattr(world, what)(*args, **options)
    world.run("transitioner")
    world.run("validator")
    world.run("transitioner")
    return late


@scenario
def assimilate_and_late_report(world, chance):
    late = _late(world, chance)
    return [
        reports(world, late, ends(chance)),
        passes(chance, "assimilator"),
        passes(chance, "transitioner"),
    ]


@scenario
def two_assimilators(world, chance):
    late = _late(world, chance)
    return [
        passes(chance, "assimilator"),
        act("run", "assimilator", limit=chance.choice((1, 1000))),
        chance.choice((reports(world, late), passes(chance, "transitioner"))),
    ]


@scenario
def two_validators(world, chance):
    holders = given(world, chance, quorum=2, extra=chance.randrange(2), workunits=3)
    last = holders.pop()
    for index in holders:
        what, (args, options) = reports(world, index, ends(chance))
        getattr(world, what)(*args, **options)
    world.run("transitioner")
    return [
        passes(chance, "validator"),
        act("run", "validator", limit=chance.choice((1, 2))),
        reports(world, last),
    ]


@scenario
def file_deleter_and_late_report(world, chance):
    late = _late(world, chance)
    world.run("assimilator")
    world.now += timedelta(days=chance.choice((0, 2)))
    world.run("transitioner")
    return [
        reports(world, late, ends(chance)),
        passes(chance, "file_deleter"),
        passes(chance, chance.choice(("transitioner", "file_deleter"))),
    ]


@scenario
def revalidation_and_assimilate(world, chance):
    late = _late(world, chance)
    name = chance.choice(world.open_workunits())
    return [
        act("staff", "revalidate", name),
        passes(chance, "assimilator"),
        chance.choice((passes(chance, "transitioner"), reports(world, late))),
    ]


@scenario
def several_rpcs(world, chance):
    """Up to three computers report results of the same workunits and request work."""
    holders = given(world, chance, workunits=3)
    world.submit("plain", 2, min_quorum=2)
    world.run("transitioner")
    chosen = chance.sample(holders, min(3, len(holders)))
    return [reports(world, index, ends(chance), wants=50000.0) for index in chosen]


@scenario
def two_batches_of_rpcs(world, chance):
    """Two batches of RPCs report results of the same workunits and request work."""
    holders = given(world, chance, quorum=chance.choice((2, 3)), workunits=3)
    world.submit("plain", 3, min_quorum=2)
    world.run("transitioner")
    chance.shuffle(holders)
    others = [index for index in range(8) if index not in holders]
    half = (len(holders) + 1) // 2
    acts = []
    for indexes in (holders[:half] + others[:1], holders[half:] + others[1:2]):
        options_of_each = [
            {
                "reports": [(name, ends(chance)) for name in world.computers[index].held],
                "wants": 5e4,
            }
            for index in indexes
        ]
        acts.append(act("meet_together", indexes, options_of_each))
    return [*acts, passes(chance, chance.choice(("transitioner", "validator")))]


@scenario
def validate_and_timeout(world, chance):
    holders = given(world, chance, quorum=1, extra=1)
    what, (args, options) = reports(world, holders[0], ends(chance))
    getattr(world, what)(*args, **options)
    world.run("transitioner")
    world.now += DAY + timedelta(hours=2)
    return [
        passes(chance, "validator"),
        passes(chance, "timeout_checker"),
        passes(chance, chance.choice(("transitioner", "assimilator"))),
    ]


@scenario
def purge_and_late_report(world, chance):
    late = _late(world, chance)
    world.run("assimilator")
    world.now += timedelta(days=3)
    world.quiet()
    return [
        reports(world, late, ends(chance)),
        passes(chance, "purger"),
        passes(chance, chance.choice(("transitioner", "purger"))),
    ]


@scenario
def archive_and_late_report(world, chance):
    """A late report arrives while the purger archives and drops the rows of its workunit."""
    late = _late(world, chance)
    world.run("assimilator")
    world.now += timedelta(days=3)
    world.quiet()
    # The partitions of the ledger are made before, so that the purger soon reads the rows.
    world.run("purger", limit=0)
    idle = ["assimilator"] * chance.randint(0, 5)
    return [reports(world, late, ends(chance)), act("run_in_turn", *idle, "purger")]


@scenario
def follow_and_end(world, chance):
    """A batch ends, is retried or added to while batches that follow it are submitted."""
    holders = given(world, chance, apps=["plain"], quorum=1, batch=True)
    if fails := chance.random() < 0.4:
        world.staff("cancel", world.open_workunits()[0])
    if fails or chance.random() < 0.5:
        for index in holders:
            what, (args, options) = reports(world, index)
            getattr(world, what)(*args, **options)
        world.quiet()
    first = Batch.objects.get()
    follow = {"after": first.pk, "after_any": chance.random() < 0.3}
    if chance.random() < 0.7:
        world.follow("plain", 2, batch="second", **follow)
    if chance.random() < 0.5:
        world.change_batch("complete", first)
    possible = [
        act("follow", "plain", 1, batch=chance.choice(("second", "third")), **follow),
        act("change_batches", "complete", "settle"),
        act("change_batches", "settle"),
        act("change_batch", chance.choice(("abort", "retry")), first),
        # An added workunit keeps the batch open for the batches that follow it later.
        act("follow_anew", "plain", first, batch="second", **follow),
        passes(chance, "transitioner"),
    ]
    return chance.sample(possible, 3)


@scenario
def transitioner_and_repeated_report(world, chance):
    """A client repeats its reports: the RPC locks the workunits, but does not wake them again."""
    holders = given(world, chance)
    who = chance.choice(holders)
    again = reports(world, who, ends(chance), wants=chance.choice((0.0, 5e4)))
    for index in holders:
        what, (args, options) = reports(world, index)
        getattr(world, what)(*args, **options)
    # Passes with nothing to do come first, because an RPC has several statements before its locks.
    idle = ["assimilator"] * chance.randint(4, 9)
    return [again, act("run_in_turn", *idle, "transitioner")]


@scenario
def anything(world, chance):
    holders = given(world, chance, quorum=2)
    daemons = ("transitioner", "validator", "timeout_checker", "assimilator", "file_deleter")
    names = world.open_workunits()
    world.now += timedelta(hours=chance.choice((0, 26)))
    possible = [
        *(passes(chance, daemon) for daemon in daemons),
        *(
            reports(world, index, ends(chance), wants=chance.choice((0.0, 5e4)))
            for index in holders
        ),
        act("meet_of", chance.choice(holders), forgets=True),
        *(act("staff", wish, chance.choice(names)) for wish in ("cancel", "hold", "revalidate")),
    ]
    return chance.sample(possible, 3)


def a_diamond(world, chance, quorum=1):
    """Submit workunits without a batch: top, then left and right, then bottom; send `top`."""
    app = chance.choice(("plain", "classes"))
    (top,) = world.submit_graph(app, 1)
    (left,) = world.submit_graph(app, 1, parents=[top])
    (right,) = world.submit_graph(app, 1, parents=[top])
    (bottom,) = world.submit_graph(app, 1, parents=[left, right], group=chance.random() < 0.3)
    world.run("transitioner")
    holder = chance.randrange(4)
    world.meet(world.computers[holder], wants=50000.0)
    return top, left, right, bottom, holder


@scenario
def end_and_change_of_dependencies(world, chance):
    top, left, right, bottom, holder = a_diamond(world, chance)
    changes = [
        act("link", top, [bottom]),
        act("link", top, [left], remove=True),
        act("link", left, [right]),
        act("staff", "cancel", chance.choice((top, left, bottom))),
    ]
    what, (args, options) = reports(world, holder, ends(chance))
    if chance.random() < 0.5:
        getattr(world, what)(*args, **options)
        world.run("transitioner")
        return [
            passes(chance, "validator"),
            passes(chance, "transitioner"),
            chance.choice(changes),
        ]
    return [act(what, *args, **options), chance.choice(changes), passes(chance, "transitioner")]


@scenario
def two_changes_of_dependencies(world, chance):
    _top, left, right, bottom, _holder = a_diamond(world, chance)
    (other,) = world.submit_graph("plain", 1, parents=[left])
    changes = [
        act("link", other, [right]),
        act("link", right, [other]),
        act("link", bottom, [left]),
        act("link", left, [bottom], remove=True),
    ]
    return [*chance.sample(changes, 2), passes(chance, "transitioner")]


@scenario
def submission_and_end_of_a_parent(world, chance):
    top, left, _right, _bottom, holder = a_diamond(world, chance)
    what, (args, options) = reports(world, holder, ends(chance))
    getattr(world, what)(*args, **options)
    world.run("transitioner")
    return [
        act("submit_graph", "plain", 1, parents=[top, left]),
        passes(chance, "validator"),
        passes(chance, "transitioner"),
    ]


def a_queue(world, chance, number, *, introduced=()):
    """Submit workunits to the queue `slots`; the computers contact the server before."""
    for index in introduced:
        world.meet_of(index)
    world.submit(chance.choice(("plain", "patient")), number, queue="slots")
    world.run("transitioner")


def queue_results(state):
    """Return the ids of the queue's results in a state."""
    results = Result.objects.filter(target_kind=Target.QUEUE, server_state=state)
    return list(results.order_by("pk").values_list("pk", flat=True))


def crowd(world, index):
    """Lower the limit below the results in progress, and report all but that of the last slot."""
    world.change_queue("slots", max_in_progress=3)
    world.meet_of(index, wants=5e4)
    world.change_queue("slots", max_in_progress=1)
    slots = QueueSlot.objects.exclude(result=None).order_by("number")
    names = list(slots.values_list("result__name", flat=True))
    world.meet_of(index, reports=[(name, "right") for name in names[:-1]])


@scenario
def claim_and_change_of_a_limit(world, chance):
    """The limit changes while a client and a host of the pool claim results of the queue."""
    first, second, third = chance.sample(range(8), 3)
    a_queue(world, chance, 4, introduced=(second, third))
    if chance.random() < 0.5:
        world.change_queue("slots", max_in_progress=chance.choice((None, 1, 3)))
    if chance.random() < 0.5:
        world.acquire(third, chance.choice((1, 2)))
    if chance.random() < 0.3:
        crowd(world, first)
    facts = {"max_in_progress": chance.choice((None, 0, 1, 2, 3))}
    if chance.random() < 0.2:
        facts = {"disabled_until": world.now + DAY}
    return [
        act("meet_of", first, wants=chance.choice((1.0, 5e4))),
        act("acquire", second, chance.choice((1, 2))),
        act("change_queue", "slots", **facts),
    ]


@scenario
def submission_and_change_of_what_a_queue_accepts(world, chance):
    """A queue gets work that it will not accept, at the moment of its change."""
    app = chance.choice(("plain", "patient"))
    endless = {"delay_bound": FOREVER} if chance.random() < 0.6 else {}
    facts = {"trusted": False} if endless else {"app": "classes"}
    return [
        act("submit_to_queue", "slots", app, 2, **endless),
        act("change_admission", "slots", **facts),
        chance.choice(
            (
                passes(chance, "transitioner"),
                act("submit_to_queue", "slots", "classes", 1),
                act("meet_of", chance.randrange(8), wants=5e4),
            )
        ),
    ]


@scenario
def report_and_timeout_in_a_queue(world, chance):
    """The holder of a slot reports late; the slot is free for another host, but only once."""
    first, second, third = chance.sample(range(8), 3)
    a_queue(world, chance, 4, introduced=(third,))
    for index in (first, second):
        world.meet_of(index, wants=1.0)
    world.now += DAY + timedelta(hours=chance.choice((1, 3)))
    return [
        chance.choice(
            (reports(world, first, ends(chance), wants=1.0), act("meet_of", first, forgets=True))
        ),
        act("run", "timeout_checker", limit=chance.choice((1, 1000))),
        chance.choice((act("acquire", third, 2), act("meet_of", third, wants=5e4))),
    ]


@scenario
def two_claims_of_a_queue(world, chance):
    """Hosts of the pool claim results of a queue that the scheduler sends at the same time."""
    first, second, third = (chance.randrange(8) for _ in range(3))
    a_queue(world, chance, 6, introduced=(first, second))
    if chance.random() < 0.4:
        crowd(world, chance.randrange(8))
    elif chance.random() < 0.4:
        world.change_queue("slots", max_in_progress=chance.choice((None, 1, 3)))
    return [
        act("acquire", first, chance.choice((1, 2))),
        act("claim", second, chance.choice(queue_results(ServerState.UNSENT))),
        act("meet_of", third, wants=chance.choice((1.0, 5e4))),
    ]


def a_list(world, chance, holder):
    """Submit a list of three workunits; send it to a computer, which may report one member."""
    world.submit(
        "lists",
        3,
        batch=True,
        bundle="list",
        expected_duration=timedelta(hours=1),
        max_timeouts=chance.choice((None, None, 0)),
    )
    world.run("transitioner")
    world.meet_of(holder, wants=1.0)
    if chance.random() < 0.5:
        name = next(iter(world.computers[holder].held))
        world.meet_of(holder, reports=[(name, ends(chance))])
        if chance.random() < 0.5:
            world.run("transitioner")


@scenario
def members_report_and_timeout(world, chance):
    """Members of a list are reported, time out and are cancelled; another host claims the rest."""
    holder, other = chance.sample(range(8), 2)
    a_list(world, chance, holder)
    world.now += timedelta(hours=chance.choice((1, 12)))
    if chance.random() < 0.6:
        world.run("timeout_checker", limit=chance.choice((1, 2, 3)))
        world.run("transitioner")
    names = list(world.computers[holder].held)
    reported = chance.sample(names, chance.randint(1, len(names)))
    members = world.open_workunits()
    possible = [
        act("meet_of", holder, reports=[(name, ends(chance)) for name in reported]),
        act("meet_of", other, wants=1.0),
        act("run_in_turn", "timeout_checker", "transitioner"),
        passes(chance, "transitioner"),
        act("staff", "cancel", chance.choice(members)),
        act("meet_of", holder, forgets=True),
    ]
    return [possible[0], *chance.sample(possible[1:], 2)]


@scenario
def two_claims_of_a_list(world, chance):
    """Two hosts claim a list; a member is held or cancelled, or a pass runs meanwhile."""
    first, second = chance.sample(range(8), 2)
    world.submit("lists", 3, batch=True, bundle="list", expected_duration=timedelta(hours=1))
    world.run("transitioner")
    name = chance.choice(world.open_workunits())
    return [
        act("meet_of", first, wants=1.0),
        act("meet_of", second, wants=1.0),
        chance.choice(
            (
                act("staff", "cancel", name),
                act("staff", "hold", name),
                passes(chance, "transitioner"),
            )
        ),
    ]
