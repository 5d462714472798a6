"""Simulates ten hosts with adaptive replication; two return wrong answers.

Only the computers and the clock are simulated; requests, daemons and the database are real. In each
hour of the simulated time every host reports its finished results and requests work; then each
daemon makes its passes.  Random draws use a fixed key, so that every run has the same outcome.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.db.models import QuerySet, Sum

from daemons import registry
from scheduler import storage
from scheduler.apps import app_versions
from scheduler.boinc import conversation
from scheduler.boinc.wire import messages
from scheduler.dispatch.rules.trust import draw
from scheduler.models import App, CreditEntry, Host, HostAppVersion, Result, Workunit
from scheduler.people import accounts
from scheduler.results.facts import output_name
from scheduler.work.submission.facts import NewOutput, NewWorkunit
from scheduler.work.submission.submit import submit

APP = "oracle"
LINUX = "x86_64-pc-linux-gnu"
HOUR = timedelta(hours=1)
MONDAY = datetime(2026, 6, 1, tzinfo=UTC)
REPLICAS = 2
TRUSTED_AFTER = 10
DAILY_QUOTA = 16
MAX_HOURS = 3000


@dataclass(frozen=True, slots=True)
class HostProfile:
    """The behavior of a simulated host.

    The host computes a result in `hours`. If `wrong_answer` is set, the host returns it instead of
    the right answer. A `silent` host requests work and never reports results.
    """

    name: str
    hours: int = 1
    wrong_answer: str = ""
    silent: bool = False

    @property
    def email(self) -> str:
        """The e-mail address of its account."""
        return f"{self.name}@example.org"


HONEST = tuple(HostProfile(name) for name in ("ada", "ben", "cleo", "dov", "eva", "finn"))
SLOW = HostProfile("sloth", hours=5)
SILENT = HostProfile("ghost", silent=True)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The hosts of a simulation, and the number of workunits."""

    name: str
    title: str
    profiles: tuple[HostProfile, ...]
    workunits: int = 400


APART = Scenario(
    "apart",
    "Two hosts return different wrong answers",
    (
        *HONEST,
        SLOW,
        SILENT,
        HostProfile("mallory", wrong_answer="42"),
        HostProfile("malice", wrong_answer="43"),
    ),
)
TOGETHER = Scenario(
    "together",
    "Two hosts agree on the same wrong answer",
    (
        *HONEST,
        SLOW,
        SILENT,
        HostProfile("mallory", wrong_answer="42"),
        HostProfile("malice", wrong_answer="42"),
    ),
)


def right_answer(workunit_name: str) -> str:
    """Return the right answer: 16 hexadecimal digits, different for every workunit."""
    return hashlib.sha256(workunit_name.encode()).hexdigest()[:16]


@dataclass(slots=True)
class SimulatedHost:
    """A simulated host; `tasks` maps result names to workunit name and finish time."""

    profile: HostProfile
    key: str
    host_id: int = 0
    rpc_seqno: int = 0
    tasks: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    def contact_server(self, now: datetime) -> None:
        """Report the results finished by `now`; request one result if no task is left."""
        finished = self._finished(now)
        for result_name in finished:
            _upload(result_name, self._answer(self.tasks.pop(result_name)[0]))
        request = self._request(finished, wants=not self.tasks)
        reply = conversation.answer(request, config=settings.PROJECT, ip_addr="127.0.0.1", now=now)
        if reply.hostid is not None:
            self.host_id, self.rpc_seqno = reply.hostid, 0
        self.rpc_seqno += 1
        for name in (*reply.result_aborts, *reply.result_aborts_if_not_started):
            self.tasks.pop(name, None)
        for result in reply.results:
            done_at = now + self.profile.hours * HOUR
            self.tasks[result.name] = (result.wu_name, done_at)

    def _finished(self, now: datetime) -> list[str]:
        if self.profile.silent:
            return []
        return [name for name, (_, done_at) in self.tasks.items() if done_at <= now]

    def _answer(self, workunit_name: str) -> str:
        return self.profile.wrong_answer or right_answer(workunit_name)

    def _request(self, finished: list[str], *, wants: bool) -> messages.SchedulerRequest:
        hours = self.profile.hours
        return messages.SchedulerRequest(
            authenticator=self.key,
            hostid=self.host_id,
            rpc_seqno=self.rpc_seqno,
            core_client_major_version=8,
            platform_name=LINUX,
            cpu_req_secs=1.0 if wants else 0.0,
            host_info=messages.HostInfo(
                host_cpid=self.profile.name,
                domain_name=self.profile.name,
                p_ncpus=1,
                p_fpops=1e9 / hours,
                m_nbytes=4e9,
                d_total=1e11,
                d_free=5e10,
            ),
            results=tuple(
                messages.ReportedResult(
                    name=name, state=5, final_elapsed_time=3600.0 * hours, final_cpu_time=3600.0
                )
                for name in finished
            ),
            other_results=tuple(messages.OtherResult(name=name) for name in self.tasks),
        )


def _upload(result_name: str, answer: str) -> None:
    result_id = Result.objects.values_list("pk", flat=True).get(name=result_name)
    with storage.begin_upload(output_name(result_name, result_id, 0), 0) as upload:
        upload.write(answer.encode())
        upload.finish(md5=None)


@dataclass(slots=True)
class Simulation:
    """One run of a scenario; `now` is the simulated clock."""

    scenario: Scenario
    now: datetime = MONDAY
    hosts: list[SimulatedHost] = field(default_factory=list)
    app: App = field(init=False)

    def begin(self) -> None:
        """Publish the app, submit the workunits, create the accounts."""
        self.app = _publish_app(self.scenario.name, now=self.now)
        submit(
            app=self.app.name,
            workunits=[
                NewWorkunit(
                    name=f"{self.scenario.name}_{number}",
                    outputs=(NewOutput(open_name="answer", max_nbytes=100),),
                    rsc_fpops_est=3600e9,
                    rsc_fpops_bound=1e16,
                    rsc_disk_bound=1e6,
                    rsc_memory_bound=1e6,
                    delay_bound=timedelta(days=1),
                    max_error_results=20,
                    max_total_results=40,
                    max_success_results=20,
                )
                for number in range(self.scenario.workunits)
            ],
            now=self.now,
        )
        for profile in self.scenario.profiles:
            email = f"{self.scenario.name}.{profile.email}"
            digest = accounts.password_digest(email=email, password="secret")  # noqa: S106 - simulated
            account = accounts.create_account(
                email=email, passwd_hash=digest, name=profile.name, now=self.now
            )
            self.hosts.append(SimulatedHost(profile, account.key))

    def hours(self) -> Iterator[int]:
        """Simulate hours until all workunits are assimilated.

        Yields the number of assimilated workunits after each hour.  Raises RuntimeError after
        `MAX_HOURS`.
        """
        self._run_daemons()
        for _ in range(MAX_HOURS):
            self.now += HOUR
            for host in self._in_shuffled_order():
                host.contact_server(self.now)
            self._run_daemons()
            finished = self._workunits().filter(assimilate_state=2).count()
            yield finished
            if finished == self.scenario.workunits:
                return
        msg = f"After {MAX_HOURS} simulated hours not every workunit is finished."
        raise RuntimeError(msg)

    def _in_shuffled_order(self) -> list[SimulatedHost]:
        """Return the hosts in an order that differs by hour and is the same in every run."""
        hour = int(self.now.timestamp())
        return sorted(self.hosts, key=lambda a: draw(a.profile.name, hour))

    def _workunits(self) -> QuerySet[Workunit]:
        return Workunit.objects.filter(app=self.app)

    def _run_daemons(self) -> None:
        for name in PASSES:
            registry.find(name).run_pass(now=self.now, limit=1000)

    # Outcome

    def wrong_answers(self) -> list[str]:
        """Return the workunits whose canonical result has a wrong answer."""
        rows = self._workunits().filter(canonical_result__isnull=False)
        wrong = []
        for workunit in rows.select_related("canonical_result"):
            result = workunit.canonical_result
            answer = settings.VAR_DIR / "results" / self.app.name / workunit.name / "answer"
            if result is None or answer.read_text() != right_answer(workunit.name):
                wrong.append(workunit.name)
        return wrong

    def accepted_wrong_answers(self) -> dict[str, int]:
        """Return the number of wrong answers that became canonical, by reason."""
        counts: Counter[str] = Counter()
        for name in self.wrong_answers():
            workunit = Workunit.objects.get(name=name)
            valid = workunit.results.filter(validate_state=1).count()
            counts["both hosts agreed" if valid > 1 else "accepted without replication"] += 1
        return dict(counts)

    def without_answer(self) -> int:
        """Return the number of workunits that ended without a canonical result."""
        return self._workunits().filter(canonical_result__isnull=True).count()

    def host_summaries(self) -> list[HostSummary]:
        """Return a summary of each host, in the order of the profiles."""
        return [self._summary_of(host) for host in self.hosts]

    def _summary_of(self, host: SimulatedHost) -> HostSummary:
        results = Result.objects.filter(host_id=host.host_id, app=self.app)
        states: Counter[int] = Counter(
            results.filter(outcome=1).values_list("validate_state", flat=True)
        )
        record = HostAppVersion.objects.filter(host_id=host.host_id).first()
        host_row = Host.objects.get(pk=host.host_id)
        entered_sum = CreditEntry.objects.filter(host=host_row).aggregate(sum=Sum("amount"))["sum"]
        return HostSummary(
            name=host.profile.name,
            behavior=_behavior(host.profile),
            sent=results.count(),
            valid=states[1],
            invalid=states[2],
            alone=results.filter(outcome=1, workunit__target_nresults=1).count(),
            quota=(record.max_results_per_day if record else 0) or DAILY_QUOTA,
            in_a_row=record.consecutive_valid if record else 0,
            credit=host_row.total_credit,
            entered=entered_sum or Decimal(0),
        )

    def replicas_by_tenth(self) -> list[float]:
        """Return the sent results per workunit, for each tenth in order of submission."""
        ids = list(self._workunits().order_by("pk").values_list("pk", flat=True))
        size = max(1, len(ids) // 10)
        return [
            Result.objects.filter(workunit_id__in=ids[i : i + size], sent_at__isnull=False).count()
            / size
            for i in range(0, size * 10, size)
        ]


@dataclass(frozen=True, slots=True)
class HostSummary:
    """The final state of a host; `alone` counts results accepted without replication.

    `quota` is its results per day, `in_a_row` its consecutive valid results, `entered` the sum of
    its credit entries.
    """

    name: str
    behavior: str
    sent: int
    valid: int
    invalid: int
    alone: int
    quota: int
    in_a_row: int
    credit: Decimal
    entered: Decimal


def _behavior(profile: HostProfile) -> str:
    if profile.wrong_answer:
        return f"answers {profile.wrong_answer}"
    if profile.silent:
        return "never reports"
    return "slow" if profile.hours > 1 else "right"


#: The daemons, in the order in which workunits pass through them.
PASSES = (
    "timeout_checker",
    "transitioner",
    "validator",
    "transitioner",
    "assimilator",
    "transitioner",
    "file_deleter",
)


def _publish_app(name: str, *, now: datetime) -> App:
    """Publish the app of a scenario: adaptive replication, bitwise validator, fixed credit."""
    app_name = f"{APP}_{name}"
    app_versions.publish(
        app=app_name,
        version_num=100,
        platform=LINUX,
        files={"oracle.sh": b"#!/bin/sh\n"},
        main_program="oracle.sh",
        executables=["oracle.sh"],
        create_app=True,
        now=now,
    )
    App.objects.filter(name=app_name).update(
        target_nresults=REPLICAS,
        trusted_after=TRUSTED_AFTER,
        daily_quota=DAILY_QUOTA,
        credit_rule="fixed",
        credit_per_workunit=10,
        retry_same_account_after=timedelta(0),
    )
    return App.objects.get(name=app_name)
