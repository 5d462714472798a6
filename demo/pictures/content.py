"""Simulates two weeks of a project with volunteers, teams, batches and results.

Only the computers and the clock are simulated; requests, daemons and the database are real.  Every
hour each computer reports its finished results and requests work; then each daemon makes its
passes.  Random draws use a fixed key.  The last step is at the current time, because the server
that shows the pages compares deadlines with the clock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

from allauth.account.models import EmailAddress
from django.conf import settings

from daemons import registry
from demo import mersenne
from demo.pictures.people import ARM, LINUX, MAC, PEOPLE, TEAMS, WINDOWS, Computer, Person
from demo.trust import PASSES
from scheduler import storage
from scheduler.apps import app_versions
from scheduler.boinc import conversation
from scheduler.boinc.wire import messages
from scheduler.dispatch.rules.trust import draw
from scheduler.health import daemon_activity, samples
from scheduler.health.facts import PassCounts
from scheduler.models import Account, App, Host, Result, Workunit
from scheduler.people import accounts, roles
from scheduler.people.personal_data.consents import Chosen
from scheduler.people.teams import members
from scheduler.people.teams.team_profiles import TeamProfile
from scheduler.results.facts import output_name
from scheduler.work.submission.facts import NewBatch, NewFile, NewOutput, NewWorkunit
from scheduler.work.submission.submit import submit

PASSWORD: Final = "many hands"  # noqa: S105 - of accounts that last for a minute
OPERATOR_EMAIL: Final = "jonas.weber@example.org"
SCIENTIST_EMAIL: Final = "mara.lindt@example.org"
LENGTH: Final = timedelta(days=14)
STEP: Final = timedelta(hours=1)
#: The desk shows the rates of the last hour, which need several samples of it.
_LAST_STEPS_SINCE: Final = timedelta(hours=3)
_LAST_STEP: Final = timedelta(minutes=15)
_FPOPS: Final = 7.2e13
_PASS_LIMIT: Final = 1000
_FILES_UPLOADED, _COMPUTE_ERROR = 5, 3
_GIGA: Final = 1e9


@dataclass(frozen=True, slots=True)
class Submission:
    """A batch that is submitted on a day of the simulation.

    Workunit `i` has the numbers from `first + i * width`; `size` is relative to other batches.
    """

    day: float
    app: str
    batch: str
    count: int
    first: int
    width: int
    size: float = 1.0


APPS: Final = {"mersenne": "Mersenne primes", "collatz": "Collatz sequences"}
SUBMISSIONS: Final = (
    Submission(0, "mersenne", "exponents from 20000", 320, 20_000, 25),
    Submission(2, "collatz", "first numbers", 260, 1_000_000, 50_000, 0.6),
    Submission(5, "mersenne", "exponents from 28000", 480, 28_000, 25, 1.3),
    Submission(11, "collatz", "second numbers", 520, 14_000_000, 50_000, 0.6),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """The simulated project: `ids` has the ids in the paths of pages.

    `contact_server` lets a computer contact the server: the status page reports that no computer
    has contacted it for two minutes.
    """

    ids: dict[str, int]
    workunits: int
    results: int
    contact_server: Callable[[datetime], None]


@dataclass(slots=True)
class Attempt:
    """A result on a computer, from `started_at` to `done_at`."""

    name: str
    workunit: str
    started_at: datetime
    done_at: datetime


@dataclass(slots=True)
class SimulatedComputer:
    """A computer's client, with the results that it has not reported."""

    number: int
    facts: Computer
    key: str
    began_at: datetime
    host_id: int = 0
    rpc_seqno: int = 0
    attempts: list[Attempt] = field(default_factory=list)

    def contact_server(self, now: datetime) -> None:
        """Report what is finished by `now`, and request work for the free slots."""
        if self.facts.days is not None and now - self.began_at > timedelta(days=self.facts.days):
            return
        finished = [attempt for attempt in self.attempts if attempt.done_at <= now]
        self.attempts = [attempt for attempt in self.attempts if attempt.done_at > now]
        reports = tuple(self._report(attempt) for attempt in finished)
        request = self._request(reports, free=self.facts.slots - len(self.attempts))
        reply = conversation.answer(
            request, config=settings.PROJECT, ip_addr=f"192.0.2.{10 + self.number}", now=now
        )
        if reply.hostid is not None:
            self.host_id, self.rpc_seqno = reply.hostid, 0
        self.rpc_seqno += 1
        aborted = {*reply.result_aborts, *reply.result_aborts_if_not_started}
        self.attempts = [attempt for attempt in self.attempts if attempt.name not in aborted]
        for result in reply.results:
            fpops = _fpops(result.wu_name)
            hours = fpops / self.facts.processor.gigaflops / _GIGA / 3600
            hours *= 0.9 + 0.3 * self._draw("duration", result.name)
            done_at = now + timedelta(hours=hours)
            self.attempts.append(Attempt(result.name, result.wu_name, now, done_at))

    def _draw(self, what: str, name: str) -> float:
        return draw(f"{what} {name}", self.number)

    def _report(self, attempt: Attempt) -> messages.ReportedResult:
        seconds = (attempt.done_at - attempt.started_at).total_seconds()
        fails = self._draw("error", attempt.name) < self.facts.failing
        if fails:
            seconds *= self._draw("part", attempt.name)
        else:
            wrong = self._draw("wrong", attempt.name) < self.facts.wrong
            answer = f"{self.facts.name} {attempt.name}" if wrong else attempt.workunit
            _upload(attempt.name, hashlib.sha256(answer.encode()).hexdigest())
        return messages.ReportedResult(
            name=attempt.name,
            state=_COMPUTE_ERROR if fails else _FILES_UPLOADED,
            exit_status=1 if fails else 0,
            final_elapsed_time=seconds,
            final_cpu_time=seconds * (0.97 + 0.02 * self._draw("cpu", attempt.name)),
            final_peak_working_set_size=(38 + 20 * self._draw("memory", attempt.name)) * 1e6,
            core_client_version="8.0.2",
            stderr_out="MemoryError: the sieve needs more memory\n" if fails else "",
        )

    def _request(
        self, reports: tuple[messages.ReportedResult, ...], *, free: int
    ) -> messages.SchedulerRequest:
        facts, processor, system = self.facts, self.facts.processor, self.facts.system
        return messages.SchedulerRequest(
            authenticator=self.key,
            hostid=self.host_id,
            rpc_seqno=self.rpc_seqno,
            core_client_major_version=8,
            core_client_release=2,
            platform_name=system.platform,
            cpu_req_secs=1.0 if free else 0.0,
            cpu_req_instances=float(free),
            host_info=messages.HostInfo(
                host_cpid=hashlib.md5(facts.name.encode(), usedforsecurity=False).hexdigest(),
                domain_name=facts.name,
                p_ncpus=processor.cpus,
                p_vendor=processor.vendor,
                p_model=processor.model,
                p_fpops=processor.gigaflops * _GIGA,
                p_iops=3.1 * processor.gigaflops * _GIGA,
                m_nbytes=facts.memory_gb * 2**30 * 0.97,
                m_swap=facts.memory_gb * 2**29,
                d_total=500e9,
                d_free=212e9,
                os_name=system.name,
                os_version=system.version,
            ),
            results=reports,
            other_results=tuple(
                messages.OtherResult(name=attempt.name) for attempt in self.attempts
            ),
        )


def simulate(now: datetime, advance: Callable[[float], object]) -> Scene:
    """Simulate the project until `now`; call `advance` after each step with its percentage."""
    moments = _moments(now)
    began_at = moments[0]
    _create_staff(began_at)
    computers = _create_people(began_at)
    _publish_apps(began_at)
    pending = list(SUBMISSIONS)
    for step, (before, moment) in enumerate(pairwise(moments)):
        while pending and began_at + timedelta(days=pending[0].day) <= before:
            _submit(pending.pop(0), now=before)
            _run_daemons(before)
        order = sorted(computers, key=lambda computer: draw(computer.facts.name, step))
        for computer in order:
            # Contacts at the same moment would look strange in lists.
            share = 0.9 * draw(f"contact {computer.facts.name}", step)
            computer.contact_server(moment - share * (moment - before))
        _run_daemons(moment)
        samples.take(now=moment)
        advance(100 / (len(moments) - 1))
    return _scene(computers[-1])


def _moments(now: datetime) -> list[datetime]:
    """Return the ends of the steps, after the time at which the simulation begins."""
    last_begin = now - _LAST_STEPS_SINCE
    hours = int((LENGTH - _LAST_STEPS_SINCE) / STEP)
    coarse = [last_begin - STEP * number for number in range(hours, 0, -1)]
    fine = [last_begin + _LAST_STEP * number for number in range(_LAST_STEPS_SINCE // _LAST_STEP)]
    return [*coarse, *fine, now]


def _create_staff(now: datetime) -> None:
    accounts.create_staff(email=OPERATOR_EMAIL, password=PASSWORD, name="Jonas Weber", now=now)
    scientist = _create_account(SCIENTIST_EMAIL, "Mara Lindt", now)
    roles.give(scientist.account, "submitter", now=now)


def _create_people(now: datetime) -> list[SimulatedComputer]:
    """Create the accounts and the teams, and return the computers."""
    computers: list[SimulatedComputer] = []
    team_ids: dict[int, int] = {}
    for person in PEOPLE:
        created = _create_account(person.email, person.name, now, country=person.country)
        if person.team is not None:
            _join(created.account, person.team, team_ids, now)
        for facts in person.computers:
            computers.append(SimulatedComputer(len(computers), facts, created.key, now))
    return computers


def _join(account: Account, number: int, team_ids: dict[int, int], now: datetime) -> None:
    if number in team_ids:
        members.join(account, team_ids[number])
        return
    profile = TeamProfile(name=TEAMS[number].name, description=TEAMS[number].description)
    team_ids[number] = members.create(account, profile, now=now).pk


def _create_account(
    email: str, name: str, now: datetime, *, country: str = ""
) -> accounts.Credentials:
    digest = accounts.password_digest(email=email, password=PASSWORD)
    created = accounts.create_account(email=email, passwd_hash=digest, name=name, now=now)
    # No mail is sent: the addresses are confirmed without their links.
    EmailAddress.objects.filter(user=created.account).update(verified=True)
    accounts.change_profile(
        created.account,
        {"name": name, "country": country},
        chosen=Chosen(share_statistics=True, show_hosts=True, receive_letters=True),
        now=now,
    )
    return created


def _publish_apps(now: datetime) -> None:
    program = Path(mersenne.__file__).read_bytes()
    for name, title in APPS.items():
        for platform in (LINUX, ARM, WINDOWS, MAC):
            app_versions.publish(
                app=name,
                version_num=104,
                platform=platform,
                files={f"{name}.py": program},
                main_program=f"{name}.py",
                executables=[f"{name}.py"],
                create_app=True,
                now=now,
            )
        App.objects.filter(name=name).update(user_friendly_name=title)


def _submit(submission: Submission, *, now: datetime) -> None:
    new_workunits = []
    for index in range(submission.count):
        first = submission.first + index * submission.width
        last = first + submission.width - 1
        new_workunits.append(
            NewWorkunit(
                name=f"{submission.app}_{first}_{last}",
                command_line=f"--from {first} --to {last}",
                input_files=(NewFile(open_name="in", content=f"{first} {last}\n".encode()),),
                outputs=(NewOutput(open_name="out", max_nbytes=1_000_000),),
                rsc_fpops_est=_FPOPS * submission.size,
                rsc_fpops_bound=_FPOPS * 1000,
                rsc_memory_bound=1e8,
                rsc_disk_bound=5e7,
                delay_bound=timedelta(days=3),
                min_quorum=2,
            )
        )
    submit(
        app=submission.app,
        workunits=new_workunits,
        batch=NewBatch(name=submission.batch),
        submitter=Account.objects.get(email=SCIENTIST_EMAIL),
        now=now,
    )


def _fpops(workunit_name: str) -> float:
    fpops = Workunit.objects.values_list("rsc_fpops_est", flat=True).get(name=workunit_name)
    return float(fpops)


def _upload(result_name: str, answer: str) -> None:
    result_id = Result.objects.values_list("pk", flat=True).get(name=result_name)
    with storage.begin_upload(output_name(result_name, result_id, 0), 0) as upload:
        upload.write(answer.encode())
        upload.finish(md5=None)


def _run_daemons(now: datetime) -> None:
    for name in PASSES:
        tally = registry.find(name).run_pass(now=now, limit=_PASS_LIMIT)
        daemon_activity.add_passes(name, PassCounts(passes=1, examined_rows=tally.seen), now=now)


def _scene(last_computer: SimulatedComputer) -> Scene:
    """Return the ids of the pages: those of the first volunteer, and of the newest work."""
    volunteer: Person = PEOPLE[0]
    computer = Host.objects.get(domain_name=volunteer.computers[0].name)
    # The workunit with the most results has the longest history.
    own = Result.objects.filter(host=computer, granted_credit__gt=0).order_by("-pk")
    workunit_ids = own.values_list("workunit_id", flat=True)
    workunit = max(workunit_ids, key=lambda pk: (Result.objects.filter(workunit_id=pk).count(), pk))
    return Scene(
        ids={"computer": computer.pk, "workunit": workunit},
        workunits=Workunit.objects.count(),
        results=Result.objects.count(),
        contact_server=last_computer.contact_server,
    )
