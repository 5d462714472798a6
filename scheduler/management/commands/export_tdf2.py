"""Exports the tasks of a batch as a folder of TDF2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandParser

from scheduler import storage
from scheduler.management.base import Answer, JsonCommand, optional_account, plural
from scheduler.work import batch_reads
from scheduler.work.tdf2 import exporting


class Command(JsonCommand):
    """``export_tdf2 DIR --batch NAME [--submitter EMAIL]``."""

    help = (
        "Write the task files, outputs and errors of a batch into the folders that TDF2 has for "
        "its states: new, open, running, closed, completed, failed and their archives."
    )
    refusals = (batch_reads.UnknownBatch, batch_reads.AmbiguousBatch, storage.BadTree)

    def add_options(self, parser: CommandParser) -> None:
        parser.add_argument("tree", metavar="DIR", help="a new or empty folder")
        parser.add_argument("--batch", metavar="NAME", required=True, help="name of the batch")
        parser.add_argument("--submitter", metavar="EMAIL", help="submitter of the batch")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        batch = batch_reads.find(options["batch"], optional_account(options["submitter"]))
        done = exporting.export_batch(batch, options["tree"])
        states = ", ".join(f"{count} {state}" for state, count in sorted(done.by_state.items()))
        sentence = (
            f"Exported {plural(done.tasks, 'task')} ({states or 'none'}) and "
            f"{plural(done.lists, 'list')} to {options['tree']}."
        )
        facts = {"tasks": done.by_state, "lists": done.lists}
        return Answer(sentence, facts, done.warnings)
