"""Judge workunits before they are written, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any

from django.conf import settings

from scheduler.dispatch.rules import launching
from scheduler.dispatch.rules.launching import COMMAND, COMMANDS_ARE_OFF
from scheduler.dispatch.rules.sendability import SEEN_WITHIN
from scheduler.models import Account, App
from scheduler.rights import Right
from scheduler.sql import fetch, fetch_one
from scheduler.work.submission.facts import Addressees, AppRules, NewBatch, NewWorkunit
from scheduler.work.submission.rules import aiming, new_workunits

#: How many names a message shows.
_SHOWN = 10
#: How many hosts, the newest, speak for the project's speed: a sample, for the cost not to grow.
_HOSTS_ASKED = 1000
#: Hosts that are read for warnings: 3 ms. Among more, some have more than any submission wants.
_MAX_HOSTS_READ = 10_000
#: For whom alone work may be.
_ADDRESSEES = ("host", "account", "team")

Faults = dict[int, tuple[new_workunits.Fault, ...]]


class SubmissionRefused(ValueError):
    """Nothing was submitted. Hint: each kind of refusal says what to change."""


class UnknownApp(SubmissionRefused):
    """There is no such app, or it takes no work any more. Hint: the message names a near miss."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of the app when work for it arrives; `defaults` hold below all others."""

    id: int
    rules: AppRules
    versions: tuple[int, ...]
    speed: new_workunits.Speed
    defaults: dict[str, Any]

    @property
    def name(self) -> str:
        """The app's name."""
        return self.rules.name


def find_target(name: str) -> Target:
    """Look an app up, by one statement; raises `UnknownApp`."""
    row = fetch_one("work/submission/read_submission_target", {"app": name, "hosts": _HOSTS_ASKED})
    if row is None:
        raise UnknownApp(_no_such_app(name))
    if row["deprecated"]:
        msg = f"App {name} is deprecated and takes no more work. Hint: submit to its successor."
        raise UnknownApp(msg)
    if row["kind"] == COMMAND and not settings.PROJECT.command_apps:
        raise UnknownApp(f"App {name} accepts no work: {COMMANDS_ARE_OFF}")
    speed = new_workunits.Speed(row["fpops"] or new_workunits.TYPICAL_FPOPS, row["hosts"])
    rules = AppRules(
        name=name,
        kind=row["kind"],
        validator=row["validator"],
        one_result_per=row["one_result_per"],
        target_nresults=row["target_nresults"],
        n_size_classes=row["n_size_classes"],
    )
    return Target(row["id"], rules, tuple(row["versions"]), speed, row["workunit_defaults"])


def _no_such_app(name: str) -> str:
    known = sorted(App.objects.values_list("name", flat=True))
    near = get_close_matches(name, known, n=1)
    if near:
        return f"There is no app {name!r}. Hint: did you mean {near[0]!r}?"
    if known:
        return f"There is no app {name!r}. Hint: the apps are {', '.join(known[:_SHOWN])}."
    return f"There is no app {name!r}, nor any other. Hint: publish one with `publish_app`."


class Judge:
    """Judges the workunits of one submission in chunks; keeps nothing of them but counts."""

    def __init__(
        self,
        target: Target,
        submitter: Account | None,
        *,
        batch: NewBatch | int | str | None = None,
        now: datetime,
    ) -> None:
        """Judge for an app and whoever submits, into this batch, at this moment."""
        self._target, self._submitter, self._now = target, submitter, now
        self._survey = new_workunits.Survey(target.speed)
        self._aimed: dict[str, None] = {}
        self._wishes = isinstance(batch, NewBatch) and batch.priority is not None

    def faults(self, workunits: Sequence[NewWorkunit]) -> Faults:
        """Everything that is wrong with a chunk, by index; no statement if it is for everybody."""
        known = _addressees(workunits)
        own = new_workunits.faults(
            workunits, max_output_bytes=settings.PROJECT.max_output_bytes, now=self._now
        )
        if self._target.rules.kind != "native":
            own = _with_refused_names(own, workunits)
        aimed = aiming.faults(workunits, app=self._target.rules, known=known)
        self._survey.add(workunits)
        said = aiming.warnings(workunits, app=self._target.rules, known=known)
        self._aimed |= dict.fromkeys(said)
        self._wishes = self._wishes or any(w.priority is not None for w in workunits)
        if not aimed:
            return own
        indexes = sorted(own.keys() | aimed.keys())
        return {index: own.get(index, ()) + aimed.get(index, ()) for index in indexes}

    def add_inputs(self, nbytes: int) -> None:
        """Take into account that a workunit has inputs of so many bytes."""
        self._survey.add_inputs(nbytes)

    def warnings(self) -> tuple[str, ...]:
        """What is allowed and probably not meant, of all chunks."""
        return (
            *self._survey.warnings(app=self._target.name, versions=self._target.versions),
            *self._aimed,
            *self._wishes_not_followed(),
            *self._unfit(),
        )

    def _unfit(self) -> Iterator[str]:
        """Say what no host has; of a project with very many hosts nothing is said."""
        if not self._survey.is_demanding:
            return
        params = {"seen_since": self._now - SEEN_WITHIN, "limit": _MAX_HOSTS_READ + 1}
        row = fetch_one("work/submission/read_hosts_about", params)
        if row is not None and row["hosts"] <= _MAX_HOSTS_READ:
            about = new_workunits.HostsAbout(**row)
            yield from self._survey.unfit(about, one_result_per=self._target.rules.one_result_per)

    def _wishes_not_followed(self) -> Iterator[str]:
        if self._wishes and not may_wish(self._submitter):
            share = "priorities follow the submitter's share, not his wish"
            yield f"The project shares fairly: {share}."


def _with_refused_names(faults: Faults, workunits: Sequence[NewWorkunit]) -> Faults:
    """Add faults for names that the launcher of these workunits would refuse on the host."""
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


def may_wish(submitter: Account | None) -> bool:
    """Whether explicit priorities are followed: a fair share is no wish of its submitter's."""
    return (
        submitter is None
        or not settings.PROJECT.fair_share
        or submitter.has_right(Right.EXCEED_SUBMISSION_LIMITS)
    )


def _addressees(workunits: Sequence[NewWorkunit]) -> Addressees:
    """Look up whom work is for; no statement if it is for everybody."""
    hosts = {w.target_host for w in workunits if w.target_host is not None}
    accounts = {w.target_account for w in workunits if w.target_account is not None}
    teams = {w.target_team for w in workunits if w.target_team is not None}
    if not (hosts or accounts or teams):
        return Addressees()
    params = {"hosts": sorted(hosts), "accounts": sorted(accounts), "teams": sorted(teams)}
    rows = fetch("work/submission/read_addressees", params)
    found = {kind: {r["id"] for r in rows if r["kind"] == kind} for kind in _ADDRESSEES}
    merged = {r["id"]: r["merged_into_id"] for r in rows if r["merged_into_id"] is not None}
    return Addressees(
        hosts=frozenset(found["host"] - merged.keys()),
        merged_hosts=merged,
        denied_hosts=frozenset(r["id"] for r in rows if r["denied"]),
        accounts=frozenset(found["account"]),
        teams=frozenset(found["team"]),
    )
