"""Simulates scheduler RPCs for `bench.micro`, without a database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.conf import settings

from bench.backlog import APP, MAX_NBYTES, PLATFORM
from bench.volunteer import Volunteer
from scheduler import signing
from scheduler.boinc import compose, sent_preferences, translate
from scheduler.boinc.wire import messages, replies, requests
from scheduler.dispatch.facts import (
    AppFacts,
    AssignedResult,
    Candidate,
    HostFacts,
    InputFile,
    Record,
    Version,
    VersionFacts,
    VersionFile,
    Work,
    WorkRequest,
)
from scheduler.dispatch.rules import fit, host_limits, selection, trust
from scheduler.dispatch.rules.lost_results import Holdings
from scheduler.hosts.identity import Caller

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
_RULES = AppFacts(
    id=1, name=APP, one_result_per="account", retry_same_account_after=timedelta(0), daily_quota=0
)
_VERSION = Version(
    facts=VersionFacts(
        id=1, app_id=1, version_num=100, platform=PLATFORM, record=Record(consecutive_valid=20)
    ),
    app=_RULES,
    api_version="",
    cmdline="",
    file_prefix="",
)
#: The number of candidates, by the number of results per RPC.  A first page has 48 candidates, and
#: a second page has 192.
_PAGE = {0: 48, 1: 48, 20: 192}


@dataclass(slots=True)
class Conversation:
    """A scheduler RPC of a host, which reports and requests `results` results.

    `STEPS` contains the names of the measured methods.  Each method can be called repeatedly.
    """

    STEPS: ClassVar = ("decode", "translate", "judge", "compose", "encode")

    number: int
    results: int
    body: bytes
    caller: Caller
    page: list[Candidate]
    work: Work
    request: messages.SchedulerRequest = field(init=False)
    host: HostFacts = field(init=False)
    work_requests: tuple[WorkRequest, ...] = field(init=False)
    reply: messages.SchedulerReply = field(init=False)
    encoded: bytes = b""

    def decode(self) -> None:
        self.request = requests.decode_request(self.body)

    def translate(self) -> None:
        """Translate the request, with the same calls as in `boinc.conversation`."""
        request = self.request
        described = translate.description(request, "127.0.0.1")
        translate.credentials(request)
        translate.code_sign_key(request)
        translate.reports(request)
        translate.listed_names(request)
        translate.trickles(request)
        self.host = translate.host_facts(request, self.caller, described, held_counts={})
        self.work_requests = translate.work_requests(request, self.host.taste)
        translate.platforms(request)
        translate.new_cpid(request, self.caller)

    def judge(self) -> None:
        """Select the candidates that the host may claim."""
        apps, versions = {1: _RULES}, {1: [_VERSION.facts]}
        headroom = host_limits.headroom_for(
            self.host, settings.PROJECT, apps=apps.values(), versions={1: _VERSION.facts}
        )
        rules = fit.Rules(
            apps=apps,
            versions=versions,
            headroom=headroom.copy(),
            today=NOON.date(),
            daily_quota=0,
            chance_key="bench",
            together=True,
        )
        draw = trust.draw("bench", self.host.id, 1)
        ordered, _ = selection.order(self.page, host=self.host, rules=rules, draw=draw)
        choice = selection.choose(
            ordered, host=self.host, work_requests=self.work_requests, rules=rules
        )
        candidates = choice.feasible.get("", [])
        for work_request in self.work_requests:
            selection.needed(candidates, work_request, max_results=headroom.total)

    def compose(self) -> None:
        config, request = settings.PROJECT, self.request
        mod_times = (request.preferences.mod_time, request.global_preferences_mod_time)
        texts = () if self.results else (messages.Message(text="Project has no tasks available"),)
        fields: dict[str, Any] = (
            compose.project_part(config)
            | compose.caller_part(self.caller, sent_preferences.select(self.caller, mod_times))
            | compose.holdings_part(Holdings())
            | compose.work_part(self.work, config, kept_files=self.host.near_files)
        )
        self.reply = messages.SchedulerReply(
            **fields, messages=texts, result_acks=tuple(result.name for result in request.results)
        )
        translate.decision(self.work, texts, now=NOON)
        translate.record_updates(self.work, {})

    def encode(self) -> None:
        self.encoded = replies.encode_reply(self.reply)


def of(number: int, results: int) -> Conversation:
    """Return the RPC of host `number`, which reports and requests `results` results."""
    volunteer = Volunteer(f"{number:032x}", number + 1)
    names = [f"bench_0123abcd_{number}_{place}_0".encode() for place in range(results)]
    return Conversation(
        number=number,
        results=results,
        body=volunteer.request(report=names, results_wanted=max(1, results)),
        caller=_caller(number),
        page=[_candidate(place) for place in range(_PAGE[results])] if results else [],
        work=_work(number, results),
    )


def warm_up(conversations: Sequence[Conversation]) -> None:
    """Run all steps once.

    A step uses the output of earlier steps.  The first run also fills caches.
    """
    for each in conversations:
        for step in each.STEPS:
            getattr(each, step)()


def _candidate(place: int) -> Candidate:
    return Candidate(
        result_id=place + 1,
        workunit_id=place + 1,
        app_id=1,
        priority=0,
        rsc_fpops_est=3.6e12,
        rsc_memory_bound=5e8,
        rsc_disk_bound=1e9,
        delay_bound=timedelta(days=7),
    )


def _caller(number: int) -> Caller:
    return Caller(
        account_id=number + 1,
        email=f"loud{number}@example.org",
        name="bench",
        cross_project_id=f"{number:032x}",
        account_created_at=NOON,
        account_total_credit=1000.5,
        account_expavg_credit=12.25,
        project_prefs="",
        password_digest="",
        global_prefs="",
        global_prefs_mod_time=0.0,
        team_id=None,
        team_name=None,
        is_strong=True,
        venue="",
        host_id=number + 1,
        host_created_at=NOON,
        host_total_credit=500.25,
        host_expavg_credit=6.125,
        max_in_progress=None,
        own_max_held=None,
        own_max_cpus=None,
        last_decisions=(),
        any_sensor=False,
        any_broadcast=False,
        any_for_host=False,
        assigned=False,
        detached=False,
    )


def _work(number: int, results: int) -> Work:
    work = Work(asked_for_work=True, apps={1: _RULES}, versions={1: _VERSION})
    first = 100 * number
    work.assigned = [_assigned_result(first + place) for place in range(results)]
    work.inputs = [
        InputFile(
            workunit_id=assigned.workunit_id,
            name="in_5f3a9c0d7be2411f",
            nbytes=17,
            md5="0" * 32,
            open_name="in",
            copy_file=False,
            sticky=False,
        )
        for assigned in work.assigned
    ]
    if results:
        work.version_files = [
            VersionFile(
                app_version_id=1,
                name="bench_100.sh",
                nbytes=10,
                md5="1" * 32,
                open_name="",
                main_program=True,
                executable=True,
                copy_file=False,
                signature=signing.sign(b"a program"),
            )
        ]
    return work


def _assigned_result(place: int) -> AssignedResult:
    return AssignedResult(
        result_id=place,
        result_name=f"bench_0123abcd_{place}_0",
        workunit_id=place,
        workunit_name=f"bench_0123abcd_{place}",
        app_id=1,
        app_version_id=1,
        flops=1e9,
        report_deadline=NOON + timedelta(days=7),
        command_line=f"--number {place}",
        outputs=[{"open_name": "out", "max_nbytes": MAX_NBYTES}],
        rsc_fpops_est=3.6e12,
        rsc_fpops_bound=8.64e13,
        rsc_memory_bound=5e8,
        rsc_disk_bound=1e9,
    )
