"""Imports the unfinished tasks and task lists of a folder of TDF2."""

from __future__ import annotations

from argparse import RawDescriptionHelpFormatter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler import storage
from scheduler.dispatch.rules.launching import COMMAND
from scheduler.management.base import Answer, JsonCommand, account_of, plural
from scheduler.work.submission.submission_checks import SubmissionRefused, UnknownApp
from scheduler.work.tdf2 import importing

_TREE = """\
DIR/*.task, DIR/new/*.task                    new tasks, which the server groups into lists
DIR/open/1448978609/*.task                    a list that waits for a worker
DIR/running/1448978609_pc7_1448978619/*.task  a list in progress, imported as an open list
DIR/closed/.../*.task                         failed tasks are tried again, as TDF2 does;
                                              finished tasks stay files
DIR/completed*/..., DIR/failed*/...           finished tasks, which stay files
"""


class Command(JsonCommand):
    """``import_tdf2 DIR --app APP --submitter EMAIL [--batch NAME] ...``."""

    help = (
        "Submit the unfinished tasks of a folder of TDF2 to an app of kind command,\n"
        "all or none. Tasks that were imported before do not change."
    )
    refusals = (importing.ImportRefused, storage.BadTree, SubmissionRefused, UnknownApp)
    parser_options = {"epilog": _TREE, "formatter_class": RawDescriptionHelpFormatter}

    def add_options(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("tree", metavar="DIR", help="the folder with the task files")
        add("--app", required=True, help=f"an app of kind {COMMAND}")
        add("--submitter", metavar="EMAIL", required=True, help="owner of the batch")
        add("--batch", metavar="NAME", help="name of the batch; by default, that of the folder")
        add(
            "--bundle-size",
            type=int,
            default=10,
            metavar="N",
            help="number of new tasks in each list; 0 sends them singly (default: 10)",
        )
        add(
            "--until",
            choices=("both", "start", "end"),
            default="both",
            help="what the field until limits: the start, the end, or both (default)",
        )
        add("--dry-run", action="store_true", help="only check the files")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        name = options["batch"] or f"tdf2 {Path(options['tree']).resolve().name}"
        done = importing.import_tree(
            options["tree"],
            importing.Choices(
                app=options["app"],
                batch=name,
                bundle_size=options["bundle_size"] or None,
                until=options["until"],
                dry_run=options["dry_run"],
            ),
            submitter=account_of(options["submitter"]),
            now=timezone.now(),
        )
        verb = "Would import" if options["dry_run"] else "Imported"
        sentence = (
            f"{verb} {plural(done.tasks, 'task')} into batch {done.batch!r}, of these in "
            f"{plural(done.lists, 'list')}; {done.known_tasks} imported before, "
            f"{done.finished} finished."
        )
        facts = {
            "batch": done.batch,
            "tasks": done.tasks,
            "lists": done.lists,
            "known": done.known_tasks,
            "finished": done.finished,
        }
        return Answer(sentence, facts, done.warnings)
