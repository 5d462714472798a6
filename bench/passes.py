"""Measures the daemons' passes over one backlog, from submission to purge."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from django.conf import settings
from django.utils import timezone

from bench import backlog
from bench.figures import BenchError, Figure
from bench.show import Show
from bench.stage import Stage, Stopwatch
from daemons import registry
from daemons.loop import Daemon
from daemons.tally import Tally

HOSTS = 200
INCOMING, PASSES = 2, 3
#: Maximum number of workunits in one submission of chains.
SUBMITTED_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The passes of a daemon over a backlog whose workunits all have the same state.

    `before` prepares the backlog.  `per_workunit` is the number of units per workunit.  `proof`
    maps counts of the tally to their expected values per workunit.
    """

    key: str
    what: str
    daemon: str
    proof: dict[str, int]
    unit: str = "workunits"
    per_workunit: int = 1
    notes: tuple[str, ...] = ()
    before: Callable[[], None] | None = None

    def runner(self) -> Daemon:
        return registry.find(self.daemon)

    def check(self, tally: Tally, workunits: int) -> None:
        """Raise BenchError unless the counts of the tally have their expected values."""
        for what, times in self.proof.items():
            if (did := tally.counts.get(what, 0)) != times * workunits:
                raise BenchError(f"{self.what}: {did} {what}, {times * workunits} expected.")


#: The steps from submission to purge, in order.
LIFE = (
    Step(
        key="transitioner_new",
        what="transitioner: new (2 results each)",
        daemon="transitioner",
        proof={"replicated": 1},
    ),
    Step(
        key="transitioner_reported",
        what="transitioner: all reported",
        daemon="transitioner",
        proof={"ready to validate": 1},
        before=backlog.report_all,
    ),
    Step(
        key="validator",
        what="validator: bitwise, quorum 2, credit",
        daemon="validator",
        proof={"with a canonical result": 1, "results paid": 2},
        notes=(f"credit goes to {HOSTS} hosts",),
    ),
    Step(
        key="transitioner_validated",
        what="transitioner: validated",
        daemon="transitioner",
        proof={"ready to assimilate": 1},
    ),
    Step(
        key="assimilator",
        what="assimilator: copies one file",
        daemon="assimilator",
        proof={"assimilated": 1},
        notes=(f"a file of {len(backlog.OUTPUT)} bytes, synced before it counts",),
    ),
    Step(
        key="transitioner_assimilated",
        what="transitioner: assimilated",
        daemon="transitioner",
        proof={"with files to delete": 1},
    ),
    Step(
        key="file_deleter",
        what="file_deleter: 1 input, 2 outputs",
        daemon="file_deleter",
        proof={"workunits rid of inputs": 1, "results rid of outputs": 2, "files deleted": 1},
    ),
    Step(key="purger", what="purger: with archive", daemon="purger", proof={"purged": 1}),
)
OVERDUE = Step(
    key="timeout_checker",
    what="timeout_checker: overdue results",
    daemon="timeout_checker",
    proof={"timed out": 2},
    unit="results",
    per_workunit=2,
    before=backlog.send_long_ago,
)
#: The number of workunits of a chain of dependencies.
CHAIN = 10
#: The suffix of the key of a step with the ledger off.
WITHOUT_LEDGER = "_no_ledger"


def submissions(count: int, stage: Stage, show: Show) -> Iterator[Figure]:
    """Measure submissions with a shared input, then with one input per workunit.

    The function `life` continues with the workunits of the second measurement.
    """
    for key, what, number in (
        ("submit", "submit: inputs shared", 4 * count),
        ("submit_own_input", "submit: a new input file each", count),
    ):
        backlog.forget()
        new = backlog.workunits(number, own_inputs=key != "submit")
        watch = Stopwatch(stage)
        with show.bar(what, number) as advance, watch:
            backlog.submit_all(new)
            advance(number)
        yield _figure(key, what, INCOMING, "workunits", number, watch)


def life(count: int, stage: Stage, show: Show) -> Iterator[Figure]:
    """Measure the passes of each step in `LIFE` on a backlog that was just submitted."""
    backlog.create_hosts(HOSTS)
    for step in LIFE:
        yield drain(step, count, stage, show)


def overdue(count: int, stage: Stage, show: Show) -> Iterator[Figure]:
    """Measure the timeout checker on overdue results."""
    backlog.forget()
    backlog.create_hosts(HOSTS)
    backlog.unsent(2 * count)
    yield drain(OVERDUE, count, stage, show)


def dependencies(count: int, stage: Stage, show: Show) -> Iterator[Figure]:
    """Measure chains of workunits: their submission, their release, and a failure passed on.

    All but the last workunit of a released chain are groups, so that no results are needed.
    """
    count -= count % CHAIN
    for key, what, groups, proof in (
        ("chain_released", "transitioner: chains released", True, "groups ended"),
        ("chain_failed", "transitioner: chains fail", False, "failed"),
    ):
        backlog.forget()
        new = backlog.chains(count, length=CHAIN, groups=groups)
        watch = Stopwatch(stage)
        with show.bar(f"submit: chains of {CHAIN}", count) as advance, watch:
            for first in range(0, count, SUBMITTED_AT_ONCE):
                backlog.submit_all(new[first : first + SUBMITTED_AT_ONCE])
                advance(len(new[first : first + SUBMITTED_AT_ONCE]))
        if groups:
            what_submitted = f"submit: chains of {CHAIN}"
            yield _figure("submit_chains", what_submitted, INCOMING, "workunits", count, watch)
        else:
            _settle()
            backlog.cancel_starts()
        watch = Stopwatch(stage)
        with show.bar(what, count), watch:
            counts = _settle().counts
        expected = count - count // CHAIN if groups else count
        if counts[proof] != expected:
            raise BenchError(f"{what}: {counts[proof]} {proof}, {expected} expected.")
        yield _figure(key, what, PASSES, "workunits", count, watch)


def _settle() -> Tally:
    """Run passes of the transitioner until its queue is empty; return their counts."""
    transitioner = registry.find("transitioner")
    total = Tally()
    while (tally := transitioner.run_pass(now=timezone.now(), limit=transitioner.batch)).seen:
        total += tally
    return total


def without_ledger(count: int, stage: Stage, show: Show) -> Iterator[Figure]:
    """Measure the validator with the ledger off."""
    backlog.forget()
    backlog.create_hosts(HOSTS)
    validator = next(step for step in LIFE if step.key == "validator")
    with _ledger_off():
        backlog.unsent(2 * count)
        backlog.report_all()
        transitioner = registry.find("transitioner")
        while transitioner.run_pass(now=timezone.now(), limit=transitioner.batch).more:
            pass
        figure = drain(validator, count, stage, show)
    yield replace(figure, key=figure.key + WITHOUT_LEDGER, what="validator: ledger off", notes=())


@contextmanager
def _ledger_off() -> Iterator[None]:
    """Switch off the ledger in this process until the block ends."""
    usual = settings.PROJECT
    settings.PROJECT = replace(usual, ledger=False)
    try:
        yield
    finally:
        settings.PROJECT = usual


def drain(step: Step, workunits: int, stage: Stage, show: Show) -> Figure:
    """Run the passes of a step until no more work is due; return the rate as a figure."""
    if step.before:
        step.before()
    daemon = step.runner()
    total = Tally()
    watch = Stopwatch(stage)
    with show.bar(step.what, workunits * step.per_workunit) as advance, watch:
        more = True
        while more:
            tally = daemon.run_pass(now=timezone.now(), limit=daemon.batch)
            total += tally
            more = tally.more
            advance(tally.seen)
    step.check(total, workunits)
    count = workunits * step.per_workunit
    return _figure(step.key, step.what, PASSES, step.unit, count, watch, step.notes)


def _figure(
    key: str,
    what: str,
    section: int,
    unit: str,
    count: int,
    watch: Stopwatch,
    notes: tuple[str, ...] = (),
) -> Figure:
    return Figure(
        key=key,
        section=section,
        what=what,
        unit=f"{unit}/s",
        value=count / watch.seconds if watch.seconds else 0.0,
        count=count,
        seconds=watch.seconds,
        cpu_ms=watch.cpu_ms(count),
        notes=notes,
    )
