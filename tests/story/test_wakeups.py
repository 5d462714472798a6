"""On an idle server, a reported result is validated and assimilated immediately."""

from __future__ import annotations

import sys
import time

import psycopg
import pytest

from scheduler import storage
from scheduler.boinc.wire import messages
from scheduler.results.facts import output_name
from tests.story.test_eight_hosts import Asker

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

#: The aim is 0.3 s; the limit allows for a busy machine, but is shorter than polling takes.
WITHIN = 2.0
TIMES = 5
ASSIMILATED = "SELECT assimilate_state = 2 FROM workunit WHERE name = %s"
UNSENT = "SELECT count(*) FROM result WHERE server_state = 2"


def upload(project, result_name):
    """Write the output of a result to the place of its finished upload."""
    [row] = project.sql("SELECT id FROM result WHERE name = %s", result_name)
    with storage.begin_upload(output_name(result_name, row["id"], 0), 0) as arriving:
        arriving.write(b"the answer")
        arriving.finish(md5=None)


def test_reported_result_is_assimilated_at_once_although_daemons_poll_rarely(
    make_project, settings, capsys
):
    project = make_project()
    settings.VAR_DIR = project.folder / "var"
    project.start(pause=600.0)  # without wake-ups, each step would take minutes
    project.publish()
    project.sql("UPDATE app SET validator = 'trivial'")
    host = Asker(project, "host")
    host.create_account()
    host.ask(seconds=0)
    took = []
    with psycopg.connect(**project.database.conninfo(), autocommit=True) as database:
        for number in range(TIMES):
            [workunit] = project.submit({f"{number}": "3\n"}, quorum=1, fpops=1e9)
            # Submission wakes the transitioner.
            project.wait(lambda: project.count(UNSENT), within=20, what="a result")
            [result] = host.ask(seconds=1.0).results
            upload(project, result.name)
            time.sleep(1.0)  # all daemons are idle again
            report = messages.ReportedResult(name=result.name, state=5, final_elapsed_time=1.0)
            began = time.monotonic()
            host.ask(seconds=0, results=(report,))
            while not database.execute(ASSIMILATED, [workunit]).fetchone()[0]:
                assert time.monotonic() - began < 20, project.log()
                time.sleep(0.002)
            took.append(time.monotonic() - began)
    with capsys.disabled():
        said = ", ".join(f"{1000 * one:.0f}" for one in took)
        sys.stdout.write(f"\nfrom report to assimilated on an idle server, ms: {said}\n")
    assert min(took) < WITHIN
