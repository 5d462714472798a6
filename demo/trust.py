"""Ten simulated hosts, two of them false: what adaptive replication makes of it.

Everything is real but the computers and the clock: real requests, real daemons, a real database.
Each hour of the simulated time every host reports what it has finished and asks for more; then each
daemon makes its passes.  Lots are drawn with a fixed key, so that every run tells the same story.
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
LONGEST = 3000


@dataclass(frozen=True, slots=True)
class Character:
    """How a simulated host behaves.

    It takes `hours` for a result; `lie` is what it answers instead of the truth; one that is
    `silent` takes work and never reports.
    """

    name: str
    hours: int = 1
    lie: str = ""
    silent: bool = False

    @property
    def email(self) -> str:
        """The address of its account."""
        return f"{self.name}@example.org"


HONEST = tuple(Character(name) for name in ("ada", "ben", "cleo", "dov", "eva", "finn"))
SLOW = Character("sloth", hours=5)
SILENT = Character("ghost", silent=True)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Who takes part, and what there is to compute."""

    name: str
    title: str
    cast: tuple[Character, ...]
    workunits: int = 400


APART = Scenario(
    "apart",
    "Two hosts return wrong answers, each its own",
    (*HONEST, SLOW, SILENT, Character("mallory", lie="42"), Character("malice", lie="43")),
)
TOGETHER = Scenario(
    "together",
    "Two hosts agree on the same wrong answer",
    (*HONEST, SLOW, SILENT, Character("mallory", lie="42"), Character("malice", lie="42")),
)


def truth(workunit_name: str) -> str:
    """The right answer: short, and different for every workunit."""
    return hashlib.sha256(workunit_name.encode()).hexdigest()[:16]


@dataclass(slots=True)
class Actor:
    """A simulated host with what it holds."""

    character: Character
    key: str
    host_id: int = 0
    rpc_seqno: int = 0
    held: dict[str, tuple[str, datetime]] = field(default_factory=dict)

    def meet(self, now: datetime) -> None:
        """Report what is finished by now, and ask for one more if nothing is left."""
        finished = self._finished(now)
        for result_name in finished:
            _upload(result_name, self._answer(self.held.pop(result_name)[0]))
        request = self._request(finished, wants=not self.held)
        reply = conversation.answer(request, config=settings.PROJECT, ip_addr="127.0.0.1", now=now)
        if reply.hostid is not None:
            self.host_id, self.rpc_seqno = reply.hostid, 0
        self.rpc_seqno += 1
        for name in (*reply.result_aborts, *reply.result_aborts_if_not_started):
            self.held.pop(name, None)
        for result in reply.results:
            done_at = now + self.character.hours * HOUR
            self.held[result.name] = (result.wu_name, done_at)

    def _finished(self, now: datetime) -> list[str]:
        if self.character.silent:
            return []
        return [name for name, (_, done_at) in self.held.items() if done_at <= now]

    def _answer(self, workunit_name: str) -> str:
        return self.character.lie or truth(workunit_name)

    def _request(self, finished: list[str], *, wants: bool) -> messages.SchedulerRequest:
        hours = self.character.hours
        return messages.SchedulerRequest(
            authenticator=self.key,
            hostid=self.host_id,
            rpc_seqno=self.rpc_seqno,
            core_client_major_version=8,
            platform_name=LINUX,
            cpu_req_secs=1.0 if wants else 0.0,
            host_info=messages.HostInfo(
                host_cpid=self.character.name,
                domain_name=self.character.name,
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
            other_results=tuple(messages.OtherResult(name=name) for name in self.held),
        )


def _upload(result_name: str, answer: str) -> None:
    result_id = Result.objects.values_list("pk", flat=True).get(name=result_name)
    with storage.begin_upload(output_name(result_name, result_id, 0), 0) as upload:
        upload.write(answer.encode())
        upload.finish(md5=None)


@dataclass(slots=True)
class Play:
    """One scenario as it is played; `now` is the simulated clock."""

    scenario: Scenario
    now: datetime = MONDAY
    actors: list[Actor] = field(default_factory=list)
    app: App = field(init=False)

    def begin(self) -> None:
        """Publish the app, submit the workunits, make the accounts."""
        self.app = _publish(self.scenario.name, now=self.now)
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
        for character in self.scenario.cast:
            email = f"{self.scenario.name}.{character.email}"
            digest = accounts.password_digest(email=email, password="secret")  # noqa: S106 - nobody's
            made = accounts.create_account(
                email=email, passwd_hash=digest, name=character.name, now=self.now
            )
            self.actors.append(Actor(character, made.key))

    def hours(self) -> Iterator[int]:
        """Play hour after hour until every workunit is assimilated; yields how many are."""
        self._make_passes()
        for _ in range(LONGEST):
            self.now += HOUR
            for actor in self._in_some_order():
                actor.meet(self.now)
            self._make_passes()
            finished = self._workunits().filter(assimilate_state=2).count()
            yield finished
            if finished == self.scenario.workunits:
                return
        msg = f"After {LONGEST} simulated hours not every workunit is finished."
        raise RuntimeError(msg)

    def _in_some_order(self) -> list[Actor]:
        """Who asks first differs from hour to hour, and is the same in every run."""
        hour = int(self.now.timestamp())
        return sorted(self.actors, key=lambda a: draw(a.character.name, hour))

    def _workunits(self) -> QuerySet[Workunit]:
        return Workunit.objects.filter(app=self.app)

    def _make_passes(self) -> None:
        for name in PASSES:
            registry.find(name).run_pass(now=self.now, limit=1000)

    # What came of it

    def wrong_answers(self) -> list[str]:
        """The workunits whose canonical result is a lie; empty is what must be."""
        rows = self._workunits().filter(canonical_result__isnull=False)
        wrong = []
        for workunit in rows.select_related("canonical_result"):
            result = workunit.canonical_result
            answer = settings.VAR_DIR / "results" / self.app.name / workunit.name / "answer"
            if result is None or answer.read_text() != truth(workunit.name):
                wrong.append(workunit.name)
        return wrong

    def lies_believed(self) -> dict[str, int]:
        """How many wrong answers became canonical, by how it came to that."""
        ways: Counter[str] = Counter()
        for name in self.wrong_answers():
            workunit = Workunit.objects.get(name=name)
            valid = workunit.results.filter(validate_state=1).count()
            ways["agreed by both" if valid > 1 else "believed without a second opinion"] += 1
        return dict(ways)

    def without_answer(self) -> int:
        """How many workunits ended without a canonical result."""
        return self._workunits().filter(canonical_result__isnull=True).count()

    def standing(self) -> list[Standing]:
        """How each host stands at the end, in the order of the cast."""
        return [self._standing_of(actor) for actor in self.actors]

    def _standing_of(self, actor: Actor) -> Standing:
        results = Result.objects.filter(host_id=actor.host_id, app=self.app)
        states: Counter[int] = Counter(
            results.filter(outcome=1).values_list("validate_state", flat=True)
        )
        record = HostAppVersion.objects.filter(host_id=actor.host_id).first()
        host = Host.objects.get(pk=actor.host_id)
        entered = CreditEntry.objects.filter(host=host).aggregate(sum=Sum("amount"))["sum"]
        return Standing(
            name=actor.character.name,
            behaviour=_behaviour(actor.character),
            sent=results.count(),
            valid=states[1],
            invalid=states[2],
            alone=results.filter(outcome=1, workunit__target_nresults=1).count(),
            quota=(record.max_results_per_day if record else 0) or DAILY_QUOTA,
            in_a_row=record.consecutive_valid if record else 0,
            credit=host.total_credit,
            entered=entered or Decimal(0),
        )

    def replicas_by_tenth(self) -> list[float]:
        """Results per workunit, in each tenth of the workunits as they were submitted."""
        ids = list(self._workunits().order_by("pk").values_list("pk", flat=True))
        size = max(1, len(ids) // 10)
        return [
            Result.objects.filter(workunit_id__in=ids[i : i + size], sent_at__isnull=False).count()
            / size
            for i in range(0, size * 10, size)
        ]


@dataclass(frozen=True, slots=True)
class Standing:
    """One host at the end; `alone` are results that were believed without a second opinion."""

    name: str
    behaviour: str
    sent: int
    valid: int
    invalid: int
    alone: int
    quota: int
    in_a_row: int
    credit: Decimal
    entered: Decimal


def _behaviour(character: Character) -> str:
    if character.lie:
        return f"answers {character.lie}"
    if character.silent:
        return "never reports"
    return "slow" if character.hours > 1 else "right"


#: The daemons, in the order in which work comes to them.
PASSES = (
    "timeout_checker",
    "transitioner",
    "validator",
    "transitioner",
    "assimilator",
    "transitioner",
    "file_deleter",
)


def _publish(name: str, *, now: datetime) -> App:
    """An app of this scenario: adaptive replication, bitwise comparison, fixed credit."""
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
