"""Science code that hangs, crashes, raises or prints does not stop the daemon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest

from daemons.science import worker
from daemons.science.interfaces import TransientScienceError

SECOND = timedelta(seconds=1)
LONG = timedelta(seconds=30)
HERE = "tests.pure.science.odd_science"


def call(function, *args, time_limit=LONG, **options):
    return worker.call(f"{HERE}:{function}", *args, time_limit=time_limit, **options)


@pytest.fixture(autouse=True, scope="module")
def no_worker_is_left():
    yield
    worker.stop()


@pytest.fixture(autouse=True)
def numbers_of_processes_are_ours(settings):
    """Turn confinement off, because process ids differ in a PID namespace."""
    settings.SCIENCE_CONFINEMENT = "none"


def test_call_returns_the_value_of_the_science_function():
    assert call("double", {"a": [1, 2.5]}) == [{"a": [1, 2.5]}, {"a": [1, 2.5]}]


def test_one_separate_process_serves_many_calls():
    first, second = call("process"), call("process")
    assert first == second
    assert first[0] != os.getpid()


def test_worker_leads_its_own_session_and_process_group():
    pid, session, group = call("process")
    assert pid == session == group


def test_worker_is_replaced_after_max_calls(monkeypatch):
    monkeypatch.setattr(worker, "MAX_CALLS", 2)
    worker.stop()
    pids = [call("process")[0] for _ in range(3)]
    assert pids[0] == pids[1] != pids[2]


def test_hanging_worker_is_killed_and_the_next_call_gets_a_new_worker():
    before = call("process")
    with pytest.raises(worker.ScienceTimedOut, match=r"hang did not answer within 0.2 s") as caught:
        call("hang", time_limit=SECOND / 5)
    assert "in hang" in caught.value.traceback
    assert call("process") != before
    assert not Path(f"/proc/{before[0]}").exists()


@pytest.fixture
def note(public_folder):
    """A file that the worker can write as any user."""
    public_folder.chmod(0o777)
    return public_folder / "pid"


def test_processes_started_by_a_hanging_call_are_killed_with_it(note):
    with pytest.raises(worker.ScienceTimedOut):
        call("start_program_and_hang", str(note), time_limit=2 * SECOND)
    assert ends(int(note.read_text()))


def test_hanging_call_that_ignores_signals_is_killed():
    with pytest.raises(worker.ScienceTimedOut):
        call("hang_deaf", time_limit=SECOND / 5)
    assert call("double", 1) == [1, 1]


@pytest.mark.parametrize(
    ("function", "how"),
    [("leave", "exit status 7"), ("segfault", "SIGSEGV"), ("leave_in_silence", "exit status 0")],
)
def test_crash_is_reported_with_its_cause_and_the_next_call_works(function, how):
    with pytest.raises(worker.ScienceCrashed, match=f"crashed its process: {how}"):
        call(function)
    assert call("double", 1) == [1, 1]


def test_segmentation_fault_is_reported_with_a_traceback():
    with pytest.raises(worker.ScienceCrashed) as caught:
        call("segfault")
    assert "in segfault" in caught.value.traceback


def test_crash_is_detected_while_a_child_keeps_the_channel_open():
    with pytest.raises(worker.ScienceCrashed, match="exit status 3"):
        call("fork_and_leave")


def test_worker_that_died_between_calls_is_replaced_without_an_error():
    pid = call("process")[0]
    os.kill(pid, signal.SIGKILL)
    assert ends(pid)
    deadline = monotonic() + 10
    while worker._own[worker.profile_of(None)].is_usable() and monotonic() < deadline:
        pass
    assert call("double", 1) == [1, 1]


def test_exception_is_raised_again_with_its_traceback():
    with pytest.raises(worker.ScienceRaised, match="ValueError: nothing in it") as caught:
        call("complain", "nothing in it")
    assert "in complain" in caught.value.traceback


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (f"{HERE}:leave_politely", "SystemExit: 5"),
        (f"{HERE}:nothing_of_this_name", "has no attribute 'nothing_of_this_name'"),
        ("no.such.module:f", "No module named"),
        (f"{HERE}:answer_with_a_function", "not JSON serializable"),
    ],
)
def test_invalid_call_is_reported_and_the_worker_is_kept(target, sentence):
    before = call("process")
    with pytest.raises(worker.ScienceRaised, match=sentence):
        worker.call(target, time_limit=LONG)
    assert call("process") == before


def test_answer_of_an_interrupted_call_is_not_returned_to_the_next_call(monkeypatch):
    call("double", 1)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(worker._Worker, "_wait_for_bytes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            call("double", "first")
    assert call("double", "second") == ["second", "second"]


def test_transient_error_keeps_its_type():
    with pytest.raises(TransientScienceError, match="the disk is full"):
        call("wait_for_better_times")


def test_output_printed_by_science_code_does_not_reach_the_channel(capfd):
    worker.stop()
    assert call("chatter") == "done"
    assert call("double", 1) == [1, 1]
    worker.stop()
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "printed by hand" in printed.err
    assert "complained by hand" in printed.err


def test_large_arguments_and_answers_are_transferred():
    data = os.urandom(2_500_000).hex()
    assert call("double", data, max_answer=11_000_000) == [data, data]


def test_worker_does_not_import_django_unless_science_code_does():
    worker.stop()
    assert call("modules", "django") == []


def test_worker_ends_with_its_daemon(note):
    program = (
        "from datetime import timedelta; from daemons.science import worker\n"
        f"worker.call('{HERE}:note_and_hang', {str(note)!r}, time_limit=timedelta(minutes=5))"
    )
    environment = {**os.environ, "SCIENCE_CONFINEMENT": "none"}
    daemon = subprocess.Popen([sys.executable, "-c", program], cwd=Path.cwd(), env=environment)
    while not (note.exists() and note.read_text()):
        assert daemon.poll() is None
    daemon.kill()
    daemon.wait()
    assert ends(int(note.read_text()))


def ends(pid):
    """Return whether a killed process ends within the time that the kernel needs."""
    deadline = monotonic() + 20
    while is_running(pid) and monotonic() < deadline:
        pass
    return not is_running(pid)


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"
