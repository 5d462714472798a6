"""Runs the checks of `manage.py doctor` at the same time, each with a time limit.

Theory of operation.  Each check runs in a thread of its own and returns findings.  A check that
raises an exception or does not end in time becomes a failure, so one unreachable service hides no
other line.  The threads are daemon threads: a check that hangs does not keep the process alive.
"""

from __future__ import annotations

import os
import pwd
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.db import Error, connections
from django.utils import timezone

from project import env, folders
from scheduler import signing, storage
from scheduler.files import fetching
from scheduler.files.rules.sources import BadSource
from scheduler.health import alerts, database_state, maintenance
from scheduler.health.rules import checkups
from scheduler.health.rules.checkups import FileFacts, Finding, Level, MailFacts, PageFacts
from scheduler.messages import smtp
from scheduler.messages.outbox import DeliveryFailed, Kind, Message

# ruff: noqa: TID251 - the checks read the clock

#: The time limits of checks that read files, and of checks that use the network.
FILES_SECONDS: Final = 10.0
NETWORK_SECONDS: Final = 20.0
#: The time limit of one request of a check; below the limit of the check, for a better message.
REQUEST_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Check:
    """A check, its time limit in seconds, and the hint if it does not end in time."""

    name: str
    measure: Callable[[], Sequence[Finding]]
    seconds: float
    hint: str


@dataclass(slots=True)
class _Running:
    """A check in its thread."""

    check: Check
    findings: Sequence[Finding] | None = None
    error: BaseException | None = None
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        name = f"doctor {self.check.name}"
        self.thread = threading.Thread(target=self._measure, name=name, daemon=True)
        self.thread.start()

    def _measure(self) -> None:
        try:
            self.findings = self.check.measure()
        except Exception as error:  # noqa: BLE001 - the other checks continue
            self.error = error
        finally:
            connections.close_all()

    def wait(self, began: float) -> Sequence[Finding]:
        """Return the findings, or a failure if the check raised an error or is not finished."""
        name, hint = self.check.name, self.check.hint
        self.thread.join(max(0.0, began + self.check.seconds - monotonic()))
        if self.findings is not None:
            return self.findings
        if self.error is None:
            reason = f"no result within {self.check.seconds:g} s"
        else:
            reason = " ".join(f"{type(self.error).__name__}: {self.error}".split())
        return (checkups.unanswered(name, reason, hint),)


def run(checks: Sequence[Check]) -> Iterator[Finding]:
    """Start all checks, and yield their findings in the order of `checks`."""
    began = monotonic()
    for running in [_Running(check) for check in checks]:
        yield from running.wait(began)


def all_checks(*, send_mail_to: str = "") -> tuple[Check, ...]:
    """Return the checks; with `send_mail_to`, a test message is sent to this address."""
    checks = [
        Check("database", check_database, NETWORK_SECONDS, "start PostgreSQL, or see its log."),
        Check("storage", check_files, FILES_SECONDS, "is VAR_DIR on a network disk that hangs?"),
        Check("keys", check_keys, FILES_SECONDS, "restore the folder of keys from a backup."),
        Check("public address", check_page, NETWORK_SECONDS, "check DNS, and the web server."),
        Check(
            "mail",
            lambda: check_mail(send_mail_to),
            NETWORK_SECONDS * 2,
            "check EMAIL_URL, and whether this machine may connect to the mail server.",
        ),
        Check("daemons", check_daemons, FILES_SECONDS, "is VAR_DIR on a network disk that hangs?"),
    ]
    if settings.STORAGE is not None:
        hint = "check STORAGE_URL, the keys in AWS_ACCESS_KEY_ID, and the store."
        checks.insert(2, Check("object store", check_store, NETWORK_SECONDS, hint))
    if env.text("CELERY_BROKER_URL", ""):
        hint = "start the broker, or correct CELERY_BROKER_URL."
        checks.insert(1, Check("broker", check_broker, NETWORK_SECONDS, hint))
    return tuple(checks)


def check_database() -> tuple[Finding, ...]:
    """Connect to the database, and measure its clock, rights, migrations and transactions."""
    try:
        facts = database_state.read(timezone.now)
    except Error as error:
        hint = "start PostgreSQL, and check DATABASE_URL; its log has the reason."
        if database_state.is_out_of_connections(error):
            hint = (
                "PostgreSQL runs, and all its connections are in use: lower DATABASE_POOL or the "
                "number of processes, or raise max_connections or the limit of the role."
            )
        return (checkups.unanswered("database", database_state.one_line(error), hint),)
    return checkups.database(facts, public=_is_public(), now=timezone.now())


def check_broker() -> tuple[Finding, ...]:
    """Connect to Celery's broker."""
    from kombu.connection import Connection  # noqa: PLC0415 - the import takes a third of a second

    connect: Any = Connection
    url, began = settings.CELERY_BROKER_URL, monotonic()
    try:
        with connect(url, connect_timeout=REQUEST_SECONDS) as broker:
            broker.ensure_connection(max_retries=1, timeout=REQUEST_SECONDS)
    except Exception as error:  # noqa: BLE001 - each kind of broker has its own exceptions
        hint = "start the broker, or correct CELERY_BROKER_URL; no work is lost meanwhile."
        reason = env.without_password(" ".join(str(error).split()))
        return (checkups.unanswered("broker", reason, hint),)
    took = (monotonic() - began) * 1000
    value = f"{env.without_password(url)} answered in {took:.0f} ms"
    return (Finding("broker", Level.OK, value),)


def check_files() -> tuple[Finding, ...]:
    """Check the folders of VAR_DIR, the free space and the modes of files."""
    var, keys, umask = settings.VAR_DIR, settings.KEYS_DIR, settings.FILE_UMASK
    unusable = storage.unusable_folders()
    if not var.is_dir():
        return checkups.files(FileFacts(unusable=tuple(unusable)))[:1]
    owner = var.stat().st_uid
    facts = FileFacts(
        unusable=tuple(unusable),
        free_nbytes=storage.free_nbytes(),
        min_free_nbytes=settings.MIN_FREE_BYTES,
        open_paths=tuple(map(str, folders.open_paths(var, keys, umask=umask))),
        umask=umask,
        user=_user(os.geteuid()),
        owner=None if owner == os.geteuid() else _user(owner),
    )
    return checkups.files(facts)


def check_store() -> tuple[Finding, ...]:
    """Read a listing of the object store."""
    store = storage.store()
    assert store is not None
    began = monotonic()
    try:
        store.check()
    except storage.StoreError as error:
        problem, _, hint = str(error).partition(" Hint: ")
        return (checkups.unanswered("object store", problem, hint),)
    value = f"{store} answered in {(monotonic() - began) * 1000:.0f} ms"
    return (Finding("object store", Level.OK, value),)


def check_keys() -> tuple[Finding, ...]:
    """Read every key, and compare the halves of the code signing pair."""
    return checkups.keys(
        signing.key_faults(),
        has_private=signing.private_code_sign_key_is_here(),
        public=_is_public(),
        online_signing=settings.PROJECT.online_signing,
    )


def check_page() -> tuple[Finding, ...]:
    """Request the project's own page at MASTER_URL."""
    project = settings.PROJECT
    began = monotonic()
    try:
        looked = fetching.look(project.master_url, seconds=REQUEST_SECONDS)
    except (BadSource, fetching.SourceFailed) as error:
        return checkups.unreachable_page(str(error), url=project.master_url)
    facts = PageFacts(
        addresses=looked.addresses,
        status=looked.status,
        location=looked.location,
        has_link=project.scheduler_url.encode() in looked.content,
        seconds=monotonic() - began,
        certificate_ends_at=looked.certificate_ends_at,
    )
    return checkups.page(facts, url=project.master_url, now=timezone.now())


def check_mail(send_to: str = "") -> tuple[Finding, ...]:
    """Connect to the mail server and log in; with `send_to`, send a test message."""
    project, alert_config = settings.PROJECT, settings.ALERTS
    facts: dict[str, Any] = {
        "is_on": settings.MAIL is not None,
        "sender": settings.MAIL_FROM,
        "alert_mail": alert_config.mail,
        "webhook_host": urlsplit(alert_config.webhook).hostname or "",
    }
    if settings.MAIL is not None:
        session = smtp.Session(settings.MAIL, sender=settings.MAIL_FROM, sender_name=project.name)
        try:
            with session:
                facts["server"] = session.check()
                if send_to:
                    session.send(_test_message(send_to))
                    facts["sent_to"] = send_to
        except DeliveryFailed as error:
            facts["failure"] = str(error)
    return checkups.mail(MailFacts(**facts), public=_is_public())


def _test_message(recipient: str) -> Message:
    project, now = settings.PROJECT, timezone.now()
    return Message(
        id=0,
        kind=Kind.MAIL,
        recipient=recipient,
        subject=f"Test message of {project.name}",
        text=f"`manage.py doctor` of {project.name} ({project.master_url}) sent this message.\n",
        created_at=now,
        attempts=1,
    )


def check_daemons() -> tuple[Finding, ...]:
    """Read the heartbeat of every daemon."""
    paused = maintenance.stops_daemons()
    return checkups.daemons(alerts.lives(), paused=paused, now=timezone.now())


def _is_public() -> bool:
    return checkups.is_public(settings.PROJECT.master_url)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run under a user id without a name
        return f"user {uid}"
