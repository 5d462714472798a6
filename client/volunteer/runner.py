"""Starts, monitors and stops the science programs."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from volunteer import safe_files
from volunteer.channels import Link, ProgramReport
from volunteer.sandbox import Program, Sandbox, read_child_pid, signal_of
from volunteer.wire.messages import TERMINATION_SECONDS

_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT")
# Indexes of fields of /proc/PID/stat, counted from the field after the name.
_GROUP_FIELD, _START_TIME_FIELD, _RSS_FIELD = 2, 19, 21
# User and system time of a process, then those of its children that have ended, in clock ticks.
_CPU_TIME_FIELDS = slice(11, 15)

Key = tuple[str, str]


@dataclass(slots=True)
class RunningProcess:
    """A process that the client started.

    `pid` is the process id of the program. Under bubblewrap, the program is a child of `process`.
    `kill_at` is the monotonic time at which the program is killed. It is None until a stop is
    requested. `is_stopped` is True if the program is suspended by SIGSTOP, because it does not use
    BOINC's library.
    """

    process: subprocess.Popen[bytes]
    slot: Path
    pid: int
    is_wrapped: bool
    link: Link
    kill_at: float | None = None
    is_suspended: bool = False
    is_stopped: bool = False


@dataclass(frozen=True, slots=True)
class EndedProcess:
    """The outcome and resource usage of a process that has ended.

    `key` is the project's address and the name of the result. `signal` is 0 for a process that
    exited with `code`. `cpu_time` is in seconds and `peak_memory` in bytes.
    """

    key: Key
    code: int
    signal: int
    cpu_time: float
    peak_memory: int
    uses_library: bool = False


class Runner:
    """Starts and stops the programs of one client.

    A program is identified by the address of its project and the name of its result.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._running: dict[Key, RunningProcess] = {}
        self._sandbox = sandbox

    def start(self, key: Key, confined: Program, program: Path, arguments: str) -> tuple[int, int]:
        """Start a program in its slot, and return its process id and start time in clock ticks.

        Raises OSError if the program cannot be started, and ValueError if `arguments` is malformed.
        """
        words = [str(program), *shlex.split(arguments)]
        with contextlib.ExitStack() as failing, contextlib.ExitStack() as stack:
            link = Link(confined.slot)
            failing.callback(link.close)
            if not self._sandbox.is_wrapped(confined):
                process = self._popen(words, confined, ())
                running = RunningProcess(
                    process, confined.slot, process.pid, is_wrapped=False, link=link
                )
            else:
                reader, writer = os.pipe()
                stack.callback(os.close, reader)
                with contextlib.ExitStack() as writing:
                    writing.callback(os.close, writer)
                    wrapped = [*self._sandbox.command(confined, writer), *words]
                    process = self._popen(wrapped, confined, (writer,))
                try:
                    pid = read_child_pid(reader)
                except OSError:
                    process.kill()
                    process.wait()
                    raise
                running = RunningProcess(process, confined.slot, pid, is_wrapped=True, link=link)
            failing.pop_all()
        self._running[key] = running
        return running.pid, start_time(running.pid)

    def _popen(
        self, words: list[str], confined: Program, descriptors: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        slot = confined.slot
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        environment["HOME"] = str(slot)
        if descriptors:
            environment["TMPDIR"] = "/tmp"  # noqa: S108 - a private one
        with (
            safe_files.open_to_append(slot, "stderr.txt") as stderr,
            safe_files.open_to_append(slot, "stdout.txt") as stdout,
        ):
            # In a new session, all processes of the program can be stopped together, and Ctrl-C in
            # the volunteer's terminal reaches only the client.
            return subprocess.Popen(  # noqa: S603 - the project's signed program
                words,
                cwd=slot,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=descriptors,
                # This function only makes system calls and takes no lock, so that other threads
                # cannot block it.
                preexec_fn=self._sandbox.prepare_process(confined),  # noqa: PLW1509
            )

    def stop(
        self, key: Key, request: str = "<quit/>", grace_seconds: float = TERMINATION_SECONDS
    ) -> None:
        """Request that a program ends.

        A program with BOINC's library gets `request`, and the process group of other programs gets
        SIGTERM. `collect` kills a program that still runs after the grace period.
        """
        running = self._running.get(key)
        if running is None or running.kill_at is not None:
            return
        running.kill_at = time.monotonic() + grace_seconds
        uses_library = running.link.uses_library
        self.resume(key)
        if uses_library:
            running.link.request(request)
        else:
            _signal_group(running.pid, signal.SIGTERM)

    def suspend(self, key: Key) -> None:
        """Suspend a program by a message to BOINC's library, or else by SIGSTOP."""
        running = self._running.get(key)
        if running is None or running.is_suspended or running.kill_at is not None:
            return
        running.is_suspended = True
        if running.link.uses_library:
            running.link.request("<suspend/>")
        else:
            running.is_stopped = True
            _signal_group(running.pid, signal.SIGSTOP)

    def resume(self, key: Key) -> None:
        running = self._running.get(key)
        if running is None or not running.is_suspended:
            return
        running.is_suspended = False
        if running.is_stopped:
            running.is_stopped = False
            _signal_group(running.pid, signal.SIGCONT)
        else:
            running.link.request("<resume/>")

    def notify(self, key: Key, message: str) -> None:
        """Notify a program of a trickle down or a finished upload in its slot."""
        if running := self._running.get(key):
            running.link.notify(message)

    def exchange(self) -> dict[Key, ProgramReport]:
        """Send heartbeats and requests to all programs, and return the report of each program."""
        now = time.monotonic()
        return {key: running.link.exchange(now) for key, running in self._running.items()}

    def collect(self) -> list[EndedProcess]:
        """Return the processes that have ended since the last call.

        Programs that have not ended within the grace period are killed.
        """
        now = time.monotonic()
        ended = []
        for key, running in list(self._running.items()):
            if running.kill_at is not None and now >= running.kill_at:
                _signal_group(running.pid, signal.SIGKILL)
            pid, status, usage = os.wait4(running.process.pid, os.WNOHANG)
            if not pid:
                continue
            # Popen must not wait for a process that was already reaped.
            running.process.returncode = os.waitstatus_to_exitcode(status)
            # Kill the processes that the program started.
            _signal_group(running.pid, signal.SIGKILL)
            del self._running[key]
            # A short program may have ended before the first exchange of messages.
            running.link.exchange(now)
            running.link.close()
            code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0
            number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            if running.is_wrapped and (signal_number := signal_of(code)):
                code, number = 0, signal_number
            ended.append(
                EndedProcess(
                    key,
                    code=code,
                    signal=number,
                    cpu_time=usage.ru_utime + usage.ru_stime,
                    peak_memory=usage.ru_maxrss * 1024,
                    uses_library=running.link.uses_library,
                )
            )
        return ended

    def usage(self) -> dict[Key, tuple[int, float]]:
        """Return the memory in bytes and the CPU seconds of each running program (`group_usage`).

        A program is missing if its usage cannot be read.
        """
        groups = group_usage()
        return {
            key: groups[running.pid]
            for key, running in self._running.items()
            if running.pid in groups
        }

    def slots(self) -> dict[Key, Path]:
        """Return the slot folder of each running process."""
        return {key: running.slot for key, running in self._running.items()}

    def stop_all(self) -> list[Key]:
        """Stop all programs, wait until they have ended, and return their keys.

        A program that does not end within the grace period is killed.
        """
        keys = list(self._running)
        for key in keys:
            self.stop(key)
        while self._running:
            self.exchange()
            self.collect()
            time.sleep(0.02)
        return keys


def start_time(pid: int) -> int:
    """Return the start time of a process in clock ticks, or 0 if it cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return int(text.rpartition(")")[2].split()[_START_TIME_FIELD])
    except (OSError, ValueError, IndexError):
        return 0


def group_usage() -> dict[int, tuple[int, float]]:
    """Return the resident memory in bytes and the CPU seconds of each process group, by its id.

    The CPU time includes that of ended children. The dict is empty without /proc.
    """
    page_size, ticks = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    groups: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # A process may end meanwhile.
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = stat.read_text().rpartition(")")[2].split()
            memory, cpu_time = groups.get(group := int(fields[_GROUP_FIELD]), (0, 0.0))
            memory += int(fields[_RSS_FIELD]) * page_size
            cpu_time += sum(map(int, fields[_CPU_TIME_FIELDS])) / ticks
            groups[group] = memory, cpu_time
    return groups


def kill_orphan(pid: int, pid_started: int) -> None:
    """Kill the process group of an earlier run, unless another process has the pid now.

    Waits up to two seconds for the end of the process.
    """
    if pid <= 1 or not pid_started or start_time(pid) != pid_started:
        return
    _signal_group(pid, signal.SIGKILL)
    # The slot is reused at once, so wait until the process has ended or is a zombie.
    for _ in range(200):
        if start_time(pid) != pid_started or _is_zombie(pid):
            return
        time.sleep(0.01)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def kill_strays(slots: Path) -> int:
    """Kill the processes whose working folder is in a slot, and return their number.

    Such processes remain if the client is killed between a start and the save of the state.
    """
    count = 0
    inside = str(slots.resolve()) + os.sep
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            where = str((folder / "cwd").readlink())
        except OSError:
            continue
        if where.startswith(inside) and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                os.kill(int(folder.name), signal.SIGKILL)
                count += 1
    return count


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
