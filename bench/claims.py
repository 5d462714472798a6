"""Measures the duration of a claim for different sizes of the backlog.

One RPC at a time requests one result.  The host then uploads the output and reports the result in
another RPC, so that it has no results at its next request.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench import bulk, crowd
from bench.crowd import Load
from bench.figures import Figure
from bench.show import Show
from bench.stage import Stage
from bench.volunteer import volunteers

HOSTS = 8
SECTION = 4
#: Seconds of claims right after the bulk load, before any vacuum.
FIRST_SECONDS = 4.0
#: The measurement fails if the claims are not finished after this time.
TIMEOUT_SECONDS = 60.0


def measure_all(
    backlogs: tuple[int, ...], *, claims: int, stage: Stage, show: Show
) -> Iterator[Figure]:
    """Measure `claims` claims at each size of the backlog in `backlogs`.

    The figure `claim_growth` is the p99 at the last size divided by the p99 at the first size.
    """
    stage.serve()
    slowest: list[Figure] = []
    for place, backlog in enumerate(backlogs):
        for figure in _at_backlog(backlog, claims, stage=stage, show=show, first=place > 0):
            if figure.key.startswith("claim_p99"):
                slowest.append(figure)
            yield figure
    smallest, largest = slowest[0], slowest[-1]
    yield Figure(
        key="claim_growth",
        section=SECTION,
        what=f"p99 at {shortly(backlogs[-1])} / p99 at {shortly(backlogs[0])}",
        unit="times",
        value=largest.value / smallest.value if smallest.value else 0.0,
    )


def shortly(count: int) -> str:
    """Return a large number in short form.

    >>> shortly(10_000_000), shortly(200_000), shortly(500)
    ('10 M', '200 k', '500')
    """
    for unit, letter in ((1_000_000, " M"), (1000, " k")):
        if count >= unit:
            return f"{count // unit}{letter}"
    return str(count)


def _at_backlog(
    backlog: int, claims: int, *, stage: Stage, show: Show, first: bool
) -> Iterator[Figure]:
    name = shortly(backlog)
    with show.bar(f"loading {name} unsent results", backlog) as advance:
        began = time.perf_counter()
        bulk.load(backlog, advance)
        took = time.perf_counter() - began
    hosts = volunteers(HOSTS)
    show.print_line(f"loaded {name} unsent results in {took:.0f} s")
    load = Load(
        hosts=hosts, results=1, in_flight=1, uploads=True, apart=True, seconds=FIRST_SECONDS
    )
    done = crowd.run_load(load, stage)
    if first:
        yield _figure(
            f"claim_first_{backlog}",
            f"longest claim right after loading {name}",
            done.latency_ms("asked", "longest"),
            (f"in the first {FIRST_SECONDS:.0f} s; no row was vacuumed or analyzed before",),
        )
    load = Load(
        hosts=hosts,
        results=1,
        total=claims,
        in_flight=1,
        uploads=True,
        apart=True,
        most=TIMEOUT_SECONDS,
    )
    done = crowd.run_load(load, stage)
    notes = (f"{claims} claims of {HOSTS} hosts in turn, one at a time", *done.notes("asked")[1:])
    for which in ("p50", "p99"):
        value = done.latency_ms("asked", which)
        what = f"claim, {name} unsent: {which}"
        yield _figure(f"claim_{which}_{backlog}", what, value, notes if which == "p50" else ())


def _figure(key: str, what: str, value: float, notes: tuple[str, ...]) -> Figure:
    return Figure(key=key, section=SECTION, what=what, unit="ms", value=value, notes=notes)
