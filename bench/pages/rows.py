"""Loads the rows of a project that has computed for a long time.

Theory of operation.  The passes of the daemons bring one workunit with two results from submission
to credit; the results of a second workunit are in progress.  SQL then copies these rows, their
host, account, team and batch with new ids, so that each table has rows as the server writes them.
Foreign keys are not checked meanwhile, because the referenced rows exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from allauth.account.models import EmailAddress
from django.db import connection, transaction
from django.db.models import Model
from django.utils import timezone

from bench import backlog
from bench.bulk import copy_statement
from daemons import registry
from scheduler.credit import app_credits
from scheduler.lifecycle import ServerState
from scheduler.messages import letters, news
from scheduler.models import (
    Account,
    AccountAppCredit,
    App,
    AuditEntry,
    Batch,
    CreditEntry,
    Host,
    HostAppCredit,
    LedgerEntry,
    Letter,
    Refusal,
    Result,
    ResultFile,
    Team,
    TeamAppCredit,
    Workunit,
    WorkunitFile,
)
from scheduler.people import accounts

VISITOR, PASSWORD = "visitor@example.org", "correct horse"
#: The visitor has this many hosts, with one result of `_PER_OWN` of the project.
OWN_HOSTS: Final = 30
_PER_OWN: Final = 20
RESULTS_PER_WORKUNIT: Final = 2
#: Ledger entries, refusals and audit entries are loaded for at most this number of workunits.
_MAX_RECORDED: Final = 100_000
#: One in this number of workunits is in progress.
_PER_RUNNING: Final = 50
#: Workunits per statement.
_BATCH_SIZE: Final = 100_000
#: Ids of copies begin here, above those of the rows that are copied.
FIRST_ID: Final = 1_000_000_000
_PASSES: Final = ("transitioner", "validator", "transitioner", "assimilator", "transitioner")
_ATTEMPT: Final = "(SELECT r.attempt FROM result AS r WHERE r.id = result_id)"


@dataclass(frozen=True, slots=True)
class Originals:
    """The ids of the rows that are copied; the visitor owns the host and founded the team."""

    visitor: int
    host: int
    team: int
    batch: int
    finished: int
    running: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of copied rows."""

    workunits: int = 0
    hosts: int = 0
    accounts: int = 0
    teams: int = 0
    batches: int = 0

    @classmethod
    def of(cls, results: int) -> Self:
        """Return the sizes of a project with this number of results."""
        return cls(
            workunits=results // RESULTS_PER_WORKUNIT,
            hosts=max(2 * OWN_HOSTS, results // 20),
            accounts=max(20, results // 40),
            teams=max(10, results // 2000),
            batches=max(10, results // 200),
        )


def create_account(email: str, *, is_staff: bool = False) -> Account:
    """Create an account with `PASSWORD`; staff may do everything."""
    account = accounts.create_account(
        email=email,
        passwd_hash=accounts.password_digest(email=email, password=PASSWORD),
        name=email.partition("@")[0],
        now=timezone.now(),
    ).account
    Account.objects.filter(pk=account.pk).update(is_staff=is_staff, is_superuser=is_staff)
    return account


def make_originals() -> Originals:
    """Make the rows that are copied."""
    backlog.forget()
    now = timezone.now()
    visitor = create_account(VISITOR)
    host = Host.objects.create(account=visitor, created_at=now, rpc_at=now, p_fpops=1e9)
    backlog.create_hosts(RESULTS_PER_WORKUNIT - 1)
    Account.objects.update(share_statistics=True, show_hosts=True, receive_letters=True)
    EmailAddress.objects.update(verified=True)
    letters.write(letters.Draft("News", "Hello.", Letter.Recipients.ALL), author=visitor, now=now)
    team = Team.objects.create(name="team", founder=visitor, created_at=now)
    Account.objects.filter(pk=visitor.pk).update(team=team)
    app = App.objects.get()
    batch = Batch.objects.create(submitter=visitor, app=app, name="batch", created_at=now)
    backlog.unsent(RESULTS_PER_WORKUNIT)
    backlog.report_all()
    for name in _PASSES:
        daemon = registry.find(name)
        while daemon.run_pass(now=timezone.now(), limit=daemon.batch).more:
            pass
    app_credits.count(now=timezone.now())
    finished = Workunit.objects.get()
    backlog.unsent(RESULTS_PER_WORKUNIT)
    backlog.send_long_ago()
    held_results = Result.objects.filter(server_state=ServerState.IN_PROGRESS)
    held_results.update(sent_at=now, report_deadline=now + timedelta(days=7))
    running = Workunit.objects.exclude(pk=finished.pk).get()
    Workunit.objects.update(batch=batch)
    Refusal.objects.create(
        workunit_id=finished.pk, host_id=1, app_id=app.pk, reason="memory", sentence="8 GB", at=now
    )
    AuditEntry.objects.create(at=now, event=AuditEntry.Event.LOGIN_SUCCEEDED, actor="visitor")
    App.objects.update(description="Searches for primes.")
    for number in range(3):
        news.publish(f"News {number}", "The project has new results.", author=None, now=now)
    return Originals(visitor.pk, host.pk, team.pk, batch.pk, finished.pk, running.pk)


def load(originals: Originals, old: Sizes, new: Sizes, advance: Callable[[float], object]) -> None:
    """Copy rows, until the tables that had the sizes `old` have the sizes `new`.

    Calls `advance` with the number of new workunits after each statement batch; then analyzes the
    tables, as autovacuum does.
    """
    for begin, end, copies in (
        (old.teams, new.teams, _teams(originals)),
        (old.accounts, new.accounts, _accounts(originals, new)),
        (old.hosts, new.hosts, _hosts(originals, new)),
        (old.batches, new.batches, _batches(originals)),
    ):
        _copy(copies, begin, end)
    # The visitor leads the first copy, which only a member can.
    Account.objects.filter(pk=originals.visitor).update(team_id=FIRST_ID)
    for begin in range(old.workunits, new.workunits, _BATCH_SIZE):
        end = min(begin + _BATCH_SIZE, new.workunits)
        middle = end - (end - begin) // _PER_RUNNING
        _copy(_workunits(originals.finished, "finished", new), begin, middle)
        _copy(_workunits(originals.running, "running", new), middle, end)
        if begin < _MAX_RECORDED:
            _copy(_records(originals.finished, new), begin, min(middle, _MAX_RECORDED))
        advance(end - begin)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _copy(statements: Iterator[str], begin: int, end: int) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        for statement in statements:
            cursor.execute(statement, {"begin": begin, "end": end - 1})


def _id(number: str) -> str:
    return f"{FIRST_ID} + {number}"


def _credit(factor: int) -> dict[str, str]:
    return {
        "total_credit": f"1 + g * {factor} %% 1000003",
        "expavg_credit": f"1 + g * {factor} %% 10007",
    }


def _row(model: type[Model], row_id: int, changed: dict[str, str], key: str = "id") -> str:
    return copy_statement(model, changed, source=f"{model._meta.db_table}.{key} = {row_id}")


def _teams(originals: Originals) -> Iterator[str]:
    changed = {"id": _id("g"), "name": "'team ' || g", "kind": "g %% 8"}
    yield _row(Team, originals.team, changed | _credit(7919))
    changed = {"id": _id("g"), "team_id": _id("g"), "total": "1 + g", "expavg": "1 + g %% 1000"}
    yield _row(TeamAppCredit, originals.team, changed, "team_id")


def _accounts(originals: Originals, new: Sizes) -> Iterator[str]:
    account, email = _id("g"), "'volunteer' || g || '@example.org'"
    changed = {"id": account, "email": email, "name": "'volunteer ' || g"}
    changed |= {"team_id": _id(f"g %% {new.teams}"), "cross_project_id": "md5(g::text)"}
    yield _row(Account, originals.visitor, changed | _credit(104_729))
    changed = {"id": account, "user_id": account, "email": email}
    yield _row(EmailAddress, originals.visitor, changed, "user_id")
    changed = {"id": account, "account_id": account, "total": "1 + g", "expavg": "1 + g %% 1000"}
    yield _row(AccountAppCredit, originals.visitor, changed, "account_id")


def _hosts(originals: Originals, new: Sizes) -> Iterator[str]:
    owner = f"CASE WHEN g < {OWN_HOSTS} THEN {originals.visitor} ELSE {_id(f'g %% {new.accounts}')}"
    changed = {"id": _id("g"), "account_id": f"{owner} END", "domain_name": "'host ' || g"}
    changed |= {"p_model": "'processor ' || g %% 50", "host_cpid": "md5(g::text)"}
    yield _row(Host, originals.host, changed | _credit(15_485_863))
    changed = {"id": _id("g"), "host_id": _id("g"), "total": "1 + g", "expavg": "1 + g %% 1000"}
    yield _row(HostAppCredit, originals.host, changed, "host_id")


def _batches(originals: Originals) -> Iterator[str]:
    yield _row(Batch, originals.batch, {"id": _id("g"), "name": "'batch ' || g"})


def _host_number(attempt: str, new: Sizes) -> str:
    """Return the number of the host that computed an attempt of workunit `g`."""
    own = f"g %% {_PER_OWN} = 0 AND {attempt} = 0"
    others = f"{OWN_HOSTS} + (g * 31 + {attempt}) %% {new.hosts - OWN_HOSTS}"
    return f"CASE WHEN {own} THEN g / {_PER_OWN} %% {OWN_HOSTS} ELSE {others} END"


def _workunits(original: int, name: str, new: Sizes) -> Iterator[str]:
    """Yield the statements that copy a workunit with its input file and its results."""
    workunit = _id("g")
    changed = {"id": workunit, "name": f"'{name}_' || g"}
    changed |= {"batch_id": _id(f"g %% {new.batches}")}
    changed |= {"created_at": "now() - g * interval '1 second'"}
    if name == "finished":
        changed["canonical_result_id"] = _id("2 * g")
    yield _row(Workunit, original, changed)
    yield _row(WorkunitFile, original, {"id": workunit, "workunit_id": workunit}, "workunit_id")
    number = _host_number("attempt", new)
    host = f"SELECT account_id FROM host WHERE host.id = {_id(f'({number})')}"
    changed = {"id": _id("2 * g + attempt"), "workunit_id": workunit}
    changed |= {"name": f"'{name}_' || g || '_' || attempt", "host_id": _id(f"({number})")}
    changed |= {"account_id": f"({host})"}
    if name == "finished":
        changed["received_at"] = "now() - g * interval '1 second'"
    yield _row(Result, original, changed, "workunit_id")


def _records(original: int, new: Sizes) -> Iterator[str]:
    """Yield the statements that copy the records of a finished workunit and of its results."""
    of_results = f"IN (SELECT id FROM result WHERE workunit_id = {original})"
    result = _id(f"2 * g + {_ATTEMPT}")
    changed = {"id": result, "result_id": result, "name": "name || '_' || g"}
    yield copy_statement(ResultFile, changed, source=f"result_id {of_results}")
    changed = {"id": result, "result_id": result}
    changed |= {"host_id": _id(f"({_host_number(_ATTEMPT, new)})")}
    yield copy_statement(CreditEntry, changed, source=f"result_id {of_results}")
    changed = {"id": "nextval(pg_get_serial_sequence('ledger_entry', 'id'))"}
    changed |= {"workunit_id": _id("g"), "result_id": result}
    yield _row(LedgerEntry, original, changed, "workunit_id")
    changed = {"id": _id("g"), "workunit_id": _id("g"), "host_id": _id(f"g %% {new.hosts}")}
    yield _row(Refusal, original, changed, "workunit_id")
    yield copy_statement(
        AuditEntry,
        {"id": _id("g"), "at": "now() - g * interval '1 second'"},
        source=f"id < {FIRST_ID} AND actor = 'visitor'",
    )
