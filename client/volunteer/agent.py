"""The one loop: turns what happens into events and carries out what is decided."""

from __future__ import annotations

import queue
import shutil
import threading
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from volunteer import events, mailbox, slot
from volunteer.channels import News
from volunteer.compose import Surroundings, compose_request
from volunteer.config import Rules
from volunteer.errands import Errands, chance, failure
from volunteer.files import Wanted
from volunteer.host import folder_size, on_batteries, with_disk
from volunteer.journal import Journal, load_state
from volunteer.preferences import preferences_for, preferences_in_force
from volunteer.records import HeldResult, Phase, State
from volunteer.runner import Ended, Key, Runner, kill_orphan, kill_strays
from volunteer.sandbox import Confinement, Sandbox
from volunteer.state import advance
from volunteer.transport import Transport
from volunteer.uploads import Finished
from volunteer.wire.messages import SchedulerRequest, TrickleReport
from volunteer.wire.requests import encode_request, encode_trickle_request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from volunteer.display import Display
    from volunteer.events import Command, Event
    from volunteer.slot import Home
    from volunteer.wire.messages import HostFacts

_PAUSE_BUSY, _PAUSE_IDLE = 0.2, 0.5
_MEASURE_SECONDS = 5.0
_LAST_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What the agent works with; tests give it others."""

    home: Home
    host: HostFacts
    rules: Rules
    transport: Transport
    display: Display
    sandbox: Sandbox | None = None


class Agent:
    """One client in one folder. Between turns, what is on disk is what is in `state`."""

    def __init__(self, tools: Tools, state: State, now: Callable[[], float] = time.time) -> None:
        self.home, self.rules = tools.home, tools.rules
        self.host = replace(tools.host, host_cpid=state.host_cpid)
        self.transport, self.display = tools.transport, tools.display
        self.state = state
        self.now = now
        self.started_at = now()
        self.journal = Journal(tools.home.path)
        self.runner = Runner(tools.sandbox or Sandbox(Confinement.OFF))
        self.happened: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._measure_at = 0.0
        self._on_batteries = False
        self._wishes: list[Path] = []
        self._falsified = bool(state.falsified)

    def begin(self) -> None:
        """Put the folder in order after a former run and ask the projects for news."""
        for url, project in self.state.projects.items():
            for held in project.in_phase(Phase.RUNNING):
                kill_orphan(held.pid, held.pid_started)
                if trickle := self._trickle(url, held.offer.name):
                    self.happened.put(trickle)
                self.happened.put(self._aftermath(url, held))
            self.happened.put(events.RunBegan(self.now(), project=url))
            slot.sweep(self.home, project)
        kill_strays(self.home.slots)
        used = {
            str(held.slot)
            for project in self.state.projects.values()
            for held in project.results.values()
        }
        for left in self.home.slots.glob("*"):
            if left.name not in used:
                slot.clear(left)

    def _aftermath(self, url: str, held: HeldResult) -> Event:
        """Tell what became of a result that ran when the client was killed."""
        code = slot.finish_code(self.home.slot(held.slot))
        if code is None or held.verdict is not None:
            return events.ProcessInterrupted(self.now(), project=url, result=held.offer.name)
        return self._exited(Ended((url, held.offer.name), code, 0, 0.0, 0))

    def turn(self, pause: float) -> None:
        """Take what has happened, decide, save, act."""
        happened = self._gather(pause)
        self._watch()
        commands: list[Command] = []
        before = _durable(self.state)
        for event in [*happened, *self._gather(0.0)]:
            self.state, more = advance(self.state, event, self.rules)
            commands += more
        self.state, more = advance(self.state, self._tick(), self.rules)
        commands += more
        # Saved before anything is done: what is begun and then lost is begun again.
        if before != _durable(self.state):
            self.journal.save(self.state)
            self.host = replace(self.host, host_cpid=self.state.host_cpid)
        while self._wishes:
            self._wishes.pop().unlink(missing_ok=True)
        for command in commands:
            self._carry_out(command)
        self.display.show(self.state, self.now())

    def _tick(self) -> events.Tick:
        now = self.now()
        local = time.localtime(now)
        hour = local.tm_hour + local.tm_min / 60 + local.tm_sec / 3600
        # Monday is 0 in Python, Sunday is 0 in preferences.
        return events.Tick(now, chance(), (local.tm_wday + 1) % 7, hour, self._on_batteries)

    def wake(self) -> None:
        """Have the next turn begin at once; signal handlers may call it."""
        self.happened.put(None)

    @property
    def pause(self) -> float:
        """Say how long the next turn may wait for something to happen."""
        return _PAUSE_BUSY if self.state.busy or self.runner.slots() else _PAUSE_IDLE

    def end(self) -> None:
        """Stop all programs so that they go on next time, and let go of everything."""
        for url, result in self.runner.stop_all():
            if trickle := self._trickle(url, result):
                self.state, _ = advance(self.state, trickle, self.rules)
            stopped = events.ProcessInterrupted(self.now(), project=url, result=result)
            self.state, _ = advance(self.state, stopped, self.rules)
        # What a transfer achieved in its last seconds is worth knowing, but not worth a long wait.
        until = time.monotonic() + _LAST_SECONDS
        while self.state.busy and time.monotonic() < until:
            for event in self._gather(0.1):
                self.state, _ = advance(self.state, event, self.rules)
        self.journal.save(self.state)
        self.transport.close()
        self.display.close()

    def _gather(self, pause: float) -> list[Event]:
        found: list[Event | None] = []
        try:
            found.append(self.happened.get(timeout=pause) if pause else self.happened.get_nowait())
            while True:
                found.append(self.happened.get_nowait())
        except queue.Empty:
            return [event for event in found if event is not None]

    def _watch(self) -> None:
        """Look at processes, slots and the volunteer's wishes."""
        for key, news in self.runner.exchange().items():
            self._hear(key, news)
        for ended in self.runner.collect():
            # What it wrote last is sent, though its message may not have been read.
            self._hear(ended.key, News(has_trickle=True, has_upload=True))
            self.happened.put(self._exited(ended))
        for path, wish in mailbox.waiting(self.home.path):
            self._wishes.append(path)
            self.happened.put(wish.event(self.now()))
        if self.now() >= self._measure_at:
            self._measure_at = self.now() + _MEASURE_SECONDS
            self._on_batteries = on_batteries()
            for (url, result), where in self.runner.slots().items():
                size = folder_size(where)
                self.happened.put(
                    events.SlotMeasured(self.now(), project=url, result=result, nbytes=size)
                )

    def _hear(self, key: Key, news: News) -> None:
        """Turn what a program reported into events."""
        url, name = key
        project = self.state.projects.get(url)
        held = project.results.get(name) if project else None
        if project is None or held is None:
            return
        if news.fraction_done is not None or news.cpu_time is not None:
            self.happened.put(
                events.ProgressReported(
                    self.now(),
                    project=url,
                    result=name,
                    fraction_done=news.fraction_done,
                    cpu_time=news.cpu_time,
                )
            )
        if news.has_trickle and (trickle := self._trickle(url, name)):
            self.happened.put(trickle)
        if news.has_upload and (outputs := slot.take_upload_requests(self.home, project, held)):
            self.happened.put(
                events.UploadRequested(self.now(), project=url, result=name, outputs=outputs)
            )

    def _trickle(self, url: str, name: str) -> Event | None:
        """Take the message that a program left for its project, if there is one."""
        project = self.state.projects.get(url)
        held = project.results.get(name) if project else None
        if held is None or held.slot < 0:
            return None
        try:
            text = slot.take_trickle(self.home.slot(held.slot))
        except slot.SlotError as error:
            return events.TrickleWritten(self.now(), project=url, result=name, fault=str(error))
        if not text:
            return None
        return events.TrickleWritten(self.now(), project=url, result=name, text=text)

    def _exited(self, ended: Ended) -> Event:
        """Gather what a program left behind."""
        url, name = ended.key
        project = self.state.projects.get(url)
        held = project.results.get(name) if project else None
        if project is None or held is None:
            return events.ProcessExited(self.now(), project=url, result=name)
        where = self.home.slot(held.slot)
        outputs = slot.take_outputs(self.home, project, held)
        falsified = ""
        # Not asked of the state: two programs may end before it hears of the first.
        may_falsify = self.rules.falsify and not self._falsified
        has_output = outputs[:1] and outputs[0].nbytes >= 0
        if may_falsify and has_output and not (ended.code or ended.signal):
            slot.falsify(self.home.file(url, outputs[0].name))
            self._falsified, falsified = True, name
            outputs = slot.take_outputs(self.home, project, held)
        return events.ProcessExited(
            self.now(),
            chance(),
            project=url,
            result=name,
            code=ended.code,
            signal=ended.signal,
            temporary_exit=slot.temporary_exit(where),
            outputs=outputs,
            stderr=slot.read_stderr(where),
            cpu_time=ended.cpu_time,
            peak_memory=ended.peak_memory,
            falsified=falsified,
            is_unfinished=ended.uses_library and slot.finish_code(where) is None,
        )

    def _carry_out(self, command: Command) -> None:
        match command:
            case events.Say(text):
                self.display.say(text, self.now())
            case events.Run():
                self._start(command)
            case events.Kill(project, result):
                self.runner.stop((project, result), request="<abort/>")
            case events.Suspend(project, result):
                self.runner.suspend((project, result))
            case events.Resume(project, result):
                self.runner.resume((project, result))
            case events.Deliver() | events.NotifyUpload():
                self._notify(command)
            case events.Discard() | events.ClearSlot() | events.Forget():
                clean(self.home, command)
            case _:
                work = self._errand(command)
                threading.Thread(target=self._work, args=(work, command), daemon=True).start()

    def _notify(self, command: events.Deliver | events.NotifyUpload) -> None:
        """Write a message for a running program into its slot, and notify the program."""
        where = self.home.slot(command.slot)
        key = command.project, command.result
        try:
            if isinstance(command, events.Deliver):
                slot.write_trickle_down(where, command.trickle)
                self.runner.notify(key, "<have_trickle_down/>")
            else:
                slot.write_upload_status(where, command.slot_name, command.status)
                self.runner.notify(key, "<upload_file_status/>")
        except OSError as error:
            self.display.say(f"{command.result}: a message was lost: {error}", self.now())

    def _errand(self, command: Command) -> Callable[[], Event]:
        """Bind what a worker thread needs now, for the state changes while it works."""
        errands = Errands(self.transport, self.now)
        match command:
            case events.ReadMasterPage(url):
                return partial(errands.read_master_page, url)
            case events.Ask():
                asked = self.state.projects[command.project]
                around = Surroundings(
                    with_disk(self.host, self.home.path),
                    self.now(),
                    self.started_at,
                    float(folder_size(self.home.path)),
                    self.state.share_of(asked),
                    preferences_in_force(self.state, self.rules),
                    *preferences_for(self.state, asked),
                )
                body = encode_request(compose_request(asked, command, around, self.rules))
                return partial(errands.ask, command, body, self.host)
            case events.Replicate(url, seqno=seqno, trickles=trickles):
                sender = self.state.projects[url]
                request = SchedulerRequest(
                    sender.key, self.host, hostid=sender.hostid, rpc_seqno=seqno
                )
                bodies = [
                    encode_trickle_request(request, TrickleReport(t.result_name, t.time, t.text))
                    for t in trickles
                ]
                return partial(errands.replicate, command, bodies)
            case events.Fetch(url, name, signed):
                project = self.state.projects[url]
                key = project.code_sign_key if signed else None
                wanted = Wanted(project.files[name].info, self.home.file(url, name), key)
                return partial(errands.fetch, url, wanted)
            case events.Upload(url, name, resume):
                held = self.state.projects[url].files[name]
                path = self.home.file(url, name)
                output = Finished(held.info, path, held.nbytes, held.md5, resume, self.home.path)
                return partial(errands.upload, url, output)
        message = f"The client does not know the command {command!r}."
        raise TypeError(message)

    def _work(self, work: Callable[[], Event], command: Command) -> None:
        """Do network work in a worker thread; whatever happens becomes an event."""
        try:
            event = work()
        except Exception as error:  # noqa: BLE001 - a thread must not die without a word
            event = failure(command, f"{type(error).__name__}: {error}", self.now())
        self.happened.put(event)

    def _start(self, command: events.Run) -> None:
        """Start a program; what keeps it from starting becomes an event as well."""
        url, name = command.project, command.result
        project = self.state.projects[url]
        held = project.results[name]
        try:
            share = self.state.share_of(project)
            where = slot.prepare(
                self.home,
                project,
                held,
                self.host,
                fresh=command.fresh,
                share=share,
                preferences=preferences_in_force(self.state, self.rules),
            )
            program = slot.main_program(self.home, project, held)
            workunit, version = project.workunits[held.offer.wu_name], project.version_of(held)
            arguments = f"{workunit.command_line} {version.cmdline}".strip()
            confined = slot.confined_program(self.home, project, held, where)
            pid, pid_started = self.runner.start((url, name), confined, program, arguments)
        except slot.MissingInputError as error:
            self.happened.put(events.FileLost(self.now(), project=url, name=error.name))
            self.happened.put(events.ProcessInterrupted(self.now(), project=url, result=name))
        except (slot.SlotError, OSError, ValueError) as error:
            self.happened.put(
                events.ProcessNotStarted(self.now(), project=url, result=name, reason=str(error))
            )
        else:
            self.happened.put(
                events.ProcessStarted(
                    self.now(), project=url, result=name, pid=pid, pid_started=pid_started
                )
            )


def clean(home: Home, command: Command) -> None:
    """Delete what a command names: a file, a slot, all of a project."""
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


def fulfil_wishes(home: Home) -> None:
    """Fulfil what the volunteer left while no client runs; the caller holds the lock."""
    state = load_state(home.path)
    kill_strays(home.slots)
    commands: list[Command] = []
    wishes = mailbox.waiting(home.path)
    for _, wish in wishes:
        state, more = advance(state, wish.event(time.time()), Rules())
        commands += more
    Journal(home.path).save(state)
    for command in commands:
        clean(home, command)
    for path, _ in wishes:
        path.unlink(missing_ok=True)


def _durable(state: State) -> tuple[object, ...]:
    return state.host_cpid, state.falsified, state.received_preferences, state.projects
