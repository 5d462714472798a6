"""`manage.py serve` restarts child processes that end."""

from __future__ import annotations

from contextlib import suppress

import psutil
import pytest

from tests.long.stand import children_of, gone

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
