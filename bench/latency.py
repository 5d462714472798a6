"""How long an answer takes on an idle server: reported, then assimilated."""

from __future__ import annotations

import http.client
import random
import re
import time
from collections.abc import Callable, Iterator
from statistics import median

from django.db import connection
from django.utils import timezone

from bench import backlog
from bench.figures import BenchError, Figure
from bench.pipeline import ENVIRONMENT, IDLE_SECTION
from bench.show import Show
from bench.stage import Stage
from bench.volunteer import Volunteer, volunteers
from daemons import registry
from scheduler.results.facts import result_name

QUORUM = 2
#: Before each report the daemons have had nothing to do for so long, and a chance more: seconds.
IDLE, CHANCE = 2.5, 1.0
#: Seconds after which an answer will not come.
MOST_SECONDS = 30.0
_GIVEN = re.compile(rb"<result>\s*<name>([^<]+)</name>")
_ACKED = re.compile(rb"<result_ack>\s*<name>([^<]+)</name>")


def from_report_to_answer(times: int, *, stage: Stage, show: Show) -> Iterator[Figure]:
    """Time from the report of a workunit's second result until its answer is kept."""
    stage.serve()
    backlog.forget()
    backlog.submit_all(backlog.workunits(times, quorum=QUORUM))
    _transition()
    backlog.upload_all()
    hosts = [_Host(volunteer, stage.port) for volunteer in volunteers(QUORUM)]
    for host in hosts:
        host.fetch(times)
    stage.start_daemons(**ENVIRONMENT)
    try:
        # The first result of each is no news: one answer is too few for a quorum of two.
        hosts[0].report(hosts[0].held)
        with show.bar("an idle server", times) as advance:
            seconds = list(_each(hosts[1], advance))
    finally:
        stage.stop_daemons()
    notes = (
        f"{times} workunits of quorum 2, one by one, {IDLE:.1f} to {IDLE + CHANCE:.1f} s apart",
        "from sending the second report until the answer is on the disk",
    )
    for key, what, value in (
        ("latency_p50", "report to assimilated: p50", median(seconds)),
        ("latency_longest", "report to assimilated: longest", max(seconds)),
    ):
        yield Figure(
            key=key,
            section=IDLE_SECTION,
            what=what,
            unit="ms",
            value=1000 * value,
            count=times,
            notes=notes if key == "latency_p50" else (),
        )


class _Host:
    """A host whose user waits for each reply."""

    def __init__(self, volunteer: Volunteer, port: int) -> None:
        self._volunteer = volunteer
        self._port = port
        self.held: list[bytes] = []

    def fetch(self, results: int) -> None:
        """Take so many results in hand."""
        self.held = _GIVEN.findall(self._ask(results_wanted=results))
        if len(self.held) != results:
            raise BenchError(f"{results} results were asked for, {len(self.held)} came.")

    def report(self, names: list[bytes]) -> None:
        """Report results; all must be acknowledged."""
        acked = _ACKED.findall(self._ask(report=names))
        if sorted(acked) != sorted(names):
            raise BenchError(f"{len(names)} results were reported, {len(acked)} acknowledged.")

    def _ask(self, *, report: list[bytes] | None = None, results_wanted: int = 0) -> bytes:
        body = self._volunteer.request(report=report or (), results_wanted=results_wanted)
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=MOST_SECONDS)
        try:
            line.request("POST", "/cgi/scheduler", body, {"Content-Type": "text/xml"})
            return line.getresponse().read()
        finally:
            line.close()


def _each(host: _Host, advance: Callable[[float], None]) -> Iterator[float]:
    """Seconds from report to answer, workunit by workunit."""
    for name in host.held:
        time.sleep(IDLE + CHANCE * random.random())
        began = time.perf_counter()
        host.report([name])
        yield _seconds_until_kept(name.decode(), began)
        advance(1)


def _seconds_until_kept(name: str, began: float) -> float:
    workunit = name.rpartition("_")[0]
    if result_name(workunit, int(name.rpartition("_")[2])) != name:
        raise BenchError(f"{name} is no result's name.")
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT assimilate_state FROM workunit WHERE name = %s", [workunit])
            if cursor.fetchone() == (2,):
                return time.perf_counter() - began
            if time.perf_counter() - began > MOST_SECONDS:
                raise BenchError(f"{workunit} was not assimilated within {MOST_SECONDS:.0f} s.")
            time.sleep(0.002)


def _transition() -> None:
    transitioner = registry.find("transitioner")
    while transitioner.run_pass(now=timezone.now(), limit=transitioner.batch).more:
        pass
