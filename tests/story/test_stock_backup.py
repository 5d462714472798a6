"""A project is lost and restored; an unmodified BOINC client goes on."""

from __future__ import annotations

import json
import re
import shutil
import time

import pytest

from demo.sample import primes
from project.embedded_postgres import EmbeddedPostgres
from scheduler.lifecycle import Axis, ResultState
from tests.story.project import APP, exponents

pytestmark = pytest.mark.stock_client

WORKUNITS = 12
#: Time limit of each part of the story, in seconds.
PATIENCE = 60


def test_a_client_goes_on_after_the_project_is_restored_from_a_backup(our_project, stock_client):
    project = our_project
    client = stock_client(project, "alice")
    client.attach()
    groups = [primes(below=300)[first : first + 4] for first in range(0, 4 * WORKUNITS, 4)]
    names = project.submit(exponents(groups), seconds=0.8, fpops=1e10)
    assert len(names) == WORKUNITS
    follow(project, client, lambda: answers(project) >= 3)

    backup = project.folder / "backup"
    said = json.loads(project.manage("project", "backup", backup, "--json"))
    assert said["counts"]["workunit"] > 0
    assert said["not_included"] == said["skipped"] == []
    saved_answers = len(list((backup / "files" / "results").rglob("out")))
    # The client reports further results, of which the backup has nothing.
    follow(project, client, lambda: answers(project) >= saved_answers + 2)
    assert project.stop() == 0, project.log()
    project.database.stop()
    shutil.rmtree(project.folder / "var")

    restored = project.folder / "restored"
    project.environment["VAR_DIR"] = str(restored)
    project.database = EmbeddedPostgres(restored)
    said = project.manage("project", "restore", backup, "--fsck")
    assert "fsck: 0 violations" in said
    [host] = project.sql("SELECT id, rpc_seqno FROM host")
    project.start()

    def is_complete() -> bool:
        retry_uploads(project, client)
        return answers(project, restored) == WORKUNITS

    follow(project, client, is_complete)

    assert computed(restored, names) == sorted(number for group in groups for number in group)
    assert "0 violations" in project.manage("fsck", "--digests")
    [same_host] = project.sql("SELECT id, rpc_seqno FROM host")
    assert same_host["id"] == host["id"], "the client is the same host"
    assert same_host["rpc_seqno"] > host["rpc_seqno"]
    errors = "SELECT count(*) FROM ledger_entry WHERE axis = %s AND target = %s"
    assert project.count(errors, Axis.RESULT, ResultState.CLIENT_ERROR) == 0
    assert project.stop() == 0, project.log()


def computed(var, names):
    """Return the exponents in the answers to these workunits."""
    texts = [(var / "results" / APP / name / "out").read_text() for name in names]
    return sorted(int(line.split()[0]) for text in texts for line in text.splitlines())


def answers(project, var=None):
    """Return the number of answers that the assimilator has kept."""
    return len(list(((var or project.folder / "var") / "results").rglob("out")))


def retry_uploads(project, client):
    """Retry the uploads that wait, as "Retry now" in BOINC Manager does.

    After three failed uploads, a client waits for at least ten minutes before it starts the next one
    to the project; only this command ends the wait.
    """
    for name in re.findall(r"^ *name: (\S+)", client.command("--get_file_transfers"), re.MULTILINE):
        # The command fails if the upload has ended in the meantime.
        client._boinccmd("--file_transfer", project.url, name, "retry")


def follow(project, client, is_so):
    """Let the client contact the project every second until a condition holds."""
    give_up_at = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < give_up_at, (
            project.log() + client.tasks() + client.messages()[-3000:]
        )
        client.update()
        time.sleep(1)
