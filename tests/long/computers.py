"""Simulated hosts: requests and uploads, without network and computation."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from scheduler import storage
from scheduler.boinc import conversation
from scheduler.boinc.wire import messages
from scheduler.models import Result
from scheduler.results.facts import output_name
from tests.long.ground import LINUX, WINDOWS

#: Two kinds of computer, with different platforms and homogeneous redundancy classes.
KINDS = (
    {"p_vendor": "GenuineIntel", "p_model": "Intel(R) Core(TM) i5", "os_name": "Linux"},
    {"p_vendor": "AuthenticAMD", "p_model": "AMD Athlon 64", "os_name": "Microsoft Windows 10"},
)
#: Kind of end -> the client state, the exit status, and the kind of answer that is uploaded.
ENDS = {
    "right": (5, 0, "right"),
    "wrong": (5, 0, "wrong"),
    "odd": (5, 0, "odd"),
    "without output": (5, 0, None),
    "error": (3, 1, None),
    "abort": (6, 203, None),
}


@dataclass
class Held:
    """A result that was sent to a computer: workunit name, and the names of the output files."""

    workunit: str
    uploads: tuple[str, ...]


@dataclass
class Computer:
    """A host of an account; `held` are results in progress, `past` reported or aborted ones.

    The host is on for the fraction `on_frac` of the time, and computes for `active_frac` of that.
    """

    owner: str
    key: str
    kind: int = 0
    copy: int = 0
    ncpus: int = 2
    on_frac: float = 1.0
    active_frac: float = 1.0
    host_id: int = 0
    rpc_seqno: int = 0
    held: dict[str, Held] = field(default_factory=dict)
    past: dict[str, Held] = field(default_factory=dict)

    @property
    def name(self):
        return f"{self.owner}'s {self.copy}"

    def speak(self, *, wants=0.0, reports=(), forgets=False, queued=0.0):
        """Return an RPC that reports (name, end) pairs and requests `wants` seconds of work.

        `queued` is the host's queue in seconds.  With `forgets`, the host contacts the server
        without an id, as a new installation does.
        """
        if forgets:
            self.host_id, self.rpc_seqno = 0, 0
            self.held.clear()
        request = self._request(wants, reports, queued)
        self.rpc_seqno += 1
        return conversation.Call(request, "127.0.0.1")

    def _request(self, wants, reports, queued):
        return messages.SchedulerRequest(
            authenticator=self.key,
            hostid=self.host_id,
            rpc_seqno=self.rpc_seqno,
            core_client_major_version=8,
            platform_name=(LINUX, WINDOWS)[self.kind],
            cpu_req_secs=wants,
            estimated_delay=queued,
            time_stats=messages.TimeStats(on_frac=self.on_frac, active_frac=self.active_frac),
            host_info=messages.HostInfo(
                host_cpid=self.name,
                domain_name=self.name,
                p_ncpus=self.ncpus,
                p_fpops=1e9,
                m_nbytes=4e9,
                d_total=1e11,
                d_free=5e10,
                **KINDS[self.kind],
            ),
            results=tuple(_report(name, end) for name, end in reports),
            other_results=tuple(
                messages.OtherResult(name=name) for name in self.held if name not in dict(reports)
            ),
        )

    def hear(self, world, reply):
        """Process a reply as a client does; return the names of the new results."""
        if reply.hostid is not None:
            self.host_id, self.rpc_seqno = reply.hostid, 0
        for name in reply.result_acks:
            if name in self.held:
                self.past[name] = self.held.pop(name)
        for name in (*reply.result_aborts, *reply.result_aborts_if_not_started):
            if name in self.held:
                self.past[name] = self.held.pop(name)
        new = [result.name for result in reply.results if result.name not in self.held]
        if new:
            rows = Result.objects.filter(name__in=new).order_by("pk")
            for name, pk, workunit, outputs in rows.values_list(
                "name", "id", "workunit__name", "workunit__outputs"
            ):
                uploads = tuple(output_name(name, pk, at) for at in range(len(outputs)))
                self.held[name] = Held(workunit, uploads)
            world.note_given(new)
        return new

    def upload(self, world, name, end):
        """Upload the outputs of a result, as a client does before the report."""
        content = ENDS[end][2]
        held = self.held.get(name) or self.past.get(name)
        if content is None or held is None:
            return
        for upload in held.uploads:
            data = answer_of(held.workunit, content, self.name)
            try:
                with storage.begin_upload(upload, 0) as one:
                    one.write(data)
                    one.finish(md5=None)
            except (storage.UploadFinished, storage.UploadLocked):
                continue
            world.note_upload(name, upload)


def _report(name, end):
    state, exit_status, _content = ENDS[end]
    return messages.ReportedResult(
        name=name,
        state=state,
        exit_status=exit_status,
        final_elapsed_time=3600.0,
        final_cpu_time=3000.0,
    )


def answer_of(workunit, content, computer):
    """Return an answer that is "right", "wrong" (equal on all hosts), or "odd" (host-specific)."""
    number = int(hashlib.sha256(workunit.encode()).hexdigest()[:6], 16)
    if content == "wrong":
        number += 1000
    elif content == "odd":
        number += 2000 + int(hashlib.sha256(computer.encode()).hexdigest()[:6], 16)
    return f"{number}\n".encode()
