"""A backup and the processes that delete files exclude each other."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from scheduler import storage
from scheduler.storage import deleting


@pytest.fixture
def var(settings, tmp_path):
    settings.VAR_DIR = tmp_path
    return tmp_path


def test_a_backup_waits_for_a_deletion_in_progress(var):
    began = threading.Event()

    def hold():
        with storage.deletions_held():
            began.set()

    with storage.deletions_allowed():
        thread = threading.Thread(target=hold)
        thread.start()
        assert not began.wait(0.3)
    thread.join(5)
    assert began.is_set()


def test_two_backups_do_not_run_at_once(var, monkeypatch):
    monkeypatch.setattr(deleting, "_BACKUP_LOCK_SECONDS", 0.05)
    with (
        storage.deletions_held(),
        pytest.raises(storage.BackupRuns, match="Another backup"),
        storage.deletions_held(),
    ):
        pass


def test_deletions_are_refused_while_they_are_held_and_allowed_afterwards(var):
    with storage.deletions_held():
        for _ in range(2):
            with (
                pytest.raises(storage.DeletionsHeld, match="is running, so no file is deleted"),
                storage.deletions_allowed(),
            ):
                pass
    with storage.deletions_allowed(), storage.deletions_allowed():
        pass


def test_a_killed_backup_holds_no_deletions(var):
    (var / "run").mkdir()
    program = (
        "import fcntl, sys, time\n"
        "files = [open(f'{sys.argv[1]}/run/{name}', 'w') for name in ('backup.lock', 'deletions.lock')]\n"
        "for file in files: fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(var)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(storage.DeletionsHeld), storage.deletions_allowed():
            pass
        process.kill()
        process.wait()
        with storage.deletions_allowed():
            pass
