"""The processes of one web server share a folder of counters."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from project.monitoring import shared_folder
from project.monitoring.shared_folder import VARIABLE, empty, forget_dead_processes, prepare
from tests.house.tracked import ROOT

DAY = 86_400


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    # Set first, so that the variable is deleted at the end: `prepare` sets it.
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)


@pytest.fixture
def ended_pid():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_workers_of_one_server_share_a_folder(tmp_path, monkeypatch):
    first = prepare(tmp_path, os.getppid(), now=time.time())
    assert os.environ[VARIABLE] == str(first)
    (first / "counter_1.db").touch()
    monkeypatch.delenv(VARIABLE)
    assert prepare(tmp_path, os.getppid(), now=time.time()) == first
    assert (first / "counter_1.db").exists()


def test_a_new_server_starts_with_an_empty_folder_and_deletes_those_of_ended_servers(
    tmp_path, monkeypatch
):
    old = prepare(tmp_path, os.getppid(), now=time.time())
    (old / "counter_1.db").touch()
    # Another process with the same id, as after a restart of a container.
    monkeypatch.setattr(shared_folder, "_started_at", lambda pid: "7")
    monkeypatch.delenv(VARIABLE)
    new = prepare(tmp_path, os.getppid(), now=time.time())
    assert list(new.parent.iterdir()) == [new]
    assert list(new.iterdir()) == []


def test_folders_of_running_servers_of_this_machine_are_kept(tmp_path, monkeypatch):
    first = prepare(tmp_path, os.getpid(), now=time.time())
    monkeypatch.delenv(VARIABLE)
    second = prepare(tmp_path, os.getppid(), now=time.time() + 2 * DAY)
    assert {first, second} == set(second.parent.iterdir())


def test_folders_of_other_machines_are_deleted_after_a_day(tmp_path):
    other = tmp_path / "run" / "metrics" / "elsewhere-12-34"
    other.mkdir(parents=True)
    (other / "counter_1.db").touch()
    folder = prepare(tmp_path, os.getppid(), now=time.time())
    assert other.exists()
    del os.environ[VARIABLE]
    prepare(tmp_path, os.getppid(), now=time.time() + DAY + 60)
    assert list(folder.parent.iterdir()) == [folder]


def test_a_folder_from_the_environment_is_left_to_the_operator(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own"))
    assert prepare(tmp_path, os.getppid(), now=time.time()) is None
    assert list(tmp_path.iterdir()) == []


def test_only_files_of_counters_are_deleted_from_a_folder_of_the_operator(tmp_path):
    folder, elsewhere = tmp_path / "own", tmp_path / "elsewhere.db"
    elsewhere.write_bytes(b"kept")
    (folder / "sub.db").mkdir(parents=True)
    names = ("notes.txt", "data.db", "counter_1.db.old", "my_counter_1.db", "sub.db/counter_1.db")
    kept = [folder / name for name in names]
    for path in (folder / "counter_1.db", folder / "gauge_liveall_1.db", *kept):
        path.touch()
    links = {"counter_2.db", "counter_3.db"}
    (folder / "counter_2.db").symlink_to(elsewhere)
    (folder / "counter_3.db").symlink_to(tmp_path / "missing")
    empty(folder)
    left = {path.name for path in folder.iterdir()}
    assert left == {path.relative_to(folder).parts[0] for path in kept} | links
    assert all(path.exists() for path in kept)
    assert elsewhere.read_bytes() == b"kept"


def test_a_missing_folder_of_the_operator_is_created(tmp_path):
    empty(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_process_without_a_parent_server_keeps_its_counters_in_memory(tmp_path):
    assert prepare(tmp_path, None, now=time.time()) is None
    assert VARIABLE not in os.environ


def test_gauges_of_ended_processes_are_deleted_and_counters_are_kept(tmp_path, ended_pid):
    for name in ("gauge_liveall", "counter", "histogram"):
        for pid in (ended_pid, os.getpid()):
            (tmp_path / f"{name}_{pid}.db").touch()
    forget_dead_processes(str(tmp_path))
    assert not (tmp_path / f"gauge_liveall_{ended_pid}.db").exists()
    assert len(list(tmp_path.iterdir())) == 5


def test_counts_of_several_processes_are_added_and_survive_their_end(tmp_path):
    """Two processes count in turn, and a third exports the sum and only its own gauge."""
    code = """
import sys
from scheduler import metrics
metrics.RPCS[metrics.RpcOutcome.ANSWERED].inc(3)
metrics.POOL_WAITING.set(5)
if sys.argv[1:]:
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector
    from project.monitoring import shared_folder
    shared_folder.forget_dead_processes(sys.argv[1])
    registry = CollectorRegistry()
    MultiProcessCollector(registry, sys.argv[1])
    print(generate_latest(registry).decode())
"""
    environment = os.environ | {VARIABLE: str(tmp_path), "PYTHONPATH": str(ROOT)}
    for words in ([], [], [str(tmp_path)]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    assert 'manyhands_scheduler_rpcs_total{outcome="answered"} 9.0' in done.stdout
    assert done.stdout.count("manyhands_database_pool_waiting_requests{") == 1
