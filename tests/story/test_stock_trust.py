"""Targeting of work and trust in hosts, with unmodified BOINC clients."""

from __future__ import annotations

import psycopg
import pytest

from scheduler.dispatch.facts import Record
from scheduler.dispatch.rules import trust
from scheduler.lifecycle import Because, Outcome, ResultState
from tests.story.project import APP
from tests.story.test_stock_replies import ask_until, say_until
from tests.story.test_stock_rules import RESULTS, assimilated, is_known, successes

pytestmark = pytest.mark.stock_client


def ask_both_until(clients, is_so, *, what):
    """Update all clients repeatedly until the condition `is_so` holds."""

    def each():
        for client in clients[1:]:
            client.update()
        return is_so()

    ask_until(clients[0], each, what=what, every=1)


def test_targeted_workunit_is_sent_to_its_host_and_a_broadcast_to_both_hosts(
    make_project, stock_client
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.publish()
    clients = [stock_client(project, name) for name in ("alice", "bob")]
    for client in clients:
        client.attach()
    alice, bob = clients
    ask_both_until(clients, lambda: is_known(project, 2), what="both are known")
    [target] = project.sql(
        "SELECT host.id FROM host JOIN account ON account.id = account_id WHERE name = 'bob'"
    )

    [targeted] = project.submit({"a": "13\n"}, **{"for-host": target["id"]})
    say_until(alice, "Project has no tasks available", every=1)
    ask_until(bob, lambda: assimilated(project) == 1, what="bob computed it", every=1)

    assert targeted not in alice.messages()
    assert f"Computation for task {targeted}_0 finished" in bob.messages()
    [result] = project.sql(RESULTS)
    assert result["host_id"] == target["id"]

    # Results of a broadcast are not compared
    project.sql("UPDATE app SET validator = 'trivial'")
    words = ["--broadcast", "--end-before", "2100-01-01"]
    path = project.folder / "everybody"
    path.write_text("7\n")
    project.manage("submit_work", APP, path, *words)
    ask_both_until(clients, lambda: successes(project) == 3, what="both computed it")

    results = project.sql("SELECT * FROM result WHERE workunit_id <> %s", result["workunit_id"])
    assert len({row["host_id"] for row in results}) == len(results) == 2
    assert "0 violations" in project.fsck()


def lucky_key():
    """Return a `chance_key` for which workunits 3 and 4 are not spot-checked on hosts 1 and 2."""
    record = Record(consecutive_valid=2)
    for number in range(1000):
        key = f"key {number}"
        draws = [trust.draw(key, workunit, host) for workunit in (3, 4) for host in (1, 2)]
        if not any(trust.is_spot_check(record, draw) for draw in draws):
            return key
    raise AssertionError


def test_workunits_of_trusted_hosts_get_no_second_replica(make_project, stock_client):
    project = make_project(PURGE_AFTER="3600", CHANCE_KEY=lucky_key())
    project.start()
    project.publish()
    project.sql("UPDATE app SET target_nresults = 2, trusted_after = 2")
    clients = [stock_client(project, name) for name in ("alice", "bob")]
    for client in clients:
        client.attach()

    first = project.submit({"a": "13\n", "b": "17\n"})
    ask_both_until(clients, lambda: assimilated(project) == 2, what="two are done")

    records = project.sql("SELECT consecutive_valid FROM host_app_version")
    assert [record["consecutive_valid"] for record in records] == [2, 2]
    second = project.submit({"c": "19\n", "d": "23\n"})
    ask_both_until(clients, lambda: assimilated(project) == 4, what="all are done")

    replicas = {
        row["name"]: (row["id"], row["replicas"])
        for row in project.sql(
            "SELECT w.name, w.id, count(*) AS replicas FROM workunit AS w"
            " JOIN result AS r ON r.workunit_id = w.id GROUP BY w.id"
        )
    }
    assert [replicas[name] for name in first] == [(1, 2), (2, 2)]
    assert [replicas[name] for name in second] == [(3, 1), (4, 1)]
    logs = [client.messages() for client in clients]
    assert all(f"Computation for task {name}_" in log for name in first for log in logs)
    for name in second:
        assert sum(f"Starting task {name}_" in log for log in logs) == 1
    assert "0 violations" in project.fsck()


def is_waiting(project):
    """Return whether a session waits for a lock on the table `host`."""
    return project.sql("SELECT FROM pg_locks WHERE NOT granted AND relation = 'host'::regclass")


def test_result_never_acknowledged_by_a_client_is_replaced_after_ack_timeout(
    make_project, stock_client
):
    project = make_project(PURGE_AFTER="3600")
    project.start()
    project.publish()
    client = stock_client(project, "alice")
    client.attach()
    ask_until(client, lambda: is_known(project), what="the host is known", every=1)
    project.sql("UPDATE app SET ack_timeout = '2 s'")

    # The client is killed while the server processes its request, and gets no reply
    with psycopg.connect(**project.database.conninfo()) as held_up:
        held_up.execute("LOCK TABLE host IN SHARE MODE")
        project.submit({"a": "13\n"})
        ask_until(client, lambda: is_waiting(project), what="its request waits", every=0.5)
        client.kill()
    project.wait(
        lambda: project.count("SELECT count(*) FROM result") == 2, within=20, what="replaced"
    )

    [result, _retry] = project.sql(RESULTS)
    assert result["outcome"] == Outcome.NO_REPLY
    assert result["acknowledged_at"] is None
    [entry] = project.sql(
        "SELECT because FROM ledger_entry WHERE result_id = %s AND target = %s",
        *(result["id"], ResultState.NO_REPLY),
    )
    assert entry["because"] == Because.NEVER_ACKNOWLEDGED

    # The client is back without that result; another computes the replacement
    project.sql("UPDATE app SET ack_timeout = '1 hour'")
    client.start()
    other = stock_client(project, "bob")
    other.attach()
    ask_both_until([other, client], lambda: assimilated(project), what="the retry is done")
    assert result["name"] not in client.messages() + client.tasks()
    [_lost, retry] = project.sql(RESULTS)
    assert retry["outcome"] == Outcome.SUCCESS
    assert f"Computation for task {retry['name']} finished" in other.messages()
    assert "0 violations" in project.fsck()
