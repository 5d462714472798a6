"""Publishes the app versions of a BOINC project's `apps/` tree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scheduler import signing, storage
from scheduler.apps import app_versions, apps, plan_class_store, programs
from scheduler.apps.programs import Order
from scheduler.apps.rules.packaging import BadPackage, folder_version_number
from scheduler.apps.rules.plan_class_xml import read_plan_classes
from scheduler.models import App
from scheduler.models.science import AppKind
from scheduler.storage import VersionFolder

PUBLISHED: Final = "published"
UNCHANGED: Final = "unchanged"
REFUSED: Final = "refused"

#: Errors that concern one version only; the other versions are still published.
_REFUSALS: Final = (
    BadPackage,
    app_versions.BadSignature,
    app_versions.UnknownApp,
    app_versions.UnknownPlatform,
    app_versions.VersionExists,
    plan_class_store.BadSpec,
    signing.KeyMissing,
    storage.UnreadablePackage,
)


@dataclass(frozen=True, slots=True)
class Line:
    """The outcome for one version or plan class; `reason` is the error text of a refusal."""

    name: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The options of an import; `signatures` are keyed by their paths within the tree."""

    create_app: bool = False
    create_platform: bool = False
    dry_run: bool = False
    signatures: Mapping[str, str]


def import_plan_classes(
    text: bytes, *, source: str, dry_run: bool, now: datetime
) -> tuple[list[Line], frozenset[str]]:
    """Store the plan classes of a `plan_class_spec.xml`; return outcomes, and the accepted names.

    An existing plan class is replaced.  Raises `plan_class_xml.BadPlanClassFile`.
    """
    lines: list[Line] = []
    for plan in read_plan_classes(text):
        try:
            done = plan_class_store.write(
                plan.name, json.dumps(plan.spec, indent=1), source=source, now=now, dry_run=dry_run
            )
        except plan_class_store.BadSpec as error:
            # The line numbers of the error refer to the generated JSON, not to the file.
            sentences = [line.split(": ", 1)[-1] for line in str(error).splitlines()]
            lines.append(Line(plan.name or "(no name)", REFUSED, " ".join(sentences)))
        else:
            lines.append(Line(plan.name, PUBLISHED if done.changed else UNCHANGED))
    return lines, frozenset(line.name for line in lines if line.state != REFUSED)


def import_versions(
    folders: Sequence[VersionFolder],
    choices: Choices,
    *,
    plan_class_names: frozenset[str],
    now: datetime,
) -> list[Line]:
    """Publish each version in a separate transaction; return a `Line` for each.

    `plan_class_names` are accepted without a check, since a dry run does not store them.
    """
    lines = []
    for folder in folders:
        try:
            is_new = _import(folder, choices, plan_class_names, now=now)
        except _REFUSALS as error:
            lines.append(Line(folder.name, REFUSED, str(error)))
        else:
            lines.append(Line(folder.name, PUBLISHED if is_new else UNCHANGED))
    return lines


def write_unsigned(
    folders: Sequence[VersionFolder],
    choices: Choices,
    target: str,
    *,
    plan_class_names: frozenset[str],
) -> tuple[list[str], list[Line]]:
    """Write the files without a signature into a new folder, under their paths in the tree.

    Skips versions that are already published.  Returns the names of the files, and a line for each
    refused version.
    """
    lines: list[Line] = []
    with ExitStack() as stack:
        named: dict[str, storage.Staged] = {}
        for folder in folders:
            try:
                app, order = _app_and_order(folder, choices, plan_class_names)
                source = stack.enter_context(storage.open_package(folder.path))
                if not _is_published(app, order, source):
                    files = programs.unsigned(app, order, source, stack)
                    named |= {f"{folder.name}/{name}": item for name, item in files.items()}
            except _REFUSALS as error:
                lines.append(Line(folder.name, REFUSED, str(error)))
        if named:
            storage.write_prepared(target, named, {"app": "", "version": ""})
        return sorted(named), lines


def _import(
    folder: VersionFolder, choices: Choices, plan_class_names: frozenset[str], *, now: datetime
) -> bool:
    app, order = _app_and_order(folder, choices, plan_class_names)
    with storage.open_package(folder.path) as source:
        if choices.dry_run:
            return programs.examine(app, order, source)
        if not App.objects.filter(name=app.name).exists():
            # The app is created only after its first version has been checked.
            programs.examine(app, order, source)
            app = apps.ensure(name=app.name, now=now)
        return programs.publish(app, order, source, now=now).created


def _app_and_order(
    folder: VersionFolder, choices: Choices, plan_class_names: frozenset[str]
) -> tuple[App, Order]:
    if choices.create_app:
        app = apps.draft(name=folder.app, kind=AppKind.NATIVE)
    else:
        app = _find_app(folder.app)
    if app.kind != AppKind.NATIVE:
        msg = f"App {app} is of kind {app.kind}, but a tree contains only native programs."
        raise BadPackage(f"{msg} Hint: rename the folder of the app.")
    platform, _, plan_class = folder.platform.partition("__")
    prefix = f"{folder.name}/"
    own = {
        name.removeprefix(prefix): text
        for name, text in choices.signatures.items()
        if name.startswith(prefix)
    }
    return app, Order(
        version_num=folder_version_number(folder.version),
        platforms=[platform],
        plan_class=plan_class,
        create_platform=choices.create_platform,
        with_unlisted=True,
        signatures=own,
        future_plan_classes=plan_class_names,
    )


def _find_app(name: str) -> App:
    if app := App.objects.filter(name=name).first():
        return app
    raise app_versions.UnknownApp(
        f"There is no app {name!r}. Hint: create it by --create-app, or by `manage.py create_app`."
    )


def _is_published(app: App, order: Order, source: storage.Source) -> bool:
    try:
        return not programs.examine(app, order, source)
    except app_versions.SignatureMissing:
        return False
