"""Backs up, restores and upgrades the project, and changes its public address."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError, CommandParser
from django.utils import timezone
from rich.progress import DownloadColumn, TimeRemainingColumn

from project import env
from project.upkeep import (
    backups,
    copies,
    dumps,
    processes,
    renames,
    restore_checks,
    restores,
    upgrades,
)
from project.upkeep.manifest import BadBackup, Manifest
from scheduler import storage
from scheduler.management.base import PlainCommand, ShellActor, plural, require
from scheduler.management.progress import progress_bar

REFUSALS = (
    BadBackup,
    OSError,
    backups.BackupRefused,
    copies.Unreadable,
    dumps.DumpFailed,
    renames.RenameRefused,
    processes.WrongUser,
    restore_checks.RestoreRefused,
    restores.RestoreIncomplete,
    storage.BackupRuns,
    upgrades.UpgradeRefused,
)

_NO_KEYS = "the keys (--without-keys)"


class Command(ShellActor, PlainCommand):
    """Implements ``manage.py project backup|restore|upgrade|rename-url``."""

    help = "Back up, restore or upgrade the project, or change its public address."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
        backup = actions.add_parser("backup", help="save database, keys and files")
        backup.add_argument("folder", type=Path, metavar="FOLDER", help="a new folder")
        _add_parts(backup)
        restore = actions.add_parser("restore", help="load a backup into an empty VAR_DIR")
        restore.add_argument("folder", type=Path, metavar="FOLDER", help="the backup")
        restore.add_argument("--fsck", action="store_true", help="run fsck afterwards")
        restore.add_argument("--json", action="store_true", help="print JSON")
        upgrade = actions.add_parser("upgrade", help="back up, migrate and check the database")
        upgrade.add_argument("--check", action="store_true", help="only print what would be done")
        saved = upgrade.add_mutually_exclusive_group()
        saved.add_argument("--backup", type=Path, metavar="FOLDER", help="a new folder")
        saved.add_argument("--no-backup", action="store_true", help="do not make a backup first")
        upgrade.add_argument("--yes", action="store_true", help="do not prompt")
        upgrade.add_argument("--json", action="store_true", help="with --check: print JSON")
        rename = actions.add_parser("rename-url", help="change the address of the project")
        rename.add_argument("url", metavar="URL", help="the new address")
        rename.add_argument("--check", action="store_true", help="only print what would change")
        rename.add_argument("--yes", action="store_true", help="do not prompt")
        rename.add_argument("--json", action="store_true", help="print JSON")

    def handle(self, *_args: Any, action: str, **options: Any) -> None:
        actions = {
            "backup": self._backup,
            "restore": self._restore,
            "upgrade": self._upgrade,
            "rename-url": self._rename,
        }
        try:
            actions[action](options)
        except REFUSALS as error:
            raise CommandError(str(error)) from error

    def _backup(self, options: Mapping[str, Any]) -> None:
        backup = self._back_up(
            options["folder"],
            with_files=not options["without_files"],
            with_keys=not options["without_keys"],
        )
        missing = _not_included(backup.manifest)
        if options["json"]:
            facts = {"folder": str(backup.folder), **asdict(backup.manifest)}
            self._print_json(facts | {"not_included": missing, "skipped": list(backup.skipped)})
            return
        self.stdout.write(_sentence(backup))
        for text in missing:
            self.stdout.write(f"Not included: {text}.")
        self._warn_of_skipped(backup)

    def _warn_of_skipped(self, backup: backups.Backup) -> None:
        for path in backup.skipped:
            self.stderr.write(f"Warning: {path} is not a regular file, so it was left out.")

    def _back_up(self, folder: Path, **parts: bool) -> backups.Backup:
        with _bar("backup", backups.size) as advance:
            return backups.back_up(folder, **parts, advance=advance, now=timezone.now())

    def _restore(self, options: Mapping[str, Any]) -> None:
        folder: Path = options["folder"]
        described = restore_checks.read_manifest(folder)
        with _bar("restore", lambda: 2 * described.nbytes) as advance:
            restored = restores.restore(folder, advance=advance, now=timezone.now())
        hints = _after_restore(restored)
        if options["json"]:
            facts = {"folder": str(folder), "migrated": restored.migrated, "hints": hints}
            self._print_json(asdict(restored.manifest) | facts)
        else:
            done = f"Restored {described.project}, as of {described.created_at}"
            migrated = f"; applied {plural(len(restored.migrated), 'migration')}"
            self.stdout.write(f"{done}{migrated if restored.migrated else ''}.")
            self.stdout.write("\n".join(f"Hint: {hint}." for hint in hints))
        if options["fsck"]:
            call_command("fsck", json=options["json"], stdout=self.stdout)

    def _upgrade(self, options: Mapping[str, Any]) -> None:
        require(options["check"] or not options["json"], "--json requires --check. Hint: add it.")
        plan = upgrades.plan(now=timezone.now())
        if options["json"]:
            self._print_json(asdict(plan))
            return
        self.stdout.write("\n".join(_plan_lines(plan, options)))
        if options["check"] or not plan.migrations:
            return
        upgrades.check_stopped(plan)
        require(
            options["backup"] or options["no_backup"],
            "An upgrade needs a backup. Hint: --backup FOLDER, or --no-backup.",
        )
        processes.check_user()
        self._confirm("Upgrade now?", yes=options["yes"])
        backup = self._back_up(options["backup"]) if options["backup"] else None
        if backup:
            self.stdout.write(_sentence(backup))
            self._warn_of_skipped(backup)
        upgrades.migrate()
        if backup and not backup.is_recorded:
            backups.record(backup, now=timezone.now())
        self.stdout.write(f"Applied {plural(len(plan.migrations), 'migration')}.")
        call_command("fsck", stdout=self.stdout)
        self.stdout.write(
            "Start the project again. With database roles, first run `manage.py database_roles "
            "grant`."
        )

    def _rename(self, options: Mapping[str, Any]) -> None:
        try:
            url = env.as_web_url("URL", options["url"])
        except env.BadSetting as error:
            raise CommandError(str(error)) from error
        now = timezone.now()
        rename = renames.prepare(url, now=now)
        if not options["json"]:
            self.stdout.write("\n".join(_rename_lines(rename)))
        if not options["check"]:
            self._confirm("Change the address now?", yes=options["yes"])
            renames.record(rename, now=now)
        if options["json"]:
            self._print_json(asdict(rename) | {"changed": not options["check"]})
        elif not options["check"]:
            self.stdout.write(f"The address is {rename.new} from the next start on.")

    def _confirm(self, question: str, *, yes: bool) -> None:
        """Prompt for confirmation; raises CommandError unless the answer is yes."""
        if yes:
            return
        require(sys.stdin.isatty(), "There is no terminal to confirm at. Hint: add --yes.", 1)
        self.stdout.write(f"{question} [y/N] ", ending="")
        self.stdout.flush()
        require(input().strip().lower() in {"y", "yes"}, "Nothing was changed.", 1)

    def _print_json(self, facts: Mapping[str, Any]) -> None:
        self.stdout.write(json.dumps(facts, default=str))


def _add_parts(parser: CommandParser) -> None:
    add = parser.add_argument
    add("--without-files", action="store_true", help="save only the database and the keys")
    add("--without-keys", action="store_true", help="save no keys, which are stored elsewhere")
    add("--json", action="store_true", help="print JSON")


def _bar(title: str, total: Any) -> AbstractContextManager[Any]:
    return progress_bar(title, DownloadColumn(), TimeRemainingColumn(), total=total)


def _sentence(backup: backups.Backup) -> str:
    counts = backup.manifest.counts
    rows = f"{plural(counts['workunit'], 'workunit')}, {plural(counts['result'], 'result')}"
    files = plural(backup.manifest.files, "file")
    return f"Saved {rows}, {files} ({backup.manifest.nbytes:,} bytes) in {backup.folder}."


def _not_included(described: Manifest) -> list[str]:
    """Return what the backup does not contain, although the project has or needs it."""
    missing = []
    if not described.with_files:
        missing.append("inputs, programs, outputs, answers and the archive (--without-files)")
    if described.store:
        missing.append(f"files in the store {described.store}: back up the bucket")
    if not described.with_keys:
        missing.append(_NO_KEYS)
    return missing


def _after_restore(restored: restores.Restored) -> list[str]:
    described, hints = restored.manifest, []
    if described.master_url != settings.PROJECT.master_url:
        hints.append(
            f"the address of the project was {described.master_url}, and MASTER_URL is "
            f"{settings.PROJECT.master_url}: set it to the former before the start, or then change "
            "it by `project rename-url`"
        )
    hints.append(
        f"tokens, keys, passwords and rights are those of {described.created_at}: revoke again "
        "what was revoked since (docs/backup.md)"
    )
    hints.append(
        "accounts that were erased since are back with their personal data: erase them again"
    )
    missing = [text for text in _not_included(described) if text != _NO_KEYS]
    hints += [f"restore separately: {text}" for text in missing]
    if not settings.DATABASES["default"].get("EMBEDDED"):
        hints.append("with database roles, run `manage.py database_roles grant`")
    hints.append("check the project by `manage.py fsck --digests` before the start")
    return hints


def _plan_lines(plan: upgrades.Plan, options: Mapping[str, Any]) -> list[str]:
    lines = [f"Manyhands {plan.version}, PostgreSQL {plan.postgresql}."]
    if not plan.migrations:
        lines.append("The database is up to date; there is nothing to do.")
        if options["backup"]:
            lines.append("No backup was made: `project backup FOLDER` makes one.")
        return lines
    if plan.running:
        lines.append(f"Running, to be stopped first: {', '.join(plan.running)}.")
    if options["backup"]:
        lines.append(f"A backup is made in {options['backup']}.")
    lines.append(f"{plural(len(plan.migrations), 'migration')} will be applied:")
    return [*lines, *(f"  {name}" for name in plan.migrations), "Then fsck checks the database."]


def _rename_lines(rename: renames.Rename) -> list[str]:
    return [
        f"Old address: {rename.old}",
        f"New address: {rename.new}",
        (
            f"{plural(rename.hosts, 'host')} active in the last 30 days, "
            f"{plural(rename.results, 'result')} in progress."
        ),
        (
            "The server continues to answer at the old address, and clients there lose no work: "
            "each reply has a notice with the new address. Clients from BOINC 8 on change to it by "
            "themselves in a request in which they have no tasks and get none; users of older ones "
            "are told to remove and add the project."
        ),
        "To do:",
        *(f"  - {task}" for task in rename.tasks),
    ]
