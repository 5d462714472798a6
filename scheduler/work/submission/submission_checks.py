"""Checks workunits before they are written, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from difflib import get_close_matches
from operator import attrgetter
from typing import Any

from django.conf import settings

from scheduler.dispatch.rules import launching
from scheduler.dispatch.rules.launching import COMMAND, COMMANDS_ARE_OFF
from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.models import Account, App
from scheduler.queues.rules.accepted_work import Admission
from scheduler.rights import Right
from scheduler.sql import fetch, fetch_into, fetch_one
from scheduler.work.submission.facts import (
    Addressees,
    AppRules,
    NewBatch,
    NewWorkunit,
    QueueTarget,
)
from scheduler.work.submission.rules import aiming, bundling, new_workunits, queueing

#: Maximum number of app names that a message lists.
_MAX_SHOWN_APPS = 10
#: Number of the newest hosts from which the project's speed is estimated; bounds the cost.
_SAMPLE_HOSTS = 1000
#: Maximum number of hosts read for warnings (3 ms). Submissions to larger projects get no warnings,
#: since some host probably meets any requirement.
_MAX_HOSTS_READ = 10_000
#: Kinds of targets to which a workunit can be restricted, each with the workunit's field.
_ADDRESSEES = {kind: attrgetter(f"target_{kind}") for kind in ("host", "account", "team")}
#: The columns of an app that constrain its workunits.
_RULES = tuple(field.name for field in fields(AppRules) if field.name != "name")

Faults = dict[int, tuple[new_workunits.Fault, ...]]


class SubmissionRefused(ValueError):
    """The whole submission was refused. Hint: see the message."""


class QueueChanged(SubmissionRefused):
    """A queue accepts less than when the workunits were checked.  Hint: submit again."""


class UnknownApp(SubmissionRefused):
    """The app does not exist or accepts no work. Hint: see the message."""


@dataclass(frozen=True, slots=True)
class Target:
    """The app of a submission.

    `versions` are the numbers of the app's versions, and `speed` is the estimated speed of the
    project's hosts.  `defaults` apply to fields that a workunit does not set.
    """

    id: int
    rules: AppRules
    versions: tuple[int, ...]
    speed: new_workunits.Speed
    defaults: dict[str, Any]

    @property
    def name(self) -> str:
        return self.rules.name


def find_target(name: str) -> Target:
    """Read an app by its name, with one statement; raises `UnknownApp`."""
    row = fetch_one("work/submission/read_submission_target", {"app": name, "hosts": _SAMPLE_HOSTS})
    if row is None:
        raise UnknownApp(_no_such_app(name))
    if row["deprecated"]:
        msg = f"App {name} is deprecated and takes no more work. Hint: submit to its successor."
        raise UnknownApp(msg)
    if row["kind"] == COMMAND and not settings.PROJECT.command_apps:
        raise UnknownApp(f"App {name} accepts no work: {COMMANDS_ARE_OFF}")
    speed = new_workunits.Speed(row["fpops"] or new_workunits.TYPICAL_FPOPS, row["hosts"])
    rules = AppRules(name=name, **{field: row[field] for field in _RULES})
    return Target(row["id"], rules, tuple(row["versions"]), speed, row["workunit_defaults"])


def _no_such_app(name: str) -> str:
    names = sorted(App.objects.values_list("name", flat=True))
    near = get_close_matches(name, names, n=1)
    if near:
        return f"There is no app {name!r}. Hint: did you mean {near[0]!r}?"
    if names:
        return f"There is no app {name!r}. Hint: the apps are {', '.join(names[:_MAX_SHOWN_APPS])}."
    return f"There is no app {name!r}: the project has none. Hint: publish one with `publish_app`."


class WorkunitChecks:
    """Checks the workunits of one submission chunk by chunk, and collects warnings about them.

    `queues` are the queues that the workunits name, by name.
    """

    def __init__(
        self,
        target: Target,
        submitter: Account | None,
        *,
        batch: NewBatch | int | str | None = None,
        now: datetime,
    ) -> None:
        self._target, self._submitter, self._now = target, submitter, now
        self.survey = new_workunits.Survey(target.speed)
        self.queues: dict[str, QueueTarget] = {}
        self._read: set[str] = set()
        self._aimed: dict[str, None] = {}
        self._has_priority = isinstance(batch, NewBatch) and batch.priority is not None
        self._has_batch = batch is not None

    def faults(self, workunits: Sequence[NewWorkunit]) -> Faults:
        """Return all faults of a chunk by the indexes of the workunits.

        Runs a statement only if a workunit targets a host, an account or a team.
        """
        shapes = new_workunits.Shapes.of(workunits)
        firsts = shapes.firsts
        addressees = addressees_of(firsts)
        own = new_workunits.faults(
            workunits,
            shapes=shapes,
            max_output_bytes=settings.PROJECT.max_output_bytes,
            now=self._now,
        )
        if self._target.rules.kind != "native":
            own = _with_refused_names(own, workunits)
        self._read_queues(firsts)
        app = self._target.rules
        queued = shapes.spread(queueing.faults(firsts, app=app.name, queues=self.queues))
        aimed = shapes.spread(aiming.faults(firsts, app=app, addressees=addressees))
        self.survey.add(shapes)
        self._aimed |= dict.fromkeys(aiming.warnings(firsts, app=app, addressees=addressees))
        self._has_priority = self._has_priority or any(w.priority is not None for w in firsts)
        listed = bundling.faults(workunits, app=app, has_batch=self._has_batch)
        if not (aimed or queued or listed):
            return own
        return {
            index: own.get(index, ())
            + aimed.get(index, ())
            + queued.get(index, ())
            + listed.get(index, ())
            for index in sorted(own.keys() | aimed.keys() | queued.keys() | listed.keys())
        }

    def _read_queues(self, workunits: Sequence[NewWorkunit]) -> None:
        """Read the queues that were not named before; runs no statement without such queues."""
        named = {workunit.queue for workunit in workunits if workunit.queue is not None}
        if names := sorted(name for name in named - self._read if "\0" not in name):
            self._read |= named
            rows = fetch_into(QueueTarget, "work/submission/read_queues_by_name", {"names": names})
            self.queues |= {queue.name: queue for queue in rows}

    def draw_ids(self, count: int) -> list[int]:
        """Draw ids for checked workunits, and lock their queues, in the caller's transaction.

        Until it ends, the queues accept the workunits (`queues.admission`).  Raises `QueueChanged`.
        """
        params = {"count": count, "queue_ids": [queue.id for queue in self.queues.values()]}
        drawn = fetch_one("work/submission/draw_workunit_ids", params) or {}
        stored = {row["id"]: row for row in drawn["queues"] or ()}
        for queue in self.queues.values():
            row = stored.get(queue.id)
            admission = row and Admission(row["app_id"], row["trusted"])
            # Workunits with an infinite deadline were accepted if the queue was trusted.
            if (
                admission is None
                or not admission.accepts_app(self._target.id)
                or admission.trusted < queue.trusted
            ):
                raise QueueChanged(
                    f"Queue {queue.name} was changed during the submission. Hint: submit again; "
                    "the answer describes what the queue does not accept any more."
                )
        return list(drawn["ids"])

    def warnings(self) -> tuple[str, ...]:
        """Return warnings about settings in all chunks that are probably mistakes."""
        return (
            *self.survey.warnings(app=self._target.name, versions=self._target.versions),
            *self._aimed,
            *self._priorities_ignored(),
            *self._unfit(),
        )

    def _unfit(self) -> Iterator[str]:
        """Yield warnings about requirements that no active host meets.

        Yields nothing if the project has more than `_MAX_HOSTS_READ` active hosts.
        """
        if not self.survey.is_demanding:
            return
        params = {"seen_since": self._now - SEEN_WITHIN, "limit": _MAX_HOSTS_READ + 1}
        row = fetch_one("work/submission/read_hosts_about", params)
        if row is not None and row["hosts"] <= _MAX_HOSTS_READ:
            about = new_workunits.HostsAbout(**row)
            yield from self.survey.unfit(about, one_result_per=self._target.rules.one_result_per)

    def _priorities_ignored(self) -> Iterator[str]:
        if self._has_priority and not may_set_priority(self._submitter):
            yield (
                "The project uses fair share: priorities follow the submitter's share, and the "
                "requested priorities are ignored."
            )


def _with_refused_names(faults: Faults, workunits: Sequence[NewWorkunit]) -> Faults:
    """Return the faults, and faults for file names that the app's launcher would refuse.

    Only workunits without other faults are checked.
    """
    all_faults = dict(faults)
    for index, workunit in enumerate(workunits):
        if index in faults:
            continue
        names = [file.open_name for file in workunit.input_files]
        names += [output.open_name for output in workunit.outputs]
        if refused := launching.refused_names(names):
            all_faults[index] = tuple(
                new_workunits.Fault(
                    f"{name[:60]!r} cannot be the name of an input or output of this app.",
                    "do not begin it with boinc_ or _launcher, nor use init_data.xml or program; "
                    "upper and lower case are not distinguished.",
                )
                for name in refused
            )
    return all_faults


def may_set_priority(submitter: Account | None) -> bool:
    """Return whether the priorities that a submitter requests are honored.

    With fair share, they are honored only for accounts with the right `EXCEED_SUBMISSION_LIMITS`,
    and for work without a submitter.
    """
    return (
        submitter is None
        or not settings.PROJECT.fair_share
        or submitter.has_right(Right.EXCEED_SUBMISSION_LIMITS)
    )


def addressees_of(workunits: Sequence[NewWorkunit]) -> Addressees:
    """Read the targets of workunits; runs no statement if no workunit has a target."""
    params = {
        f"{kind}s": sorted({id_ for id_ in map(target_of, workunits) if id_ is not None})
        for kind, target_of in _ADDRESSEES.items()
    }
    if not any(params.values()):
        return Addressees()
    rows = fetch("work/submission/read_addressees", params)
    ids = {kind: {r["id"] for r in rows if r["kind"] == kind} for kind in _ADDRESSEES}
    merged = {r["id"]: r["merged_into_id"] for r in rows if r["merged_into_id"] is not None}
    return Addressees(
        hosts=frozenset(ids["host"] - merged.keys()),
        merged_hosts=merged,
        denied_hosts=frozenset(r["id"] for r in rows if r["denied"]),
        accounts=frozenset(ids["account"]),
        teams=frozenset(ids["team"]),
    )
