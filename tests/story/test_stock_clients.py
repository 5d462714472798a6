"""Three unmodified BOINC clients compute workunits until they are archived."""

from __future__ import annotations

import time

import pytest

from demo.sample import KNOWN_EXPONENTS, primes
from scheduler.lifecycle import Axis, Because, ResultState, ServerState
from tests.story.project import APP, exponents
from tests.story.test_life_of_a_workunit import archive, files_below

pytestmark = pytest.mark.stock_client

BELOW = 700
PER_WORKUNIT = 11
#: Time limit of the test, in seconds.
PATIENCE = 150


def test_three_stock_clients_compute_workunits_until_they_are_archived(our_project, stock_client):
    project = our_project
    clients = [stock_client(project, name) for name in ("alice", "bob", "carol")]
    for client in clients:
        client.attach()
    candidates = primes(below=BELOW)
    groups = [
        candidates[first : first + PER_WORKUNIT]
        for first in range(0, len(candidates), PER_WORKUNIT)
    ]
    names = project.submit(
        exponents(groups, first_line="exit 3 attempt 0"), seconds=0.4, quorum=2, fpops=1e11
    )
    assert len(names) >= 10
    ids = [row["id"] for row in project.sql("SELECT id FROM workunit WHERE name = ANY(%s)", names)]

    killed = follow(project, clients, len(names))

    assert killed, "no client was killed half way"
    found = {}
    for name in names:
        text = (project.folder / "var" / "results" / APP / name / "out").read_text()
        found |= {int(line.split()[0]): line.split()[1] for line in text.splitlines()}
    assert sorted(found) == candidates
    assert tuple(sorted(p for p, word in found.items() if word == "prime")) == tuple(
        p for p in KNOWN_EXPONENTS if p < BELOW
    )
    assert archive(project) >= set(names)
    assert not files_below(project, "upload")
    errors = project.sql(
        "SELECT workunit_id FROM ledger_entry WHERE axis = %s AND target = %s AND because = %s",
        *(Axis.RESULT, ResultState.CLIENT_ERROR, Because.REPORTED_ERROR),
    )
    assert len(errors) == 1, "one result errs on purpose"
    replicas = (
        "SELECT count(*) FROM ledger_entry WHERE workunit_id = %s AND axis = %s AND source = 0"
    )
    assert project.count(replicas, errors[0]["workunit_id"], Axis.RESULT) == 3, "it is replaced"
    paid = project.sql(
        "SELECT account_id, sum(amount) AS s FROM credit_entry GROUP BY 1 ORDER BY 1"
    )
    assert paid == project.sql(
        "SELECT id AS account_id, total_credit AS s FROM account WHERE total_credit > 0 ORDER BY 1"
    )
    assert sum(row["s"] for row in paid) > 0
    assert project.count("SELECT count(*) FROM credit_entry") == 2 * len(ids)
    assert "0 violations" in project.fsck()
    for client in clients:
        assert "unrecognized" not in client.messages().lower()
    assert project.stop() == 0, project.log()


def follow(project, clients, workunits):
    """Wait until all workunits are purged; kill and restart a client once on the way."""
    killed = False
    give_up_at = time.monotonic() + PATIENCE
    successes = "SELECT count(*) FROM ledger_entry WHERE axis = %s AND target = %s"
    while project.count("SELECT count(*) FROM workunit"):
        assert time.monotonic() < give_up_at, "\n".join(
            [project.log(), *(client.tasks() + client.messages()[-3000:] for client in clients)]
        )
        if not killed and project.count(successes, Axis.RESULT, ResultState.SUCCESS) >= workunits:
            killed = kill_one_that_computes(project, clients)
        for client in clients:
            client.update()
        time.sleep(1)
    return killed


def kill_one_that_computes(project, clients):
    """Kill and restart a client with a result in progress; return whether there was one."""
    busy = """SELECT count(*) FROM result JOIN account ON account.id = result.account_id
              WHERE account.name = %s AND server_state = %s"""
    for client in clients:
        if project.count(busy, client.name, ServerState.IN_PROGRESS):
            client.kill()
            client.start()
            return True
    return False
