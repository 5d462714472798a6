"""`manage.py serve` restarts child processes that end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress

import psutil
import pytest

from project.monitoring.shared_folder import VARIABLE
from tests.long.stand import children_of, gone
from tests.story.project import ROOT

pytestmark = pytest.mark.story


def child(project, word):
    """Return the child process of `serve` with this word in its command line, or None."""
    for process in children_of(project.children.started["serve"].pid):
        with suppress(psutil.Error):
            if word in process.cmdline():
                return process
    return None


@pytest.fixture
def project(make_project):
    """Start a project, and wait until `serve` restarts its children instead of exiting."""
    project = make_project()
    project.start()
    project.wait(
        lambda: "serve: the server answers" in project.log(), within=30, what="serve knows it"
    )
    return project


def test_serve_restarts_a_web_server_that_exited(project):
    server = child(project, "granian")

    def has_given_up():
        for worker in children_of(server.pid):
            with suppress(psutil.NoSuchProcess):
                worker.kill()
        return not children_of(server.pid) and not server.is_running()

    # Granian exits after a worker has ended twice within seconds.
    project.wait(has_given_up, within=60, what="it starts no workers any more")
    project.wait(project._answers, within=60, what="it answers again")

    assert child(project, "granian").pid != server.pid
    assert "serve: the server ended by itself" in project.log()
    assert project.stop() == 0, project.log()


def test_web_process_loads_pages_and_api_before_its_first_request(project):
    loaded = "import sys, project.wsgi; print(*sorted(sys.modules), sep=chr(10))"
    modules = project.manage("shell", "--no-imports", "-c", loaded).splitlines()
    assert {"scheduler.web.urls", "scheduler.api.urls", "rest_framework.views"} <= set(modules)


def test_serve_restarts_killed_daemons_and_leaves_no_orphans(project):
    daemons = child(project, "daemons")
    project.wait(daemons.children, within=30, what="the first is started")
    orphans = daemons.children()

    daemons.kill()

    assert all(map(gone, orphans)), "daemons outlive their parent"
    project.wait(lambda: child(project, "daemons"), within=60, what="they are there again")
    assert project.stop() == 0, project.log()


def test_serve_and_daemons_refuse_the_files_of_another_project(project):
    assert project.stop() == 0, project.log()
    (project.folder / "var/project-id").write_text("00000000-0000-0000-0000-000000000001\n")
    for command in (["serve", "--port", "1", "--quiet"], ["daemons"]):
        with pytest.raises(AssertionError, match="holds the files of another project"):
            project.manage(*command)


def test_second_serve_over_the_same_folder_is_refused(project):
    with pytest.raises(AssertionError, match="is served already, by process"):
        project.manage("serve", "--port", "1", "--quiet")
    assert project._answers()


def test_sleep_interval_of_serve_reaches_the_named_daemon_only(make_project):
    project = make_project()
    project.start("--sleep-interval", "assimilator=3600")

    def passes_of(name):
        return project.count(
            "SELECT coalesce(max(passes), 0) FROM heartbeat WHERE name = %s", f"daemon {name}"
        )

    names = ("assimilator", "validator")
    project.wait(lambda: all(map(passes_of, names)), within=60, what="both have made a pass")
    time.sleep(2)  # about six passes with a pause of up to a second
    daemons = child(project, "daemons").children()
    stopped = [process for process in daemons if process.name() in names]
    assert len(stopped) == 2
    for process in stopped:
        process.terminate()  # a daemon that ends stores the number of its passes
    psutil.wait_procs(stopped, timeout=30)

    # The second pass is that of a daemon that was started again.
    assert passes_of("assimilator") <= 2
    assert passes_of("validator") > 2
    assert project.stop() == 0, project.log()


def test_counters_of_an_ended_server_are_deleted_from_the_folder_of_the_operator(
    make_project, tmp_path
):
    folder = tmp_path / "metrics"
    folder.mkdir()
    (folder / "notes.txt").write_text("of the operator")
    count = "from scheduler import metrics; metrics.RPCS[metrics.RpcOutcome.ANSWERED].inc(3)"
    subprocess.run(
        [sys.executable, "-c", count],
        env=os.environ | {VARIABLE: str(folder), "PYTHONPATH": str(ROOT)},
        check=True,
    )
    [stale] = folder.glob("counter_*.db")

    project = make_project(**{VARIABLE: str(folder), "METRICS_WITHOUT_TOKEN": "true"})
    project.start()

    with urllib.request.urlopen(f"{project.url}metrics", timeout=10) as reply:
        exposition = reply.read().decode()
    assert 'manyhands_scheduler_rpcs_total{outcome="answered"} 0.0' in exposition
    assert not stale.exists()
    assert len(list(folder.glob("counter_*.db"))) >= 2, "the workers share the folder"
    assert (folder / "notes.txt").read_text() == "of the operator"
