"""Stores and removes plan classes, and tests them on hosts.

Theory of operation.  A spec is validated by `dispatch.rules.plan_class_specs` before it is stored,
and every problem is reported with its line.  Dispatch reads the stored spec together with the app
versions that name the plan class, so a change applies from the next request on.  A plan class that
app versions name cannot be removed, because no host would get these versions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from scheduler.dispatch.rules import plan_classes
from scheduler.dispatch.rules.plan_classes import BadPlanClass
from scheduler.hosts.machines import Gpu, Machine, Usage
from scheduler.models import AppVersion, Host, PlanClass
from scheduler.people import audit

#: Hosts without contact for this time are not tested.
_RECENT = timedelta(days=30)


class BadSpec(ValueError):
    """The text is not a valid spec. Hint: correct the lines in the message."""


class UnknownPlanClass(LookupError):
    """There is no plan class of this name. Hint: run `manage.py plan_class list`."""


class UnknownHost(LookupError):
    """There is no host of this id. Hint: the admin lists all hosts."""


class PlanClassInUse(ValueError):
    """App versions name the plan class, so it cannot be removed. Hint: change its spec instead."""


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of `write`; `versions` are the app versions that name the plan class."""

    plan: plan_classes.PlanClass
    created: bool
    changed: bool
    versions: tuple[str, ...]


@dataclass(slots=True)
class Trial:
    """The outcome of a test of a plan class on hosts.

    By host id, `fit` contains the resource usage, and `unfit` the reason why the host is excluded.
    """

    fit: dict[int, Usage] = field(default_factory=dict)
    unfit: dict[int, str] = field(default_factory=dict)

    @property
    def reasons(self) -> list[tuple[str, int]]:
        """Pairs of a reason and the number of hosts excluded for it, the largest number first."""
        return Counter(self.unfit.values()).most_common()


def judge(name: str, text: str, *, source: str) -> tuple[plan_classes.PlanClass, dict[str, Any]]:
    """Parse and validate a spec; return its plan class and the parsed JSON object.

    Raises `BadSpec` with one line ``source:line: text`` for each problem.
    """
    spec = _read(text, source)
    try:
        return plan_classes.parse(name, spec), spec
    except BadPlanClass as error:
        lines = [(_line_of(key, text), sentence) for key, sentence in error.problems]
        raise BadSpec("\n".join(f"{source}:{at}: {text}" for at, text in sorted(lines))) from error


def write(name: str, text: str, *, source: str, now: datetime, dry_run: bool = False) -> Written:
    """Validate a spec and store it under the name; raises `BadSpec`."""
    plan, spec = judge(name, text, source=source)
    with transaction.atomic():
        stored = PlanClass.objects.select_for_update().filter(name=name).first()
        changed = stored is None or stored.spec != spec
        if changed and not dry_run:
            details = {"added": True} if stored is None else {"changed": ["spec"]}
            _record(name, details, now=now)
            PlanClass.objects.update_or_create(
                name=name,
                defaults={"spec": spec},
                create_defaults={"spec": spec, "created_at": now},
            )
    return Written(plan, stored is None, changed, users_of(name))


def remove(name: str, *, now: datetime, dry_run: bool = False) -> None:
    """Remove a plan class; raises `UnknownPlanClass` and `PlanClassInUse`."""
    with transaction.atomic():
        row = find(name, lock=True)
        if users := users_of(name):
            shown = ", ".join(users[:3]) + ", ..." * (len(users) > 3)  # noqa: PLR2004  enough
            raise PlanClassInUse(
                f"{name} is named by {len(users)} app version{'s' * (len(users) != 1)} ({shown}). "
                "Hint: deprecated versions count too; change the spec by `plan_class set`."
            )
        if not dry_run:
            row.delete()
            _record(name, {"deleted": True}, now=now)


def _record(name: str, details: Mapping[str, Any], *, now: datetime) -> None:
    subject = f"plan class {name}"
    audit.record(audit.Event.PLAN_CLASS_CHANGED, now=now, subject=subject, details=details)


def find(name: str, *, lock: bool = False) -> PlanClass:
    """Return the stored plan class; raises `UnknownPlanClass`."""
    rows = PlanClass.objects.select_for_update() if lock else PlanClass.objects.all()
    row = rows.filter(name=name).first()
    if row is None:
        names = ", ".join(PlanClass.objects.order_by("name").values_list("name", flat=True)[:10])
        hint = f"there are {names}." if names else "create the first by `manage.py plan_class set`."
        raise UnknownPlanClass(f"There is no plan class {name}. Hint: {hint}")
    return row


def users_of(name: str) -> tuple[str, ...]:
    """Return the display names of the app versions that name a plan class."""
    rows = AppVersion.objects.filter(plan_class=name).select_related("app", "platform")
    return tuple(str(version) for version in rows.order_by("app__name", "platform__name", "pk"))


def listing() -> list[tuple[str, Mapping[str, Any] | None, int]]:
    """Return the name, the spec and the number of app versions of each plan class.

    The spec is None for a name that app versions use but that is not defined.
    """
    used = Counter(AppVersion.objects.exclude(plan_class="").values_list("plan_class", flat=True))
    written: dict[str, Mapping[str, Any]] = dict(PlanClass.objects.values_list("name", "spec"))
    return [(name, written.get(name), used[name]) for name in sorted(used.keys() | written.keys())]


def try_on_hosts(
    plan: plan_classes.PlanClass, *, host_id: int | None = None, now: datetime
) -> Trial:
    """Test a plan class on one host, or on all hosts with contact in the last 30 days.

    A host is tested with its whole memory and all CPUs, because the server receives the limits of
    the host's preferences only in work requests.  Raises `UnknownHost`.
    """
    condition = Q(pk=host_id) if host_id else Q(rpc_at__gte=now - _RECENT, merged_into=None)
    trial = Trial()
    for host in Host.objects.filter(condition).order_by("pk").iterator():
        outcome = plan_classes.usage(plan, machine_of(host))
        if isinstance(outcome, Usage):
            trial.fit[host.pk] = outcome
        else:
            trial.unfit[host.pk] = outcome
    if host_id and not trial.fit and not trial.unfit:
        raise UnknownHost(f"There is no host {host_id}. Hint: the admin lists all hosts.")
    return trial


def machine_of(host: Host) -> Machine:
    """Return the `Machine` of a host, from its stored description."""
    parts = host.capabilities
    return Machine(
        ncpus=host.p_ncpus,
        fpops=host.p_fpops,
        memory_bytes=host.m_nbytes,
        p_vendor=host.p_vendor,
        p_model=host.p_model,
        p_features=frozenset(host.p_features.lower().split()),
        os_name=host.os_name,
        os_version=host.os_version,
        client_version=host.client_version,
        virtualbox_version=parts.get("virtualbox", ""),
        vm_extensions=bool(parts.get("vm_extensions", False)),
        docker_version=parts.get("docker", ""),
        wsl=bool(parts.get("wsl", False)),
        gpus=tuple(Gpu.from_json(each) for each in parts.get("gpus", ())),
    )


def _read(text: str, source: str) -> dict[str, Any]:
    """Parse a text as a JSON object; raises `BadSpec` with the line."""
    repeated_keys: list[str] = []

    def gather(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        names = Counter(name for name, _value in pairs)
        repeated_keys.extend(name for name, count in names.items() if count > 1)
        return dict(pairs)

    try:
        spec = json.loads(text, object_pairs_hook=gather)
    except json.JSONDecodeError as error:
        raise BadSpec(
            f"{source}:{error.lineno}: not JSON: {error.msg}. Hint: put names and texts in quotes."
        ) from error
    if not isinstance(spec, dict):
        msg = f'{source}:1: a plan class is one JSON object. Hint: write {{"max_threads": 8}}.'
        raise BadSpec(msg)
    if repeated_keys:
        lines = [f"{source}:{_line_of(key, text)}: {key} is repeated." for key in repeated_keys]
        raise BadSpec("\n".join([*lines, "Hint: remove all but one."]))
    return spec


def _line_of(key: str, text: str) -> int:
    """Return the number of the last line with a key, or 1 if the key is empty or missing."""
    places = [match.start() for match in re.finditer(rf"{re.escape(json.dumps(key))}\s*:", text)]
    return text.count("\n", 0, places[-1]) + 1 if key and places else 1
