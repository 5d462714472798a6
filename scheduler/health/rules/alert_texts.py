"""Derives alerts for operators, each with a sentence and a hint [pure]."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.queues.rules import serving
from scheduler.queues.rules.serving import WaitingQueue

#: Daemons send a heartbeat every 5 seconds, also during a long pass; under Celery at least every 20
#: seconds if a worker is free.  A dead daemon raises its alert within a minute.
SILENT_AFTER = timedelta(seconds=40)
#: A daemon is behind if its oldest due work has been due for longer than this.
LATE_AFTER = timedelta(minutes=10)
#: Web processes send a heartbeat twice a minute.
WEB_SILENT_AFTER = timedelta(minutes=5)
#: An open batch that will expire within this time causes an alert.
REMIND_BEFORE = timedelta(days=3)
#: All kinds of alerts.
KINDS = (
    "disk_full",
    "disk_nearly_full",
    "maintenance",
    "uploads_stopped",
    "daemon_silent",
    "web_silent",
    "daemon_behind",
    "science_parked",
    "message_parked",
    "unknown_science",
    "command_apps_off",
    "refused_by_all",
    "hard_to_send",
    "version_rolled_back",
    "queue_stands_still",
    "outage",
    "batch_expires",
    "invariants_violated",
    "credit_differs",
)
_MAX_NAMES = 5


@dataclass(frozen=True, slots=True)
class Alert:
    """A problem that an operator should correct.

    `kind` identifies the problem for programs.  `sentence` and `hint` are texts for people.
    `subject` distinguishes alerts of one kind: it is a daemon, a queue, a stage or an app's error,
    and it does not change while the alert lasts.
    """

    kind: str
    sentence: str
    hint: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} Hint: {self.hint}"


@dataclass(frozen=True, slots=True)
class LastCheck:
    """The end of the newest run of a check, and the number of violations that are known then."""

    ended_at: datetime
    unresolved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts from which alerts are derived.

    `lives` maps each daemon to the time of its last heartbeat, or to None if it never sent one.
    `oldest` maps a daemon to the time since which its oldest work is due, or to None.  `parked`
    maps stages of science code to numbers of parked subjects.  `hosts_about` is the number of
    active hosts, counted up to one more than the most hosts that refused one workunit.
    `refused_by_all` is the number of unsent workunits that were refused to every active host.
    `hard_to_send` is the number of unsent workunits with at least half of the refusals that make
    a workunit unsendable; both count workunits of the newest 10,000 refusals.
    `unknown_science` has a sentence for each app with unknown science code or invalid options.
    `waiting_queues` are the queues with unsent results.
    `expiring_batches` are the names of open batches that expire within `REMIND_BEFORE`.
    `rolled_back` are names of app versions that were rolled back automatically, with the reasons.
    `checks` maps checks ("fsck", "credit") to their newest ended runs.
    """

    lives: Mapping[str, datetime | None] = field(default_factory=dict)
    daemons_paused: bool = False
    maintenance: str = ""
    oldest: Mapping[str, datetime | None] = field(default_factory=dict)
    hard_to_send: int = 0
    hosts_about: int = 0
    refused_by_all: int = 0
    parked: Mapping[str, int] = field(default_factory=dict)
    unknown_science: tuple[str, ...] = ()
    unserved_command_apps: tuple[str, ...] = ()
    expiring_batches: tuple[str, ...] = ()
    waiting_queues: tuple[WaitingQueue, ...] = ()
    rolled_back: tuple[tuple[str, str], ...] = ()
    checks: Mapping[str, LastCheck] = field(default_factory=dict)
    open_outages: int = 0
    web_seen_at: datetime | None = None
    uploads_stopped: bool = False
    parked_messages: int = 0
    disk_is_full: bool = False
    disk_is_nearly_full: bool = False


def judge(facts: Facts, *, now: datetime) -> tuple[Alert, ...]:
    """Return all alerts, most serious first."""
    return (
        *_disk(facts),
        *_maintenance(facts),
        *_silent(facts, now),
        *_web(facts, now),
        *_late(facts, now),
        *_science(facts),
        *_checks(facts, now),
        *_rolled_back(facts),
        *_refusals(facts),
        *_queues(facts, now),
        *_deadlines(facts),
        *_messages(facts),
    )


def _disk(facts: Facts) -> Iterator[Alert]:
    if facts.disk_is_full:
        yield Alert(
            "disk_full",
            "The disk of var is full: uploads are refused for now.",
            "free disk space; until then clients keep their files and retry.",
        )
    elif facts.disk_is_nearly_full:
        yield Alert(
            "disk_nearly_full",
            "The disk of var is nearly full.",
            "free disk space, or lower PURGE_AFTER; uploads are refused when the disk is full.",
        )


def _maintenance(facts: Facts) -> Iterator[Alert]:
    if facts.maintenance:
        yield Alert(
            "maintenance",
            facts.maintenance,
            "end the maintenance with `manage.py maintenance off`.",
        )
    elif facts.uploads_stopped:
        yield Alert(
            "uploads_stopped",
            "Uploads are refused because of the file var/stop_upload.",
            "remove this file to accept uploads again.",
        )


def _silent(facts: Facts, now: datetime) -> Iterator[Alert]:
    if facts.daemons_paused:
        return
    never = sorted(name for name, seen_at in facts.lives.items() if seen_at is None)
    if never and len(never) == len(facts.lives):
        yield Alert(
            "daemon_silent",
            "No daemon has ever run here.",
            "start the daemons with `manage.py daemons`.",
        )
        return
    for name in never:
        yield Alert(
            "daemon_silent",
            f"The {name} has never run here.",
            f"start `manage.py {name}`.",
            name,
        )
    for name, seen_at in facts.lives.items():
        if seen_at is not None and now - seen_at > SILENT_AFTER:
            yield Alert(
                "daemon_silent",
                f"The {name} has sent no heartbeat for {duration(now - seen_at)}.",
                "check whether the daemon runs, and read its log.",
                name,
            )


def _web(facts: Facts, now: datetime) -> Iterator[Alert]:
    if facts.web_seen_at is not None and now - facts.web_seen_at > WEB_SILENT_AFTER:
        yield Alert(
            "web_silent",
            f"No web process has sent a heartbeat for {duration(now - facts.web_seen_at)}.",
            "start the web server; deadlines are then moved by the length of the outage.",
        )


def _late(facts: Facts, now: datetime) -> Iterator[Alert]:
    if facts.daemons_paused:
        return
    for name, since in facts.oldest.items():
        if since is not None and now - since > LATE_AFTER:
            yield Alert(
                "daemon_behind",
                f"The {name} is {duration(now - since)} behind.",
                "check the duration of the passes in the log; a second process may help.",
                name,
            )


def _science(facts: Facts) -> Iterator[Alert]:
    for stage, count in facts.parked.items():
        if count:
            yield Alert(
                "science_parked",
                f"{counted(count, 'subject')} of stage {stage} {'is' if count == 1 else 'are'} "
                f"parked: science code failed on {'it' if count == 1 else 'them'} too often.",
                "`manage.py parked` shows the errors and can retry them.",
                stage,
            )
    for sentence in facts.unknown_science:
        problem, _, hint = sentence.partition(" Hint: ")
        yield Alert("unknown_science", problem, hint or "correct it in the admin.", problem)
    if names := facts.unserved_command_apps:
        yield Alert(
            "command_apps_off",
            f"No work is sent for apps of kind command: {_listed(names)}.",
            "replace these apps by script apps, or set COMMAND_APPS=true if every host is trusted; "
            "deprecate the apps to clear this alert.",
        )


def _checks(facts: Facts, now: datetime) -> Iterator[Alert]:
    fsck, credit = facts.checks.get("fsck"), facts.checks.get("credit")
    if fsck is not None and fsck.unresolved:
        yield Alert(
            "invariants_violated",
            f"{counted(fsck.unresolved, 'violation')} of invariants "
            f"{'is' if fsck.unresolved == 1 else 'are'} known; the last check ended "
            f"{duration(now - fsck.ended_at)} ago.",
            "the page Upkeep of the admin names the rows; after the repair, check again there or "
            "with `manage.py fsck`.",
        )
    if credit is not None and credit.unresolved:
        yield Alert(
            "credit_differs",
            f"{counted(credit.unresolved, 'sum')} of credit "
            f"{'differs' if credit.unresolved == 1 else 'differ'} from the entries; the last "
            f"comparison ended {duration(now - credit.ended_at)} ago.",
            "the page Upkeep of the admin shows the sums; `manage.py recompute_credit --apply` "
            "corrects them.",
        )


def _refusals(facts: Facts) -> Iterator[Alert]:
    if count := facts.refused_by_all:
        hosts = (
            "the only host" if facts.hosts_about == 1 else f"each of the {facts.hosts_about} hosts"
        )
        yield Alert(
            "refused_by_all",
            f"{counted(count, 'workunit')} {'was' if count == 1 else 'were'} refused to {hosts} "
            f"that requested work in the last {SEEN_WITHIN.days} days.",
            "`manage.py explain NAME` shows why; the list is in the admin under refusals.",
        )
    if count := facts.hard_to_send:
        yield Alert(
            "hard_to_send",
            f"{counted(count, 'unsent workunit')} {'has' if count == 1 else 'have'} at least half "
            "of the refusals that make a workunit unsendable.",
            "`manage.py explain NAME` shows why; the list is in the admin under refusals.",
        )


def _rolled_back(facts: Facts) -> Iterator[Alert]:
    for name, reason in facts.rolled_back:
        yield Alert(
            "version_rolled_back",
            f"App version {name} was rolled back: {reason}.",
            "deprecate the version, and publish a corrected one; or change its roll-out in the "
            "admin, which sends it again.",
            name,
        )


def _queues(facts: Facts, now: datetime) -> Iterator[Alert]:
    reasons = [(queue.name, serving.why_still(queue, now=now)) for queue in facts.waiting_queues]
    standing = [(name, reason) for name, reason in reasons if reason is not None]
    for name, (why, hint) in standing[:_MAX_NAMES]:
        sentence = f"Queue {name} has work but sends none: {why}."
        yield Alert("queue_stands_still", sentence, hint, name)
    if (more := len(standing) - _MAX_NAMES) > 0:
        yield Alert(
            "queue_stands_still",
            f"{counted(more, 'further queue')} with work {'sends' if more == 1 else 'send'} none.",
            "scientist queue list shows the queues.",
            "further queues",
        )


def _deadlines(facts: Facts) -> Iterator[Alert]:
    if facts.open_outages:
        yield Alert(
            "outage",
            f"{counted(facts.open_outages, 'outage')} {'is' if facts.open_outages == 1 else 'are'} "
            "not applied yet: deadlines are still to be moved.",
            "the timeout_checker moves the deadlines; check whether this daemon runs.",
        )
    if names := facts.expiring_batches:
        yield Alert(
            "batch_expires",
            f"{'A batch expires' if len(names) == 1 else f'{len(names)} batches expire'} within "
            f"{duration(REMIND_BEFORE)}: {_listed(names)}.",
            "if the open work is needed, postpone the expiry with "
            "`manage.py batch expire NAME --in 7d`.",
        )


def _messages(facts: Facts) -> Iterator[Alert]:
    if count := facts.parked_messages:
        yield Alert(
            "message_parked",
            f"{counted(count, 'message')} of the outbox could not be delivered.",
            "the list in the admin under outbox shows the errors, and can retry or drop messages; "
            "`manage.py doctor` checks the mail server.",
        )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (" and more" if len(names) > _MAX_NAMES else "")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def duration(length: timedelta) -> str:
    """Return a length of time as text in its largest unit.

    >>> duration(timedelta(minutes=90))
    '1 h'
    """
    seconds = int(length.total_seconds())
    for unit, unit_seconds in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= unit_seconds:
            return f"{seconds // unit_seconds} {unit}"
    return f"{seconds} s"
