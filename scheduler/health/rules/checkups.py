"""Judges the measurements of `manage.py doctor`, with hints for problems [pure]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from scheduler.health.rules.alert_texts import SILENT_AFTER, WEB_SILENT_AFTER, counted, duration

MIN_POSTGRESQL: Final = 15
#: A transaction that is open for longer keeps dead rows of the queue tables from being removed.
LONG_TRANSACTION: Final = timedelta(hours=1)
#: Daemons on machines with different clocks see work as due too early or too late.
CLOCK_WARNING: Final = timedelta(seconds=2)
CLOCK_FAILURE: Final = timedelta(minutes=1)
#: Free space above the reserve below which the disk is nearly full, as in the alerts.
NEARLY_FULL_NBYTES: Final = 2_000_000_000
#: certbot renews certificates 30 days before their end.
CERTIFICATE_WARNING: Final = timedelta(days=21)
CERTIFICATE_FAILURE: Final = timedelta(days=3)
#: A message that waits for longer was not delivered at the first attempts.
MESSAGE_WAITS: Final = timedelta(minutes=10)
_MAX_LISTED = 3
_OK_STATUS, _REDIRECTS, _CLIENT_ERRORS = 200, 300, 400


class Level(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor: a check, its result, the measured value and what to do."""

    check: str
    level: Level
    value: str
    hint: str = ""


def exit_status(findings: Iterable[Finding], *, is_strict: bool) -> int:
    """Return 1 if there is a failure, or with `is_strict` a warning, else 0."""
    bad = {Level.FAILURE, Level.WARNING} if is_strict else {Level.FAILURE}
    return int(any(finding.level in bad for finding in findings))


def unanswered(check: str, reason: str, hint: str) -> Finding:
    """Return the finding of a check that could not measure anything."""
    return Finding(check, Level.FAILURE, reason, hint)


def is_public(master_url: str) -> bool:
    """Return whether volunteers on the Internet can be expected: the address has https."""
    return master_url.startswith("https:")


def is_loopback(master_url: str) -> bool:
    """Return whether only this computer can attach to the address.

    >>> is_loopback("http://127.0.0.1:8000/"), is_loopback("https://example.org/")
    (True, False)
    """
    host = urlsplit(master_url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


# The database


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseFacts:
    """The state of the database, read on one connection.

    `seconds` is the duration of connecting.  `unapplied` are the names of migrations.  `role` is
    the one of web, daemons and science whose rights the connection exceeds least, with the
    difference in `excess` and `missing`; `owns_tables` means that one role does everything.
    `clock_difference` is the time of the database minus the time of this machine, known up to
    `clock_uncertainty`.  `longest_transaction` counts only transactions that the role may see.
    """

    version: int
    version_text: str
    is_embedded: bool
    seconds: float
    unapplied: tuple[str, ...]
    user: str
    owns_tables: bool
    role: str
    excess: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    autovacuum: bool = True
    longest_transaction: timedelta = timedelta(0)
    clock_difference: timedelta = timedelta(0)
    clock_uncertainty: timedelta = timedelta(0)
    web_seen_at: datetime | None = None
    waiting_messages: int = 0
    parked_messages: int = 0
    oldest_message_at: datetime | None = None


def database(facts: DatabaseFacts, *, public: bool, now: datetime) -> tuple[Finding, ...]:
    """Return the findings about the database, its clock, the web server and the outbox.

    Before the migrations are applied, rights and rows of tables are not judged.
    """
    of_server = (_server(facts), _migrations(facts), _transactions(facts), _clock(facts))
    if facts.unapplied:
        return of_server
    return (*of_server, _role(facts, public=public), _web(facts, now), _outbox(facts, now))


def _server(facts: DatabaseFacts) -> Finding:
    kind = "embedded" if facts.is_embedded else "from DATABASE_URL"
    value = f"PostgreSQL {facts.version_text}, {kind}, connected in {facts.seconds * 1000:.0f} ms"
    if facts.version < MIN_POSTGRESQL:
        hint = f"upgrade PostgreSQL to version {MIN_POSTGRESQL} or later."
        return Finding("database", Level.FAILURE, value, hint)
    return Finding("database", Level.OK, value)


def _migrations(facts: DatabaseFacts) -> Finding:
    if facts.unapplied:
        value = f"{counted(len(facts.unapplied), 'migration')} not applied: "
        hint = "stop the daemons, and run `manage.py project upgrade --backup FOLDER`."
        return Finding("migrations", Level.FAILURE, value + _listed(facts.unapplied), hint)
    return Finding("migrations", Level.OK, "all applied")


def _role(facts: DatabaseFacts, *, public: bool) -> Finding:
    check = "database role"
    if facts.owns_tables:
        value = f"{facts.user} owns the tables, so each process can change all of them"
        hint = "`manage.py database_roles` creates roles of least privilege (docs/database.md)."
        return Finding(check, Level.WARNING if public else Level.OK, value, hint if public else "")
    if facts.missing:
        value = f"{facts.user} lacks rights of the role {facts.role}: {_listed(facts.missing)}"
        hint = "run `manage.py database_roles grant` as the owner of the tables."
        return Finding(check, Level.FAILURE, value, hint)
    if facts.excess:
        value = f"{facts.user} has more rights than the role {facts.role}: {_listed(facts.excess)}"
        hint = "run `manage.py database_roles grant` as the owner of the tables."
        return Finding(check, Level.WARNING, value, hint)
    return Finding(check, Level.OK, f"{facts.user} has the rights of the role {facts.role}")


def _transactions(facts: DatabaseFacts) -> Finding:
    check, longest = "transactions", facts.longest_transaction
    if not facts.autovacuum:
        hint = "set autovacuum = on in postgresql.conf: without it, tables and indexes only grow."
        return Finding(check, Level.FAILURE, "autovacuum is off", hint)
    if longest > LONG_TRANSACTION:
        hint = "find its process in pg_stat_activity, and end it: rows cannot be removed meanwhile."
        return Finding(check, Level.WARNING, f"the longest is open for {duration(longest)}", hint)
    return Finding(check, Level.OK, "no long transaction, autovacuum is on")


def _clock(facts: DatabaseFacts) -> Finding:
    difference = abs(facts.clock_difference)
    way = "ahead of" if facts.clock_difference > timedelta(0) else "behind"
    certain = difference - facts.clock_uncertainty
    if certain <= CLOCK_WARNING:
        return Finding("clock", Level.OK, "the clocks of this machine and the database agree")
    level = Level.FAILURE if certain > CLOCK_FAILURE else Level.WARNING
    value = f"the database is {difference.total_seconds():.1f} s {way} this machine"
    hint = "synchronize the clocks of both machines by NTP (`timedatectl`)."
    return Finding("clock", level, value, hint)


def _web(facts: DatabaseFacts, now: datetime) -> Finding:
    if facts.web_seen_at is None:
        hint = "start the web server, for instance by `manage.py serve`."
        return Finding("web server", Level.FAILURE, "has never run", hint)
    silent = max(now - facts.web_seen_at, timedelta(0))
    value = f"last heartbeat {duration(silent)} ago"
    if silent > WEB_SILENT_AFTER:
        hint = "start the web server; deadlines are then moved by the length of the outage."
        return Finding("web server", Level.FAILURE, value, hint)
    return Finding("web server", Level.OK, value)


def _outbox(facts: DatabaseFacts, now: datetime) -> Finding:
    waiting = f"{counted(facts.waiting_messages, 'message')} waiting"
    if facts.parked_messages:
        value = f"{waiting}, {facts.parked_messages} parked"
        hint = "the admin shows the errors under outbox, and can retry or drop the messages."
        return Finding("outbox", Level.WARNING, value, hint)
    age = now - facts.oldest_message_at if facts.oldest_message_at else timedelta(0)
    if age > MESSAGE_WAITS:
        hint = "check the line of mail, and whether the housekeeper runs."
        value = f"{waiting}, the oldest for {duration(age)}"
        return Finding("outbox", Level.WARNING, value, hint)
    return Finding("outbox", Level.OK, waiting)


# Files and keys


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The state of VAR_DIR.

    `unusable` are folders that this process cannot read or write.  `open_paths` are files and
    folders whose modes permit more than they should.  `owner` is the owner of VAR_DIR if it is not
    the user of this process, `user`.
    """

    unusable: tuple[str, ...] = ()
    free_nbytes: int = 0
    min_free_nbytes: int = 0
    open_paths: tuple[str, ...] = ()
    umask: int = 0o027
    user: str = ""
    owner: str | None = None


def files(facts: FileFacts) -> tuple[Finding, ...]:
    """Return the findings about the disk and the modes of files."""
    return (_storage(facts), _permissions(facts))


def _storage(facts: FileFacts) -> Finding:
    if facts.unusable:
        value = f"cannot be read or written: {_listed(facts.unusable)}"
        hint = "give the folders to the user of the project (chown), or correct VAR_DIR."
        return Finding("storage", Level.FAILURE, value, hint)
    value = f"{_nbytes(facts.free_nbytes)} free, {_nbytes(facts.min_free_nbytes)} of them reserved"
    if facts.free_nbytes < facts.min_free_nbytes:
        hint = "free disk space: uploads and submissions are refused (MIN_FREE_BYTES)."
        return Finding("storage", Level.FAILURE, value, hint)
    if facts.free_nbytes < facts.min_free_nbytes + NEARLY_FULL_NBYTES:
        hint = "free disk space soon, or lower PURGE_AFTER."
        return Finding("storage", Level.WARNING, value, hint)
    return Finding("storage", Level.OK, value)


def _permissions(facts: FileFacts) -> Finding:
    if facts.open_paths:
        value = f"other users can open {_listed(facts.open_paths)}"
        hint = f"`manage.py serve` corrects modes, or: chmod -R {_chmod(facts.umask)} on them."
        return Finding("permissions", Level.FAILURE, value, hint)
    if facts.owner is not None:
        value = f"this process runs as {facts.user}, and the files belong to {facts.owner}"
        hint = f"run commands as {facts.owner}: new files of {facts.user} may be closed to it."
        return Finding("permissions", Level.WARNING, value, hint)
    if not facts.umask & 0o002:
        hint = "set FILE_UMASK=0027."
        value = f"other users can change new files (FILE_UMASK={facts.umask:04o})"
        return Finding("permissions", Level.FAILURE, value, hint)
    return Finding("permissions", Level.OK, f"keys are private, FILE_UMASK={facts.umask:04o}")


def _chmod(umask: int) -> str:
    """Return the argument of chmod that removes what a umask removes.

    >>> _chmod(0o027)
    'g-w,o-rwx'
    """
    groups = (("g", umask >> 3 & 7), ("o", umask & 7))
    letters = [
        (who, "".join(letter for bit, letter in ((4, "r"), (2, "w"), (1, "x")) if bits & bit))
        for who, bits in groups
    ]
    return ",".join(f"{who}-{modes}" for who, modes in letters if modes) or "go-w"


def keys(
    faults: Sequence[str], *, has_private: bool, public: bool, online_signing: bool
) -> tuple[Finding, ...]:
    """Return the finding about the keys folder; `faults` are errors with hints."""
    if faults:
        problem, _, hint = faults[0].partition("Hint: ")
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        value = " ".join(problem.split()) + more
        return (Finding("keys", Level.FAILURE, value, " ".join(hint.split())),)
    if has_private and public:
        value = "all valid, but the private code signing key of a public project is on this machine"
        hint = "move it to another machine (docs/signing.md): an intruder could sign programs."
        return (Finding("keys", Level.WARNING, value, hint),)
    if online_signing and not has_private:
        hint = "set ONLINE_SIGNING=false if the private key is on another machine."
        value = "ONLINE_SIGNING is on, and there is no private code signing key"
        return (Finding("keys", Level.FAILURE, value, hint),)
    where = "signs here" if has_private else "signs on another machine"
    return (Finding("keys", Level.OK, f"all present and valid; the project {where}"),)


# The public address


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFacts:
    """The answer of MASTER_URL; `has_link` means that it names the scheduler's URL."""

    addresses: tuple[str, ...]
    status: int
    location: str = ""
    has_link: bool = False
    seconds: float = 0.0
    certificate_ends_at: datetime | None = None


def page(facts: PageFacts, *, url: str, now: datetime) -> tuple[Finding, ...]:
    """Return the findings about the public address and its certificate."""
    return (_address(facts, url), _https(facts, url, now))


def unreachable_page(reason: str, *, url: str) -> tuple[Finding, ...]:
    """Return the findings if the public address does not answer."""
    problem, _, _ = reason.partition(" Hint:")
    is_certificate = "certificate" in reason.lower()
    hint = "start the web server, and check DNS, the proxy and the firewall."
    address = Finding("public address", Level.FAILURE, problem, hint)
    if not is_public(url):
        return (address, _plain(url))
    if is_certificate:
        hint = "renew or correct the certificate: volunteers' clients refuse this one."
        return (address, Finding("https", Level.FAILURE, "the certificate is not valid", hint))
    return (address, Finding("https", Level.FAILURE, "not measured: no connection", hint))


def _address(facts: PageFacts, url: str) -> Finding:
    check, where = "public address", f"{url} ({', '.join(facts.addresses[:_MAX_LISTED])})"
    if _REDIRECTS <= facts.status < _CLIENT_ERRORS:
        value = f"{where} redirects to {facts.location[:200] or 'nowhere'}"
        hint = "clients do not follow redirects of their requests: serve the project at MASTER_URL."
        return Finding(check, Level.FAILURE, value, hint)
    if facts.status != _OK_STATUS:
        hint = "read the logs of the web server and the proxy; check ALLOWED_HOSTS."
        return Finding(check, Level.FAILURE, f"{where} answers {facts.status}", hint)
    if not facts.has_link:
        value = f"{where} answers, but its page does not name this project's scheduler"
        hint = "another server answers there, or it runs with another MASTER_URL."
        return Finding(check, Level.FAILURE, value, hint)
    value = f"{where} answered in {facts.seconds * 1000:.0f} ms"
    if is_loopback(url):
        hint = (
            "set MASTER_URL before volunteers on other computers attach; afterwards only "
            "`manage.py project rename-url` can change it."
        )
        return Finding(check, Level.WARNING, value, hint)
    return Finding(check, Level.OK, value)


def _https(facts: PageFacts, url: str, now: datetime) -> Finding:
    if not is_public(url):
        return _plain(url)
    if facts.certificate_ends_at is None:
        hint = "check the proxy's configuration."
        return Finding("https", Level.FAILURE, "the certificate has no end", hint)
    left = facts.certificate_ends_at - now
    value = f"the certificate is valid for {left.days} more days"
    if left > CERTIFICATE_WARNING:
        return Finding("https", Level.OK, value)
    level = Level.FAILURE if left < CERTIFICATE_FAILURE else Level.WARNING
    hint = "renew the certificate, and check why it is not renewed automatically."
    return Finding("https", level, value, hint)


def _plain(url: str) -> Finding:
    if is_loopback(url):
        return Finding("https", Level.OK, "not needed: only this computer can attach")
    hint = "put a proxy with TLS in front; MASTER_URL need not change (docs/scaling.md)."
    value = "MASTER_URL has no https: passwords and keys cross the network in plain text"
    return Finding("https", Level.WARNING, value, hint)


# Daemons


def daemons(
    lives: Mapping[str, datetime | None], *, paused: bool, now: datetime
) -> tuple[Finding, ...]:
    """Return a finding for each daemon; `lives` maps it to its last heartbeat, or to None."""
    return tuple(_daemon(name, at, paused=paused, now=now) for name, at in lives.items())


def _daemon(name: str, seen_at: datetime | None, *, paused: bool, now: datetime) -> Finding:
    if paused:
        hint = "end the maintenance with `manage.py maintenance off`."
        return Finding(name, Level.WARNING, "paused for maintenance", hint)
    hint = "start the daemons by `manage.py daemons`."
    if seen_at is None:
        return Finding(name, Level.FAILURE, "has never run here", hint)
    silent = max(now - seen_at, timedelta(0))
    value = f"last heartbeat {duration(silent)} ago"
    if silent > SILENT_AFTER:
        return Finding(
            name, Level.FAILURE, value, "read its log; `manage.py daemons` starts all daemons."
        )
    return Finding(name, Level.OK, value)


# Mail


@dataclass(frozen=True, slots=True, kw_only=True)
class MailFacts:
    """The configuration of mail and alerts, and the answer of the mail server.

    `server` describes the working connection; `failure` is the reason if it failed.
    """

    is_on: bool
    server: str = ""
    failure: str = ""
    sender: str = ""
    sent_to: str = ""
    alert_mail: tuple[str, ...] = field(default=())
    webhook_host: str = ""


def mail(facts: MailFacts, *, public: bool) -> tuple[Finding, ...]:
    """Return the findings about the mail server and about where alerts are sent."""
    return (_mail_server(facts, public=public), _alerts(facts, public=public))


def _mail_server(facts: MailFacts, *, public: bool) -> Finding:
    if not facts.is_on:
        hint = "set EMAIL_URL, so that people can reset their passwords (docs/mail.md)."
        level = Level.WARNING if public else Level.OK
        return Finding("mail", level, "off: EMAIL_URL is not set", hint if public else "")
    if facts.failure:
        hint = "check EMAIL_URL, and whether this machine may connect to the mail server."
        return Finding("mail", Level.FAILURE, facts.failure, hint)
    if facts.sent_to:
        value = f"a test message to {facts.sent_to} was accepted by {facts.server}"
        return Finding("mail", Level.OK, value)
    return Finding("mail", Level.OK, f"{facts.server}, from {facts.sender}")


def _alerts(facts: MailFacts, *, public: bool) -> Finding:
    if facts.alert_mail and not facts.is_on:
        hint = "set EMAIL_URL, or remove ALERT_MAIL."
        value = "ALERT_MAIL is set, but mail is off: no alert is sent by mail"
        return Finding("alerts", Level.FAILURE, value, hint)
    ways = [f"mail to {', '.join(facts.alert_mail)}"] if facts.alert_mail else []
    ways += [f"webhook to {facts.webhook_host}"] if facts.webhook_host else []
    if ways:
        return Finding("alerts", Level.OK, f"are sent by {' and by '.join(ways)}")
    hint = "set ALERT_MAIL or ALERT_WEBHOOK, or run `manage.py alerts` from a timer."
    level = Level.WARNING if public else Level.OK
    return Finding("alerts", level, "are not sent to anybody", hint if public else "")


# Texts


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_LISTED
    return ", ".join(names[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def _nbytes(nbytes: int) -> str:
    """Return a number of bytes in GB or MB.

    >>> _nbytes(2_250_000_000), _nbytes(100_000_000)
    ('2.2 GB', '100 MB')
    """
    if nbytes >= 1_000_000_000:  # noqa: PLR2004  a gigabyte
        return f"{nbytes / 1e9:.1f} GB"
    return f"{nbytes / 1e6:.0f} MB"
