"""A scripted BOINC client: sends scheduler requests, and keeps its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from scheduler import signing, storage
from scheduler.boinc import scheduler_rpc
from scheduler.boinc.wire import messages, replies, requests
from scheduler.hosts.identity import key_hash
from scheduler.models import AccountKey, Result
from scheduler.people import accounts

LINUX = "x86_64-pc-linux-gnu"
#: Words of the statements that a process runs once a second or less often.
BY_CLOCK = ("heartbeat", "DISCARD PLANS", "pg_relation_size")


def rpc_statements(act: Callable[[], object]) -> list[str]:
    """Return the statements of scheduler RPCs, without those that depend on the clock alone.

    These are heartbeats, and the check whether cached plans are to be renewed.
    """
    with CaptureQueriesContext(connection) as captured:
        act()
    statements = [str(query["sql"]) for query in captured.captured_queries]
    return [each for each in statements if not any(word in each for word in BY_CLOCK)]


class RpcClient(Client):
    """Django's test client, but scheduler RPCs bypass Django, as in `project.routing`."""

    def request(self, **request: Any) -> Any:
        environ = self._base_environ(**request)
        if environ["PATH_INFO"] != "/cgi/scheduler":
            return super().request(**request)
        body = scheduler_rpc.reply(
            str(environ.get("CONTENT_LENGTH") or "0"),
            environ["wsgi.input"].read,
            environ["REMOTE_ADDR"],
            attached_url=scheduler_rpc.attached_url_of(environ),
        )
        return HttpResponse(body, content_type="text/xml")


@dataclass
class ScriptedClient:
    """One client of one account, with its host id, its sequence number and held results."""

    key: str
    name: str = "computer"
    ncpus: int = 4
    hostid: int = 0
    rpc_seqno: int = 0
    code_sign_key: str = ""
    held: list[str] = field(default_factory=list)
    memory: float = 8e9
    disk_free: float = 1e11
    platform: str = LINUX

    def request(self, **fields: Any) -> messages.SchedulerRequest:
        """Return the next scheduler request of this client; `fields` override its values."""
        said: dict[str, Any] = {
            "authenticator": self.key,
            "hostid": self.hostid,
            "rpc_seqno": self.rpc_seqno,
            "core_client_major_version": 7,
            "core_client_minor_version": 20,
            "core_client_release": 5,
            "platform_name": self.platform,
            "code_sign_key": self.code_sign_key,
            "other_results": tuple(messages.OtherResult(name=name) for name in self.held),
            "host_info": messages.HostInfo(
                host_cpid=f"cpid of {self.name}",
                domain_name=self.name,
                p_ncpus=self.ncpus,
                p_fpops=1e9,
                m_nbytes=self.memory,
                d_total=2 * self.disk_free,
                d_free=self.disk_free,
            ),
        }
        return messages.SchedulerRequest(**(said | fields))

    def ask(self, **fields: Any) -> messages.SchedulerReply:
        """Send a scheduler request and process the reply as a client does."""
        body = requests.encode_request(self.request(**fields))
        response = RpcClient().post(
            "/cgi/scheduler", data=body, content_type="application/x-www-form-urlencoded"
        )
        assert response.status_code == 200, response.content
        reply = replies.decode_reply(response.content)
        if reply.hostid is not None:
            self.hostid, self.rpc_seqno = reply.hostid, 0
        else:
            self.rpc_seqno += 1
        self.code_sign_key = self.code_sign_key or (reply.code_sign_key or "")
        self.held += [result.name for result in reply.results if result.name not in self.held]
        self.held = [name for name in self.held if name not in reply.result_acks]
        return reply

    def ask_for_work(self, seconds: float = 1.0, **fields: Any) -> list[str]:
        """Request work, and return the names of the results received."""
        return [result.name for result in self.ask(cpu_req_secs=seconds, **fields).results]

    def report(
        self, *names: str, upload: bytes | None = b"the answer", **fields: Any
    ) -> messages.SchedulerReply:
        """Upload an output for each result and report it; `fields` override the report."""
        said = {"state": 5, "exit_status": 0, "final_elapsed_time": 10.0} | fields
        if upload is not None:
            for name in names:
                put_upload(name, upload)
        reported = tuple(messages.ReportedResult(name=name, **said) for name in names)
        self.held = [name for name in self.held if name not in names]
        return self.ask(results=reported)


def put_upload(result_name: str, content: bytes, position: int = 0) -> str:
    """Store a finished upload of a result and return the name of the file."""
    result = Result.objects.get(name=result_name)
    name = f"{result_name}_r{result.pk}_{position}"
    upload = storage.begin_upload(name, 0)
    with upload:
        upload.write(content)
        upload.finish(md5=None)
    return name


def a_client(
    email: str = "ada@example.org", name: str = "computer", **fields: Any
) -> ScriptedClient:
    """Create a client of a new or existing account; the client is not yet attached."""
    digest = accounts.password_digest(email=email, password="secret")
    made = accounts.create_account(
        email=email, passwd_hash=digest, name=email.split("@", maxsplit=1)[0], now=timezone.now()
    )
    return ScriptedClient(key=made.key, name=name, **fields)


def weak_key_of(client: ScriptedClient) -> str:
    """Return the weak key of a client's account, as the account page shows it."""
    strong = AccountKey.objects.get(key_hash=key_hash(client.key))
    weak = AccountKey.objects.get(
        account_id=strong.account_id, kind=AccountKey.Kind.WEAK, is_current=True
    )
    return signing.unseal(bytes(weak.sealed))
