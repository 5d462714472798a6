"""Simulates hosts of volunteers, which build encoded scheduler requests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from django.utils import timezone

from bench.backlog import PLATFORM, RESULT_SECONDS
from scheduler import signing
from scheduler.boinc.wire import messages, requests
from scheduler.models import Account, Host
from scheduler.people import accounts

#: The size of a request of a stock client that is attached to several projects.
REQUEST_BYTES = 7000
#: Markers of gaps in a template, which the load generator fills: bytes that XML cannot contain.
KEY, HOST, SEQUENCE, SECONDS, REPORTS = b"\1", b"\2", b"\3", b"\4", b"\5"
NAME = b"\1"
_STDERR = "<stderr_txt>\n" + "10:15:02 (4711): called boinc_finish(0)\n" * 8 + "</stderr_txt>\n"
_REPORTED = re.compile(rb"<result>.*</result>\n?", re.DOTALL)
_END = b"</scheduler_request>"
#: Placeholders in the encoded request, which are replaced by the gaps.
_GAPS = {
    b"@KEY@": KEY,
    b"@HOST@": HOST,
    b"<hostid>4711": b"<hostid>" + HOST,
    b"<rpc_seqno>4711": b"<rpc_seqno>" + SEQUENCE,
    b"<cpu_req_secs>4711": b"<cpu_req_secs>" + SECONDS,
}


@dataclass(slots=True)
class Volunteer:
    """A simulated host with an account.

    `key` is the account key, and `rpc_seqno` counts the requests.
    """

    key: str
    host_id: int
    rpc_seqno: int = 0

    def request(self, *, report: Sequence[bytes] = (), results_wanted: int = 0) -> bytes:
        """Return the next request, encoded as XML.

        It reports the results with the names in `report`, and requests `results_wanted` results.
        """
        self.rpc_seqno += 1
        request, reported = templates()
        # The server sends results while seconds are left: request half a result less.
        seconds = max(0.0, results_wanted - 0.5) * RESULT_SECONDS
        gaps = {
            KEY: self.key.encode(),
            HOST: b"%d" % self.host_id,
            SEQUENCE: b"%d" % self.rpc_seqno,
            SECONDS: b"%d" % seconds,
            REPORTS: b"".join(reported.replace(NAME, name) for name in report),
        }
        for gap, text in gaps.items():
            request = request.replace(gap, text)
        return request


@cache
def templates() -> tuple[bytes, bytes]:
    """Return templates of a request and of its ``<result>`` element.

    The values that differ between requests are replaced by markers such as `KEY` and `NAME`.
    """
    whole = requests.encode_request(_request())
    match = _REPORTED.search(whole)
    if match is None:
        raise AssertionError("A request that reports a result has no <result>.")
    head = whole[: match.start()] + REPORTS + whole[match.end() :]
    for words, gap in _GAPS.items():
        head = head.replace(words, gap)
    padding = max(0, REQUEST_BYTES - len(whole))
    lines = (b"1790000000.0 power_on\n" * 400)[:padding]
    log = b"<time_stats_log>\n%b</time_stats_log>\n" % lines if padding else b""
    return head.replace(_END, log + _END), match[0].replace(b"@NAME@", NAME)


def volunteers(number: int) -> list[Volunteer]:
    """Create `number` accounts with one host each; return the simulated hosts."""
    now = timezone.now()
    new_volunteers = []
    for _ in range(number):
        email = f"loud{Host.objects.count()}@example.org"
        digest = accounts.password_digest(email=email, password="bench")
        key = accounts.create_account(email=email, passwd_hash=digest, name="bench", now=now).key
        account = Account.objects.get(email=email)
        host = Host.objects.create(account=account, created_at=now, rpc_at=now)
        new_volunteers.append(Volunteer(key, host.pk))
    return new_volunteers


def _request() -> messages.SchedulerRequest:
    return messages.SchedulerRequest(
        authenticator="@KEY@",
        hostid=4711,
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
            domain_name="computer@HOST@",
            ip_addr="127.0.0.1",
            host_cpid="0123456789abcdef0123@HOST@",
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
                # Equal to the estimate, so that the statistics of a host do not change it.
                final_cpu_time=RESULT_SECONDS,
                final_elapsed_time=RESULT_SECONDS,
                platform=PLATFORM,
                version_num=100,
                app_version_num=100,
                core_client_version="7.20.5",
                stderr_out=_STDERR,
            ),
        ),
    )
