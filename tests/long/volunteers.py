"""Scripted volunteers over HTTP that retry as BOINC's clients do.

An upload is retried until its status is 0, a report until the reply acknowledges it.  After a
failure the volunteer waits for a short time.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode

from lxml import etree

from scheduler.boinc.wire import messages, replies, requests, uploads
from tests.scripted_client import ScriptedClient

#: The HTTP timeout, and the range of the pause between two attempts; seconds.
TIMEOUT = 60.0
BACK_OFF = (0.05, 0.5)
#: Maximum delay in seconds; a stock client would wait for minutes.
LONGEST_DELAY = 0.5


class Unwell(Exception):
    """A request failed, and should be retried."""


@dataclass
class Held:
    """A result that was sent to a volunteer and is not acknowledged as reported."""

    name: str
    upload: messages.UploadFile
    is_uploaded: bool = False


@dataclass
class Volunteer(ScriptedClient):
    """A simulated host that retries failed requests and never loses results."""

    port: int = 0
    work: dict[str, Held] = field(default_factory=dict)
    said: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    _line: http.client.HTTPConnection | None = None

    def attach(self):
        email = f"{self.name}@example.org"
        digest = hashlib.md5(f"secret{email}".encode()).hexdigest()
        query = {"email_addr": email, "passwd_hash": digest, "user_name": self.name}
        answer = self._send("GET", f"/create_account.php?{urlencode(query)}")
        found = etree.fromstring(answer).findtext("authenticator")
        if not found:
            raise Unwell(answer)
        self.key = found.strip()

    def converse(self, *, seconds, report):
        """Send an RPC that reports the named results and requests `seconds` of work."""
        reported = [held for held in self.work.values() if held.name in report]
        others = [name for name in self.work if name not in report]
        request = self.request(
            cpu_req_secs=seconds,
            work_req_seconds=seconds,
            results=tuple(
                messages.ReportedResult(name=held.name, state=5, final_elapsed_time=10.0)
                for held in reported
            ),
            other_results=tuple(messages.OtherResult(name=name) for name in others),
        )
        # Incremented first, because the server may have processed a request whose reply was lost.
        self.rpc_seqno += 1
        reply = replies.decode_reply(
            self._send("POST", "/cgi/scheduler", requests.encode_request(request))
        )
        if reply.hostid is not None:
            self.hostid, self.rpc_seqno = reply.hostid, 0
        self.code_sign_key = self.code_sign_key or (reply.code_sign_key or "")
        self.said.update(message.text for message in reply.messages)
        outputs = {upload.name: upload for upload in reply.uploads}
        for result in reply.results:
            [reference] = result.file_refs
            self.work.setdefault(result.name, Held(result.name, outputs[reference.file_name]))
        for name in (*reply.result_acks, *reply.result_aborts):
            self.work.pop(name, None)
        return reply

    def upload(self, held):
        """Upload the output of a result; it is the same for all results of a workunit."""
        content = f"the answer of {held.name.rpartition('_')[0]}".encode() * 20
        request = uploads.UploadRequest(
            name=held.upload.name,
            max_nbytes=held.upload.max_nbytes,
            grant=(held.upload.xml_signature or "").strip(),
            nbytes=len(content),
            md5=hashlib.md5(content).hexdigest(),
        )
        reply = uploads.decode_reply(
            self._send(
                "POST", "/upload/file_upload_handler", uploads.encode_request(request, content)
            )
        )
        assert reply.status != -1, f"finished work is to be thrown away: {reply}"
        if reply.status:
            self.said[f"upload: {reply.message}"] += 1
            raise Unwell(reply.message)
        held.is_uploaded = True

    def _send(self, method, path, body=None):
        """Send a request and return the reply's body; raises `Unwell` if it should be retried."""
        began = time.monotonic()
        try:
            if self._line is None:
                self._line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
            self._line.request(method, path, body)
            response = self._line.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            raise Unwell(type(error).__name__) from None
        self.slowest = max(self.slowest, time.monotonic() - began)
        if response.status != HTTPStatus.OK:
            self.hang_up()
            raise Unwell(f"HTTP {response.status}")
        return answer

    def hang_up(self):
        """Close the connection; the next request opens another one."""
        if self._line is not None:
            self._line.close()
            self._line = None


@dataclass
class Swarm:
    """Volunteers that each work in a thread; `quota` limits the total of reported results.

    Tests raise the quota to spread load over their duration.  Any error but `Unwell` stops all
    volunteers, and `check` raises it.
    """

    port: int
    size: int
    seed: int
    at_once: int = 6
    quota: float = 1e9
    reported: int = 0
    troubles: Counter[str] = field(default_factory=Counter)
    members: list[Volunteer] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)
    _failure: BaseException | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self):
        self.members = [
            Volunteer(key="", name=f"computer{number}", port=self.port)
            for number in range(self.size)
        ]
        for number, member in enumerate(self.members):
            rng = random.Random(self.seed * 1000 + number)
            thread = threading.Thread(target=self._live, args=(member, rng), daemon=True)
            thread.start()
            self._threads.append(thread)

    def check(self):
        """Raise the error that stopped the volunteers, if there is one."""
        if self._failure is not None:
            raise self._failure

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * TIMEOUT)
            assert not thread.is_alive(), "a volunteer hangs"
        for member in self.members:
            member.hang_up()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def holding(self):
        """Return the number of results that volunteers hold."""
        return sum(len(member.work) for member in self.members)

    @property
    def said(self):
        """Return a Counter of the messages in replies to all volunteers."""
        return sum((member.said for member in self.members), Counter())

    @property
    def slowest(self):
        """Return the longest duration of a request, in seconds."""
        return max(member.slowest for member in self.members)

    def _live(self, member, rng):
        try:
            while not self._stop.is_set():
                try:
                    self._act(member)
                    pause = rng.uniform(*BACK_OFF)
                except Unwell as trouble:
                    with self._lock:
                        self.troubles[str(trouble)] += 1
                    pause = rng.uniform(*BACK_OFF)
                self._stop.wait(pause)
        except BaseException as failure:  # noqa: BLE001 - the test's thread raises it
            self._failure = failure
            self._stop.set()

    def _act(self, member):
        if not member.key:
            member.attach()
        for held in [held for held in member.work.values() if not held.is_uploaded]:
            member.upload(held)
        ready = [held.name for held in member.work.values() if held.is_uploaded]
        with self._lock:
            left = max(0, int(self.quota - self.reported))
        report = ready[:left]
        wanted = self.at_once - len(member.work) + len(report)
        member.converse(seconds=10.0 * max(0, wanted), report=report)
        with self._lock:
            self.reported += sum(name not in member.work for name in report)
