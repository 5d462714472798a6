"""Runs the main loop, which collects events and executes commands."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from volunteer import events, mailbox, slot, workers
from volunteer.channels import ProgramReport
from volunteer.compose import compose_request
from volunteer.config import Rules
from volunteer.errands import Errands, chance, failure
from volunteer.files import FileDownload
from volunteer.host import folder_size, on_batteries, with_disk
from volunteer.journal import Journal, load_state
from volunteer.pool import PoolLink, PoolWatcher, UsageReporter
from volunteer.preferences import preferences_for, preferences_in_force
from volunteer.records import HeldResult, Phase, Progress, Project, State
from volunteer.runner import EndedProcess, Key, Runner, kill_orphan, kill_strays
from volunteer.sandbox import Confinement, Sandbox
from volunteer.state import advance
from volunteer.talk import usage_message, usage_values
from volunteer.transport import HttpTransport
from volunteer.uploads import FileUpload
from volunteer.wire.messages import SchedulerRequest
from volunteer.wire.requests import encode_request, encode_trickle_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from volunteer.display import Lines
    from volunteer.events import Command, Event
    from volunteer.slot import Home
    from volunteer.wire.messages import HostFacts

_PAUSE_BUSY, _PAUSE_IDLE = 0.2, 0.5
_MEASURE_SECONDS = 5.0
_SHUTDOWN_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Tools:
    """The dependencies of an agent, such as the transport and the display."""

    home: Home
    host: HostFacts
    rules: Rules
    transport: HttpTransport
    display: Lines
    sandbox: Sandbox | None = None
    worker: str = ""


class Agent:
    """Runs the client of one folder.

    A turn saves `state` in the folder if one of the saved parts has changed.
    """

    def __init__(self, tools: Tools, state: State, now: Callable[[], float] = time.time) -> None:
        self.home, self.rules = tools.home, tools.rules
        self.host = replace(tools.host, host_cpid=state.host_cpid)
        self.transport, self.display = tools.transport, tools.display
        self.state = state
        self.now = now
        self.started_at = now()
        self.journal = Journal(tools.home.path)
        self.runner = Runner(tools.sandbox or Sandbox(Confinement.OFF))
        self.event_queue: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self.worker = tools.worker or tools.host.domain_name
        self.pools: dict[str, PoolLink] = {}
        self._watchers: list[PoolWatcher] = []
        self._reporters: dict[str, UsageReporter] = {}
        self._measure_at = 0.0
        self._usage_at = 0.0
        self._on_batteries = False
        self._applied_requests: list[Path] = []
        self._falsified = bool(state.falsified)

    def join_pool(self, token: str) -> None:
        """Use the pools of the attached projects.

        The agent claims work and reports usage there, and waits for cancellations.
        """
        for url in self.state.projects:
            self.pools[url] = link = PoolLink(url, token, self.transport)
            self._reporters[url] = UsageReporter(link)
            watcher = PoolWatcher(link, self.event_queue.put, self.display, self.now)
            watcher.start()
            self._watchers.append(watcher)

    def begin(self) -> None:
        """Clean up after an earlier run, and schedule a contact with every project.

        Programs that still run are killed, and unused slots and files are deleted.
        """
        for url, project in self.state.projects.items():
            for held_result in project.in_phase(Phase.RUNNING):
                kill_orphan(held_result.pid, held_result.pid_started)
                if trickle := self._trickle(url, held_result.name):
                    self.event_queue.put(trickle)
                self.event_queue.put(self._recovery_event(url, held_result))
            self.event_queue.put(events.RunBegan(self.now(), project=url))
            slot.sweep(self.home, project)
        kill_strays(self.home.slots)
        used = {str(held_result.slot) for _, held_result in self.state.all_results()}
        for left in self.home.slots.glob("*"):
            if left.name not in used:
                slot.clear(left)

    def _recovery_event(self, url: str, held_result: HeldResult) -> Event:
        """Return the event for a result whose program ran when the client was killed.

        The event is ProcessExited if the slot has a finish file and the result has no verdict yet.
        Otherwise it is ProcessInterrupted.
        """
        code = slot.finish_code(self.home.slot(held_result.slot))
        if code is None or held_result.verdict is not None:
            return events.ProcessInterrupted(self.now(), project=url, result=held_result.name)
        return self._exited(EndedProcess((url, held_result.name), code, 0, 0.0, 0))

    def turn(self, pause: float) -> None:
        """Collect events, advance the state, save the state and execute the commands.

        `pause` is the maximum wait for the first event, in seconds.
        """
        new_events = [*self._gather(pause), *self._poll(), *self._gather(0.0)]
        commands: list[Command] = []
        before = _durable(self.state)
        for event in new_events:
            self.state, more = advance(self.state, event, self.rules)
            commands += more
        self.state, more = advance(self.state, self._tick(), self.rules)
        commands += more
        # The state is saved first. If the client is killed, the next run repeats the commands.
        if before != _durable(self.state):
            self.journal.save(self.state)
            self.host = replace(self.host, host_cpid=self.state.host_cpid)
        while self._applied_requests:
            self._applied_requests.pop().unlink(missing_ok=True)
        for command in commands:
            self._execute(command)
        self.display.show(self.state, self.now())

    def _tick(self) -> events.Tick:
        now = self.now()
        local = time.localtime(now)
        hour = local.tm_hour + local.tm_min / 60 + local.tm_sec / 3600
        # Monday is 0 in Python, Sunday is 0 in preferences.
        return events.Tick(now, chance(), (local.tm_wday + 1) % 7, hour, self._on_batteries)

    def wake(self) -> None:
        """End the wait of the current turn. Signal handlers may call this method."""
        self.event_queue.put(None)

    @property
    def pause(self) -> float:
        """The maximum number of seconds that the next turn waits for an event."""
        return _PAUSE_BUSY if self.state.busy or self.runner.slots() else _PAUSE_IDLE

    def end(self) -> None:
        """Stop all programs, save the state, and close the connections and the display.

        The next run resumes the programs.
        """
        for watcher in self._watchers:
            watcher.stop()
        for url, result in self.runner.stop_all():
            if trickle := self._trickle(url, result):
                self.state, _ = advance(self.state, trickle, self.rules)
            stopped = events.ProcessInterrupted(self.now(), project=url, result=result)
            self.state, _ = advance(self.state, stopped, self.rules)
        # Record transfers that end within the next seconds, without a long wait.
        until = time.monotonic() + _SHUTDOWN_SECONDS
        while self.state.busy and time.monotonic() < until:
            for event in self._gather(0.1):
                self.state, _ = advance(self.state, event, self.rules)
        self.journal.save(self.state)
        self.transport.close()
        self.display.close()

    def _gather(self, pause: float) -> list[Event]:
        gathered: list[Event | None] = []
        try:
            gathered.append(self.event_queue.get(block=pause > 0, timeout=pause))
            while True:
                gathered.append(self.event_queue.get_nowait())
        except queue.Empty:
            return [event for event in gathered if event is not None]

    def _poll(self) -> Iterator[Event]:
        """Yield the events of processes, slots and the volunteer's requests."""
        for key, report in self.runner.exchange().items():
            yield from self._report_events(key, report)
        for ended in self.runner.collect():
            # The program's last trickle or upload request may not have been read from the channel.
            yield from self._report_events(
                ended.key, ProgramReport(has_trickle=True, has_upload=True)
            )
            yield self._exited(ended)
        yield from self._usage_events()
        for path, request in mailbox.waiting(self.home.path):
            self._applied_requests.append(path)
            yield request.event(self.now())
        if self.now() >= self._measure_at:
            self._measure_at = self.now() + _MEASURE_SECONDS
            self._on_batteries = on_batteries()
            for (url, result), slot_folder in self.runner.slots().items():
                size = folder_size(slot_folder)
                yield events.SlotMeasured(self.now(), project=url, result=result, nbytes=size)

    def _report_events(self, key: Key, report: ProgramReport) -> Iterator[Event]:
        """Yield the events that follow from the report of a program.

        Yields nothing if the state does not contain the result.
        """
        url, name = key
        project = self.state.projects.get(url)
        held_result = project.results.get(name) if project else None
        if project is None or held_result is None:
            return
        if {report.fraction_done, report.cpu_time, report.gpu_usage} != {None}:
            yield events.ProgressReported(
                self.now(),
                project=url,
                result=name,
                fraction_done=report.fraction_done,
                cpu_time=report.cpu_time,
                gpu_usage=report.gpu_usage,
            )
        if report.has_trickle and (trickle := self._trickle(url, name)):
            yield trickle
        if report.has_upload:
            outputs = slot.take_upload_requests(self.home, project, held_result)
            if outputs:
                yield events.UploadRequested(self.now(), project=url, result=name, outputs=outputs)

    def _usage_events(self) -> Iterator[Event]:
        """Yield a message on each running program, every `usage_seconds`.

        A result with an unacknowledged message gets no other, so that messages do not pile up. A
        pool gets reports instead, which need no contact with the scheduler.
        """
        now = self.now()
        if not self.rules.usage_seconds or now < self._usage_at:
            return
        self._usage_at = now + self.rules.usage_seconds
        reports: dict[str, dict[str, dict[str, float]]] = {}
        for (url, name), (memory, cpu_time) in self.runner.usage().items():
            project = self.state.projects.get(url)
            if project is None or name not in project.results:
                continue
            values = usage_values(
                self.state.progress.get((url, name), Progress()),
                held_result=project.results[name],
                now=now,
                cpu_time=cpu_time,
                memory_bytes=memory,
            )
            if url in self.pools:
                reports.setdefault(url, {})[name] = values
            elif all(trickle.result_name != name for trickle in project.trickles_up):
                text = usage_message(values)
                yield events.TrickleWritten(now, project=url, result=name, text=text)
        for url, by_name in reports.items():
            self._reporters[url].report(by_name)

    def _trickle(self, url: str, name: str) -> Event | None:
        """Delete the trickle in the slot of a result, and return the event of the trickle.

        Returns None if the slot contains no trickle, or if the result has no slot.
        """
        project = self.state.projects.get(url)
        held_result = project.results.get(name) if project else None
        if held_result is None or held_result.slot < 0:
            return None
        try:
            text = slot.take_trickle(self.home.slot(held_result.slot))
        except slot.SlotError as error:
            return events.TrickleWritten(self.now(), project=url, result=name, fault=str(error))
        if not text:
            return None
        return events.TrickleWritten(self.now(), project=url, result=name, text=text)

    def _exited(self, ended: EndedProcess) -> Event:
        """Return the event of an ended program, with its outputs and resource usage.

        Copied outputs are moved out of the slot. If `rules.falsify` is set, one byte of the first
        output is changed, but only for one result.
        """
        url, name = ended.key
        project = self.state.projects.get(url)
        held_result = project.results.get(name) if project else None
        if project is None or held_result is None:
            return events.ProcessExited(self.now(), project=url, result=name)
        slot_folder = self.home.slot(held_result.slot)
        self._keep_texts(project, held_result, slot_folder)
        outputs = slot.take_outputs(self.home, project, held_result)
        falsified = ""
        # `state.falsified` may not yet contain the result of a program that has just ended.
        may_falsify = self.rules.falsify and not self._falsified
        has_output = outputs[:1] and outputs[0].nbytes >= 0
        if may_falsify and has_output and not (ended.code or ended.signal):
            slot.falsify(self.home.file(url, outputs[0].name))
            self._falsified, falsified = True, name
            outputs = slot.take_outputs(self.home, project, held_result)
        return events.ProcessExited(
            self.now(),
            chance(),
            project=url,
            result=name,
            code=ended.code,
            signal=ended.signal,
            temporary_exit=slot.temporary_exit(slot_folder),
            outputs=outputs,
            stderr=slot.read_stderr(slot_folder),
            cpu_time=ended.cpu_time,
            peak_memory=ended.peak_memory,
            falsified=falsified,
            is_unfinished=ended.uses_library and slot.finish_code(slot_folder) is None,
        )

    def _keep_texts(self, project: Project, held_result: HeldResult, slot_folder: Path) -> None:
        """Copy the program's stdout and stderr to the files that the options name."""
        kept = {"stdout.txt": self.rules.stdout_name, slot.STDERR_FILE: self.rules.stderr_name}
        for source, template in kept.items():
            if not template:
                continue
            name = workers.file_name(
                template,
                worker=self.worker,
                task=held_result.offer.wu_name,
                result=held_result.name,
                program=project.workunit_of(held_result).app_name,
            )
            try:
                slot.keep_text(slot_folder, source, self.home.path / name)
            except OSError as error:
                self.display.print_line(f"{held_result.name}: {name}: {error}", self.now())

    def _execute(self, command: Command) -> None:
        match command:
            case events.Print(text):
                self.display.print_line(text, self.now())
            case events.Run():
                for event in self._start(command):
                    self.event_queue.put(event)
            case events.Kill(project, result, grace_seconds):
                self.runner.stop((project, result), "<abort/>", grace_seconds)
            case events.Suspend(project, result):
                self.runner.suspend((project, result))
            case events.Resume(project, result):
                self.runner.resume((project, result))
            case events.Deliver() | events.NotifyUpload():
                self._notify(command)
            case events.Discard() | events.ClearSlot() | events.Forget():
                clean(self.home, command)
            case _:
                work = self._network_work(command)
                threading.Thread(target=self._work, args=(work, command), daemon=True).start()

    def _notify(self, command: events.Deliver | events.NotifyUpload) -> None:
        """Write a message for a running program into its slot, and notify the program."""
        slot_folder = self.home.slot(command.slot)
        key = command.project, command.result
        try:
            if isinstance(command, events.Deliver):
                slot.write_trickle_down(slot_folder, command.trickle)
                self.runner.notify(key, "<have_trickle_down/>")
            else:
                slot.write_upload_status(slot_folder, command.slot_name, command.status)
                self.runner.notify(key, "<upload_file_status/>")
        except OSError as error:
            self.display.print_line(
                f"{command.result}: a message for the program was lost: {error}", self.now()
            )

    def _network_work(self, command: Command) -> Callable[[], Event]:
        """Return a function that executes a network command and returns the resulting event.

        The function runs in a worker thread. Its inputs are computed here, because the state may
        change before the thread runs. Raises TypeError for an unknown command.
        """
        errands = Errands(self.transport, self.now)
        match command:
            case events.ReadMasterPage(url):
                return partial(errands.read_master_page, url)
            case events.Ask():
                project = self.state.projects[command.project]
                master_preferences, email_hash = preferences_for(self.state, project)
                request = SchedulerRequest(
                    project.key,
                    with_disk(self.host, self.home.path),
                    now=self.now(),
                    started_at=self.started_at,
                    disk_used=float(folder_size(self.home.path)),
                    share=self.state.share_of(project),
                    preferences=preferences_in_force(self.state, self.rules),
                    master_preferences=master_preferences,
                    preferences_email_hash=email_hash,
                )
                body = encode_request(compose_request(request, project, command, self.rules))
                return partial(errands.ask, command, body, self.host)
            case events.Replicate(url, seqno=seqno, trickles=trickles):
                project = self.state.projects[url]
                request = SchedulerRequest(
                    project.key, self.host, hostid=project.hostid, rpc_seqno=seqno
                )
                bodies = [encode_trickle_request(request, trickle) for trickle in trickles]
                return partial(errands.replicate, command, bodies)
            case events.ClaimWork(url):
                return partial(errands.claim, self.pools[url], command, self.host.disk_free)
            case events.Fetch(url, name, signed):
                project = self.state.projects[url]
                key = project.code_sign_key if signed else None
                download = FileDownload(project.files[name].info, self.home.file(url, name), key)
                return partial(errands.fetch, url, download)
            case events.Upload(url, name, resume):
                file = self.state.projects[url].files[name]
                path = self.home.file(url, name)
                upload = FileUpload(file.info, path, file.nbytes, file.md5, resume, self.home.path)
                return partial(errands.upload, url, upload)
        raise TypeError(f"Unknown command: {command!r}.")

    def _work(self, work: Callable[[], Event], command: Command) -> None:
        """Call `work` in a worker thread, and queue the event of its success or failure."""
        try:
            event = work()
        except Exception as error:  # noqa: BLE001 - a thread must not end silently
            event = failure(command, error, self.now())
        self.event_queue.put(event)

    def _start(self, command: events.Run) -> Iterator[Event]:
        """Start the program of a result, and yield the events of its start or failure."""
        url, name = command.project, command.result
        project = self.state.projects[url]
        held_result = project.results[name]
        try:
            preferences = preferences_in_force(self.state, self.rules)
            share = self.state.share_of(project)
            content = slot.init_data(self.home, project, held_result, self.host, share, preferences)
            slot_folder = slot.prepare(
                self.home, project, held_result, content, fresh=command.fresh
            )
            program = slot.main_program(self.home, project, held_result)
            workunit, version = project.workunit_of(held_result), project.version_of(held_result)
            arguments = f"{workunit.command_line} {version.cmdline}".strip()
            confined = slot.confined_program(self.home, project, held_result, slot_folder)
            pid, pid_started = self.runner.start((url, name), confined, program, arguments)
        except slot.MissingInputError as error:
            yield events.FileLost(self.now(), project=url, name=error.name)
            yield events.ProcessInterrupted(self.now(), project=url, result=name)
        except (slot.SlotError, OSError, ValueError) as error:
            yield events.ProcessNotStarted(self.now(), project=url, result=name, reason=str(error))
        else:
            yield events.ProcessStarted(
                self.now(), project=url, result=name, pid=pid, pid_started=pid_started
            )


def clean(home: Home, command: Command) -> None:
    """Delete the file, slot or project folder that a command names.

    Other commands have no effect.
    """
    match command:
        case events.Discard(project, name):
            for path in (home.file(project, name), home.part(project, name)):
                path.unlink(missing_ok=True)
        case events.ClearSlot(number):
            slot.clear(home.slot(number))
        case events.Forget(project):
            shutil.rmtree(home.project(project), ignore_errors=True)
        case _:
            pass


def apply_user_requests(home: Home) -> None:
    """Apply the queued requests of the volunteer while no client runs.

    The caller must hold the lock of the folder. Programs that still run in the slots are killed.
    """
    state = load_state(home.path)
    kill_strays(home.slots)
    commands: list[Command] = []
    requests = mailbox.waiting(home.path)
    for _, request in requests:
        state, more = advance(state, request.event(time.time()), Rules())
        commands += more
    Journal(home.path).save(state)
    for command in commands:
        clean(home, command)
    for path, _ in requests:
        path.unlink(missing_ok=True)


def _durable(state: State) -> tuple[object, ...]:
    return state.host_cpid, state.falsified, state.received_preferences, state.projects
