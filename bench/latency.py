"""Measures the time from a report to its assimilation on an idle server."""

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
#: Idle time before each report, and the maximum of the random time added to it, in seconds.
IDLE_SECONDS, EXTRA_SECONDS = 2.5, 1.0
#: The measurement fails if a workunit is not assimilated within this time.
TIMEOUT_SECONDS = 30.0
_RESULT_NAME = re.compile(rb"<result>\s*<name>([^<]+)</name>")
_ACK_NAME = re.compile(rb"<result_ack>\s*<name>([^<]+)</name>")


def report_to_answer(times: int, *, stage: Stage, show: Show) -> Iterator[Figure]:
    """Measure the time from the report of a workunit's second result to its assimilation.

    This is repeated for `times` workunits.
    """
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
        # The first results are reported in advance: a quorum of two needs two results.
        hosts[0].report(hosts[0].result_names)
        with show.bar("an idle server", times) as advance:
            seconds = list(_each(hosts[1], advance))
    finally:
        stage.stop_daemons()
    notes = (
        (
            f"{times} workunits of quorum 2, one by one,"
            f" {IDLE_SECONDS:.1f} to {IDLE_SECONDS + EXTRA_SECONDS:.1f} s apart"
        ),
        "from sending the second report until the output is on the disk",
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
    """A simulated host that sends one request at a time."""

    def __init__(self, volunteer: Volunteer, port: int) -> None:
        self._volunteer = volunteer
        self._port = port
        self.result_names: list[bytes] = []

    def fetch(self, results: int) -> None:
        """Request `results` results; raise BenchError if the server sends another number."""
        self.result_names = _RESULT_NAME.findall(self._send_request(results_wanted=results))
        if len(self.result_names) != results:
            raise BenchError(
                f"{results} results were requested, {len(self.result_names)} were sent."
            )

    def report(self, names: list[bytes]) -> None:
        """Report results; raise BenchError unless all are acknowledged."""
        acknowledged = _ACK_NAME.findall(self._send_request(report=names))
        if sorted(acknowledged) != sorted(names):
            raise BenchError(
                f"{len(names)} results were reported, {len(acknowledged)} acknowledged."
            )

    def _send_request(self, *, report: list[bytes] | None = None, results_wanted: int = 0) -> bytes:
        body = self._volunteer.request(report=report or (), results_wanted=results_wanted)
        http_connection = http.client.HTTPConnection(
            "127.0.0.1", self._port, timeout=TIMEOUT_SECONDS
        )
        try:
            http_connection.request("POST", "/cgi/scheduler", body, {"Content-Type": "text/xml"})
            return http_connection.getresponse().read()
        finally:
            http_connection.close()


def _each(host: _Host, advance: Callable[[float], None]) -> Iterator[float]:
    """Report each result of the host; yield the seconds until its workunit is assimilated."""
    for name in host.result_names:
        time.sleep(IDLE_SECONDS + EXTRA_SECONDS * random.random())
        began = time.perf_counter()
        host.report([name])
        yield _seconds_until_kept(name.decode(), began)
        advance(1)


def _seconds_until_kept(name: str, began: float) -> float:
    workunit = name.rpartition("_")[0]
    if result_name(workunit, int(name.rpartition("_")[2])) != name:
        raise BenchError(f"{name} is not the name of a result.")
    with connection.cursor() as cursor:
        while True:
            cursor.execute("SELECT assimilate_state FROM workunit WHERE name = %s", [workunit])
            if cursor.fetchone() == (2,):
                return time.perf_counter() - began
            if time.perf_counter() - began > TIMEOUT_SECONDS:
                raise BenchError(f"{workunit} was not assimilated within {TIMEOUT_SECONDS:.0f} s.")
            time.sleep(0.002)


def _transition() -> None:
    transitioner = registry.find("transitioner")
    while transitioner.run_pass(now=timezone.now(), limit=transitioner.batch).more:
        pass
