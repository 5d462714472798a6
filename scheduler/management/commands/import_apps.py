"""Publishes the app versions of a BOINC project's apps/ folder."""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.utils import timezone

from scheduler import storage
from scheduler.apps import app_imports
from scheduler.apps.app_imports import PUBLISHED, REFUSED, UNCHANGED, Choices, Line
from scheduler.apps.rules.plan_class_xml import BadPlanClassFile
from scheduler.management.base import Answer, JsonCommand, plural

_TREE = """\
DIR/APP/VERSION/PLATFORM          such as DIR/primes/1.02/x86_64-pc-linux-gnu
DIR/APP/VERSION/PLATFORM__CLASS   such as DIR/primes/1.02/x86_64-pc-linux-gnu__mt
DIR/plan_class_spec.xml           or in the parent folder of DIR
"""


class Command(JsonCommand):
    """``import_apps DIR [--create-app] [--dry-run | --prepare DIR | --signatures DIR]``."""

    help = (
        "Publish all versions in the unmodified apps/ folder of a BOINC project, with the plan "
        "classes of its plan_class_spec.xml. Versions that are already published do not change; "
        "versions that are refused are reported, and the others are published."
    )
    refusals = (BadPlanClassFile, storage.StoreError, storage.UnreadablePackage)
    parser_options = {"epilog": _TREE, "formatter_class": RawDescriptionHelpFormatter}
    _refused = 0

    def add_options(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("tree", metavar="DIR", help="the folder apps/ of a BOINC project")
        add("--create-app", action="store_true", help="create apps that do not exist")
        add("--create-platform", action="store_true", help="create platforms that BOINC lacks")
        add("--plan-classes", metavar="FILE", help="a plan_class_spec.xml in another folder")
        add("--dry-run", action="store_true", help="only report what would be published")
        add(
            "--prepare",
            metavar="DIR",
            help="write the files to be signed into a new folder, and publish nothing",
        )
        add("--signatures", metavar="DIR", help="the folder of --prepare with the .sig files")

    def handle(self, *args: Any, **options: Any) -> None:
        super().handle(*args, **options)
        if self._refused:
            raise CommandError(f"{self._refused} refused, as reported above.")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        if options["prepare"] and (options["signatures"] or options["dry_run"]):
            msg = "--prepare publishes nothing. Hint: use it alone, then --signatures."
            raise CommandError(msg)
        now = timezone.now()
        folders, others = storage.version_folders(options["tree"])
        choices = Choices(
            create_app=options["create_app"],
            create_platform=options["create_platform"],
            dry_run=options["dry_run"],
            signatures=storage.read_signatures(options["signatures"])
            if options["signatures"]
            else {},
        )
        warnings = [f"{name} is not the folder of a version, and was skipped." for name in others]
        path = options["plan_classes"] or storage.find_plan_classes(options["tree"])
        plans: list[Line] = []
        accepted: frozenset[str] = frozenset()
        if path is not None:
            plans, accepted = app_imports.import_plan_classes(
                storage.read_plan_classes(path),
                source=Path(path).name,
                dry_run=choices.dry_run or bool(options["prepare"]),
                now=now,
            )
        if options["prepare"]:
            names, lines = app_imports.write_unsigned(
                folders, choices, options["prepare"], plan_class_names=accepted
            )
            return self._prepared(options["prepare"], names, lines, warnings)
        prefixes = tuple(f"{folder.name}/" for folder in folders)
        warnings += [
            f"The signature {name} belongs to no version in {options['tree']}."
            for name in choices.signatures
            if not name.startswith(prefixes)
        ]
        lines = app_imports.import_versions(folders, choices, plan_class_names=accepted, now=now)
        return self._reported(plans, lines, warnings, dry_run=choices.dry_run)

    def _prepared(
        self, folder: str, names: Sequence[str], lines: Sequence[Line], warnings: Sequence[str]
    ) -> Answer:
        self._refused = len(lines)
        report = [_label(line, dry_run=False) for line in lines]
        if names:
            report += [
                f"Wrote {plural(len(names), 'file')} to {folder}.",
                f"Sign them on the machine that has the key: python3 sign.py sign {folder}",
                f"Then run the same command with --signatures {folder} instead of --prepare.",
            ]
        else:
            report.append("No file needs a signature.")
        facts = {"folder": folder, "files": names, "refused": _as_facts(lines)}
        return Answer("\n".join(report), facts, warnings)

    def _reported(
        self,
        plans: Sequence[Line],
        lines: Sequence[Line],
        warnings: Sequence[str],
        *,
        dry_run: bool,
    ) -> Answer:
        self._refused = sum(line.state == REFUSED for line in (*plans, *lines))
        counts = Counter(line.state for line in lines)
        verb = "would be published" if dry_run else "published"
        report = [f"plan class {_label(line, dry_run=dry_run, written=True)}" for line in plans]
        report += [_label(line, dry_run=dry_run) for line in lines]
        report.append(
            f"{plural(len(lines), 'version')}: {counts[PUBLISHED]} {verb}, "
            f"{counts[UNCHANGED]} published before, {counts[REFUSED]} refused."
        )
        facts = {"plan_classes": _as_facts(plans), "versions": _as_facts(lines)}
        return Answer("\n".join(report), {"dry_run": dry_run, **facts}, warnings)


def _label(line: Line, *, dry_run: bool, written: bool = False) -> str:
    if line.state == REFUSED:
        return f"{line.name}: refused. {line.reason}"
    if line.state == UNCHANGED:
        return f"{line.name}: {'unchanged' if written else 'published before'}."
    done = "written" if written else "published"
    return f"{line.name}: {f'would be {done}' if dry_run else done}."


def _as_facts(lines: Sequence[Line]) -> list[dict[str, str]]:
    return [{"name": line.name, "state": line.state, "reason": line.reason} for line in lines]
