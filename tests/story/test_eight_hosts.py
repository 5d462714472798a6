"""Eight hosts request the last eight results at once, and each gets one."""

from __future__ import annotations

import hashlib
import threading
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from lxml import etree

from scheduler.boinc.wire import messages
from tests.story.project import LINUX, Project

pytestmark = [pytest.mark.story, pytest.mark.lengthy]

UNSENT = "SELECT count(*) FROM result WHERE server_state = 2"
HOSTS = 8
TIMES = 10


@dataclass
class Asker:
    """A scripted client over HTTP, with its host id and its results."""

    project: Project
    name: str
    key: str = ""
    hostid: int = 0
    rpc_seqno: int = 0
    code_sign_key: str = ""
    held: list[str] = field(default_factory=list)

    def create_account(self) -> None:
        email = f"{self.name}@example.org"
        digest = hashlib.md5(f"secret{email}".encode()).hexdigest()
        query = {"email_addr": email, "passwd_hash": digest, "user_name": self.name}
        url = f"{self.project.url}create_account.php?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=30) as reply:
            self.key = etree.fromstring(reply.read()).findtext("authenticator").strip()

    def ask(self, seconds: float, **fields: Any) -> messages.SchedulerReply:
        reply = self.project.ask(
            messages.SchedulerRequest(
                authenticator=self.key,
                hostid=self.hostid,
                rpc_seqno=self.rpc_seqno,
                core_client_major_version=7,
                core_client_minor_version=20,
                core_client_release=5,
                platform_name=LINUX,
                code_sign_key=self.code_sign_key,
                cpu_req_secs=seconds,
                work_req_seconds=seconds,
                cpu_req_instances=1.0 if seconds else 0.0,
                other_results=tuple(messages.OtherResult(name=name) for name in self.held),
                host_info=messages.HostInfo(
                    host_cpid=hashlib.md5(self.name.encode()).hexdigest(),
                    domain_name=self.name,
                    p_ncpus=4,
                    p_fpops=1e9,
                    m_nbytes=8e9,
                    d_total=1e12,
                    d_free=1e11,
                ),
                **fields,
            )
        )
        if reply.hostid:
            self.hostid, self.rpc_seqno = reply.hostid, 0
        else:
            self.rpc_seqno += 1
        self.code_sign_key = self.code_sign_key or (reply.code_sign_key or "")
        self.held += [result.name for result in reply.results]
        return reply


@pytest.mark.parametrize(
    ("workunits", "quorum"),
    [pytest.param(8, 1, id="8 workunits of 1 result"), pytest.param(4, 2, id="4 workunits of 2")],
)
def test_eight_concurrent_hosts_get_one_each_of_the_last_eight_results(
    our_project, workunits, quorum
):
    project = our_project
    hosts = [Asker(project, f"host{number}") for number in range(HOSTS)]
    for host in hosts:
        host.create_account()
        host.ask(seconds=0)
    for time in range(TIMES):
        inputs = {f"{time}-{number}": "3\n" for number in range(workunits)}
        project.submit(inputs, quorum=quorum, fpops=1e10)
        project.wait(lambda: project.count(UNSENT) == HOSTS, within=20, what="eight results")

        given, said = ask_at_the_same_moment(hosts)

        assert given == [1] * HOSTS, f"time {time}: {given}, {said}"
        assert not any("No tasks" in text for text in said), said
        assert project.count(UNSENT) == 0
    per_account = project.sql(
        "SELECT workunit_id FROM result GROUP BY workunit_id, account_id HAVING count(*) > 1"
    )
    assert per_account == [], "an account has two results of one workunit"


def ask_at_the_same_moment(hosts):
    """Send RPCs concurrently; return the number of results per host, and all messages."""
    together = threading.Barrier(len(hosts))

    def ask(host):
        together.wait()
        return host.ask(seconds=1.0)

    with ThreadPoolExecutor(len(hosts)) as pool:
        answers = list(pool.map(ask, hosts))
    said = [message.text for answer in answers for message in answer.messages]
    return [len(answer.results) for answer in answers], said
