"""A volunteer's computer as the server sees it: a key, and requests as bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from django.utils import timezone

from bench.backlog import PLATFORM, RESULT_SECONDS
from scheduler import signing
from scheduler.models import Account, Host
from scheduler.operations import accounts
from scheduler.wire import messages, requests

#: What a stock client's request is long, with a handful of projects behind it.
REQUEST_BYTES = 7000
_STDERR = "<stderr_txt>\n" + "10:15:02 (4711): called boinc_finish(0)\n" * 8 + "</stderr_txt>\n"
_REPORTED = re.compile(rb"<result>.*</result>\n?", re.DOTALL)
_END = b"</scheduler_request>"


@dataclass(slots=True)
class Volunteer:
    """One computer of one account; counts its requests."""

    key: str
    host_id: int
    rpc_seqno: int = 0
    _template: bytes = field(init=False)
    _report: bytes = field(init=False)

    def __post_init__(self) -> None:
        whole = requests.encode_request(_request(self.key, self.host_id))
        found = _REPORTED.search(whole)
        assert found is not None
        self._report = found[0]
        head = whole[: found.start()] + b"<!--reports-->" + whole[found.end() :]
        padding = REQUEST_BYTES - len(whole)
        log = (
            b"<time_stats_log>\n%b</time_stats_log>\n"
            % (b"1790000000.0 power_on\n" * 400)[:padding]
        )
        self._template = head.replace(_END, (log if padding > 0 else b"") + _END)

    def request(self, *, report: Sequence[bytes] = (), results_wanted: int = 0) -> bytes:
        """The next request: reports some results and asks for so many."""
        self.rpc_seqno += 1
        reports = b"".join(self._report.replace(b"@NAME@", name) for name in report)
        # A client gets results while it still wants seconds: half a result too few is right.
        seconds = max(0.0, results_wanted - 0.5) * RESULT_SECONDS
        return (
            self._template.replace(b"<!--reports-->", reports)
            .replace(b"<rpc_seqno>4711", b"<rpc_seqno>%d" % self.rpc_seqno)
            .replace(b"<cpu_req_secs>4711", b"<cpu_req_secs>%d" % seconds)
        )


def volunteers(number: int) -> list[Volunteer]:
    """So many new computers, an account each, known to the server."""
    now = timezone.now()
    made = []
    for _ in range(number):
        email = f"loud{Host.objects.count()}@example.org"
        digest = accounts.password_digest(email=email, password="bench")
        key = accounts.create_account(email=email, passwd_hash=digest, name="bench", now=now).key
        account = Account.objects.get(email=email)
        host = Host.objects.create(account=account, created_at=now, rpc_at=now)
        made.append(Volunteer(key, host.pk))
    return made


def _request(key: str, host_id: int) -> messages.SchedulerRequest:
    return messages.SchedulerRequest(
        authenticator=key,
        hostid=host_id,
        rpc_seqno=4711,
        core_client_major_version=7,
        core_client_minor_version=20,
        core_client_release=5,
        platform_name=PLATFORM,
        code_sign_key=signing.code_sign_key_text(),
        cpu_req_secs=4711,
        preferences=messages.Preferences(
            disk_max_used_pct=90, ram_max_used_busy_pct=50, ram_max_used_idle_pct=90
        ),
        host_info=messages.HostInfo(
            domain_name=f"computer{host_id}",
            ip_addr="127.0.0.1",
            host_cpid=f"{host_id:032x}",
            p_ncpus=4,
            p_vendor="AuthenticAMD",
            p_model="AMD EPYC [Family 25 Model 17 Stepping 1]",
            p_features="fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov " * 16,
            p_fpops=1e9,
            p_iops=1e9,
            p_membw=1e9,
            m_nbytes=16e9,
            d_total=4e12,
            d_free=2e12,
            os_name="Linux Debian",
            os_version="Debian GNU/Linux 12 (bookworm) [6.1.0-18-amd64|libc 2.36]",
        ),
        results=(
            messages.ReportedResult(
                name="@NAME@",
                state=5,
                final_cpu_time=3000,
                final_elapsed_time=3100,
                platform=PLATFORM,
                version_num=100,
                app_version_num=100,
                core_client_version="7.20.5",
                stderr_out=_STDERR,
            ),
        ),
    )
