"""Creates and changes apps."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from scheduler.apps import app_versions
from scheduler.apps.rules.packaging import BadPackage
from scheduler.dispatch.rules.launching import COMMANDS_ARE_OFF
from scheduler.health import alerts
from scheduler.models import App
from scheduler.models.science import AppKind, SuccessRule
from scheduler.people import audit
from scheduler.people.audit import Event
from scheduler.work.submission.rules.work_from_dicts import BadDescription, new_workunit

#: Columns that callers cannot set, because the server maintains them.
_RESERVED = frozenset({"id", "created_at", "total_credit", "min_avg_pfc", "generator_state"})
_SET = frozenset(field.name for field in App._meta.get_fields() if field.concrete) - _RESERVED
#: Checks of an app's columns that `scheduler.app_config` adds from other packages.  Each check
#: takes the app and the names of the changed columns, and yields pairs of a column and an error
#: message.
field_checks: list[Callable[[App, Container[str]], Iterator[tuple[str, str]]]] = []


class AppExists(ValueError):
    """An app of this name exists. Hint: publish versions of it, or choose another name."""


class BadApp(ValueError):
    """A field of an app is not valid; `faults` has the error messages by field."""

    def __init__(self, faults: dict[str, list[str]]) -> None:
        self.faults = faults
        text = "; ".join(f"{name}: {' '.join(each)}" for name, each in faults.items())
        super().__init__(f"The app is not valid: {text} Hint: correct these fields.")


def create(
    *,
    name: str,
    kind: str = AppKind.NATIVE,
    success_rule: str = SuccessRule.EXIT_CODE,
    now: datetime,
    **facts: Any,
) -> App:
    """Create an app; `facts` are the values of further columns.

    Workunits of scripts, commands and containers have one output, `out`, by default.  Raises
    `AppExists`, `BadApp`, and `app_versions.UnknownApp` for a name that is not valid.
    """
    app_versions.check_app_name(name)
    if kind in AppKind.values and kind != AppKind.NATIVE:
        # By default the launcher writes the program's standard output to `out`.
        facts["workunit_defaults"] = {"outputs": ["out"], **(facts.get("workunit_defaults") or {})}
    app = App(name=name, kind=kind, success_rule=success_rule, created_at=now)
    if not facts.get("user_friendly_name"):
        facts["user_friendly_name"] = name
    _set(app, facts, is_new_kind=True)
    try:
        with transaction.atomic():
            app.save(force_insert=True)
            audit.record(
                Event.APP_CREATED, now=now, subject=f"app {name}", details=audit_details(app, facts)
            )
    except IntegrityError as error:
        raise AppExists(
            f"There is an app {name!r} already. "
            "Hint: publish versions of it, or choose another name."
        ) from error
    return app


def change(app: App, *, now: datetime, **facts: Any) -> App:
    """Change columns of an app; raises `BadApp` if a value is not valid.

    The kind of an app that has versions cannot be changed.  A new success rule applies to
    results that are sent after the change.
    """
    kind = facts.get("kind", app.kind)
    if kind != app.kind and app.versions.exists():
        fault = f"it is {app.kind}, and has versions. Hint: create another app."
        raise BadApp({"kind": [fault]})
    _set(app, facts, is_new_kind=kind != app.kind)
    with transaction.atomic():
        app.save(update_fields=list(facts))
        audit.record(
            Event.APP_CHANGED, now=now, subject=f"app {app}", details=audit_details(app, facts)
        )
    return app


#: The columns whose values the audit log records: they decide which code runs, or the credit.
_AUDITED_VALUES = frozenset(
    {
        "assimilator",
        "credit_per_workunit",
        "credit_rule",
        "deprecated",
        "generator",
        "kind",
        "success_rule",
        "validator",
        "weight",
    }
)


def audit_details(app: App, names: Iterable[str]) -> dict[str, Any]:
    """Return the changed columns and the values of `_AUDITED_VALUES`, for the audit log."""
    changed = sorted(names)
    return {"changed": changed} | {
        name: getattr(app, name) for name in changed if name in _AUDITED_VALUES
    }


def draft(*, name: str, kind: str) -> App:
    """Return the app of this name, or a new unsaved app; raises `app_versions.UnknownApp`."""
    app_versions.check_app_name(name)
    return App.objects.filter(name=name).first() or App(name=name, kind=kind)


def ensure(*, name: str, now: datetime, **facts: Any) -> App:
    """Return an app by name, or create it with these `facts`.

    Raises `BadPackage` if the existing app has another value of a fact; facts that are None are
    ignored.
    """
    wanted = {key: value for key, value in facts.items() if value is not None}
    app = App.objects.filter(name=name).first()
    if app is None:
        return create(name=name, now=now, **wanted)
    for key, value in wanted.items():
        if getattr(app, key) != value:
            raise BadPackage(
                f"App {name} exists, and its {key} is {getattr(app, key)}, not {value}. "
                f"Hint: do not set {key}, or choose another name."
            )
    return app


def _set(app: App, facts: dict[str, Any], *, is_new_kind: bool = False) -> None:
    for key, value in facts.items():
        if key not in _SET:
            raise BadApp({key: ["is not a field that can be set."]})
        setattr(app, key, value)
    try:
        app.clean_fields()
        app.validate_constraints()
    except ValidationError as error:
        raise BadApp({key: list(fault) for key, fault in error.message_dict.items()}) from error
    found_faults = dict(faults(app, facts, is_new_kind=is_new_kind))
    if refusals := {key: [fault] for key, fault in found_faults.items() if fault}:
        raise BadApp(refusals)


def faults(app: App, facts: Container[str], *, is_new_kind: bool) -> Iterator[tuple[str, str]]:
    """Yield pairs of a column and an error message, which is empty if the column is valid.

    `facts` has the names of the changed columns.  Checks disabled kinds, the columns of science
    code, `workunit_defaults`, and all `field_checks`, so that errors appear before daemons or
    submissions use the columns.
    """
    if app.kind == AppKind.COMMAND and not settings.PROJECT.command_apps and is_new_kind:
        yield "kind", COMMANDS_ARE_OFF
    if any(column in facts for column in alerts.SCIENCE_COLUMNS):
        science = {field.name: getattr(app, field.name) for field in App._meta.concrete_fields}
        yield from alerts.science_refusals(science)
    if "workunit_defaults" in facts:
        try:
            new_workunit(app.workunit_defaults, from_outside=True)
        except BadDescription as bad:
            yield "workunit_defaults", str(bad)
    for check in field_checks:
        yield from check(app, facts)
