"""`cancel`, `retry` and `retire`: what is done to batches that are there."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from scientist.batches import Batch
from scientist.commands.context import OK, Context
from scientist.errors import NotFoundError, UsageError
from scientist.words import count


def describe(commands: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401  argparse's own
    """Add the three commands."""
    cancel = commands.add_parser("cancel", parents=[common], help="cancel batches or workunits")
    cancel.add_argument("which", metavar="BATCH|WORKUNIT", nargs="+", help="by name; a batch by id")
    cancel.add_argument("--reason", metavar="R", default="", help="kept with them")
    cancel.add_argument("--yes", action="store_true", help="do not ask")
    cancel.set_defaults(command=cancel_things, names_go_to="which")
    retry = commands.add_parser("retry", parents=[common], help="submit failed workunits again")
    retry.add_argument("batch", metavar="BATCH", help="its id or its name")
    retry.add_argument("workunits", metavar="WORKUNIT", nargs="*", help="these of it alone")
    retry.add_argument("--failed", action="store_true", help="all that failed")
    retry.set_defaults(command=retry_batch, names_go_to="workunits")
    retire = commands.add_parser("retire", parents=[common], help="let the project forget a batch")
    retire.add_argument("batch", metavar="BATCH", help="its id or its name")
    retire.add_argument("--yes", action="store_true", help="do not ask")
    retire.set_defaults(command=retire_batch)


def cancel_things(context: Context) -> int:
    """Carry out `cancel`: says what it would do, asks, does it."""
    options = context.options
    batches, names = _sorted(context, options.which)
    parts = []
    for batch in batches:
        far = batch.progress()
        left = count(far.total - far.over, "unfinished workunit")
        parts.append(f"{left} of {count(far.total)} of batch {batch.name}")
    if names:
        parts.append(count(len(names), "workunit"))
    if not context.confirm(f"Cancel {' and '.join(parts)}?"):
        context.out.print("Nothing was cancelled.")
        return OK
    answers: list[dict[str, Any]] = [
        {"batch": {"id": one.id, "name": one.name}, **one.abort(options.reason)} for one in batches
    ]
    if names:
        answers.append({"workunits": names, **context.project.cancel(names, options.reason)})
    context.answer(answers, f"cancelled {' and '.join(parts)}")
    return OK


def _sorted(context: Context, given: list[str]) -> tuple[list[Batch], list[str]]:
    """Which of these are batches and which are workunits.  Raises NotFoundError."""
    batches, names = [], []
    for which in dict.fromkeys(given):
        try:
            batches.append(context.batch(which))
        except NotFoundError:
            if next(context.project.workunits(name=which), None) is None:
                detail = f"You have no batch and no workunit {which!r}. Nothing was cancelled."
                hint = "scientist list shows your batches."
                raise NotFoundError(404, {"detail": detail, "hint": hint}) from None
            names.append(which)
    return batches, names


def retry_batch(context: Context) -> int:
    """Carry out `retry`."""
    options = context.options
    if bool(options.workunits) == options.failed:
        hint = "say --failed for all that failed, or name workunits."
        raise UsageError("Which workunits shall be submitted again?", hint)
    batch = context.batch(options.batch)
    done = batch.retry_failed(options.workunits or None)
    parts = [f"submitted {count(done.count, 'workunit')} of {batch.name} again"]
    if done.cancelled:
        parts.append(f"{count(done.cancelled)} were cancelled: name them to have them again")
    if done.inputs_gone:
        parts.append(f"the inputs of {count(done.inputs_gone)} are deleted: submit them anew")
    if done.names_taken:
        parts.append(f"{count(done.names_taken)} were submitted again before")
    context.answer(
        {"batch": {"id": batch.id, "name": batch.name}, **asdict(done)}, " · ".join(parts)
    )
    return OK


def retire_batch(context: Context) -> int:
    """Carry out `retire`."""
    batch = context.batch(context.options.batch)
    far = batch.progress()
    left = far.total - far.over
    unfinished = f" {count(left, 'workunit')} of it are not finished." if left else ""
    question = f"Retire {batch.name}? Its {count(far.done, 'output')} will be deleted.{unfinished}"
    if not context.confirm(question):
        context.out.print("Nothing was retired.")
        return OK
    said = batch.retire()
    facts = {"batch": {"id": batch.id, "name": batch.name}, **said}
    context.answer(facts, f"retired {batch.name}: the project deletes its outputs and forgets it")
    return OK
