"""The commands `cancel`, `hold`, `release`, `retry` and `retire`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from scientist.batches import Batch
from scientist.commands.context import Context, about
from scientist.commands.options import Commands
from scientist.errors import NotFoundError, UsageError
from scientist.words import count


def describe(commands: Commands) -> None:
    """Add the commands of this module to the parser."""
    cancel = commands.add("cancel", cancel_things, help="cancel batches or workunits")
    text = "a name, or the id of a batch"
    cancel.add_argument("which", metavar="BATCH|WORKUNIT", nargs="+", help=text)
    cancel.add_argument("--reason", metavar="R", default="", help="reason to store")
    cancel.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    cancel.set_defaults(extra_names_target="which")
    hold = commands.add("hold", hold_things, help="hold workunits back until they are released")
    text = "a workunit's name, or the id or name of a batch"
    hold.add_argument("which", metavar="BATCH|WORKUNIT", nargs="+", help=text)
    text = "negative number to store, with a meaning of your own (-4; none for staff)"
    hold.add_argument("--code", metavar="N", type=int, help=text)
    hold.set_defaults(extra_names_target="which")
    release = commands.add("release", release_things, help="release held workunits")
    text = "a workunit's name, or the id or name of a batch"
    release.add_argument("which", metavar="BATCH|WORKUNIT", nargs="+", help=text)
    release.set_defaults(extra_names_target="which")
    retry = commands.add("retry", retry_batch, help="submit failed workunits again")
    retry.add_argument("batch", metavar="BATCH", help="id or name of the batch")
    text = "names of failed workunits of the batch, instead of --failed"
    retry.add_argument("workunits", metavar="WORKUNIT", nargs="*", help=text)
    retry.add_argument("--failed", action="store_true", help="all failed workunits")
    retry.set_defaults(extra_names_target="workunits")
    retire = commands.add("retire", retire_batch, help="let the project delete a batch")
    retire.add_argument("batch", metavar="BATCH", help="id or name of the batch")
    retire.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def cancel_things(context: Context) -> None:
    """Cancel batches and workunits, after a confirmation that shows the numbers."""
    options = context.options
    batches, names = _split(context, options.which)
    parts = []
    for batch in batches:
        progress = batch.progress()
        unfinished = count(progress.total - progress.finished, "unfinished workunit")
        parts.append(f"{unfinished} of {count(progress.total)} of batch {batch.name}")
    if names:
        parts.append(count(len(names), "workunit"))
    if not context.confirm(f"Cancel {' and '.join(parts)}?"):
        context.out.print("Nothing was cancelled.")
        return
    answers = [{**about(batch), **batch.abort(options.reason)} for batch in batches]
    if names:
        answers.append({"workunits": names, **context.project.cancel(names, options.reason)})
    context.answer(answers, f"cancelled {' and '.join(parts)}")


def hold_things(context: Context) -> None:
    """Hold batches and workunits, and print the numbers of workunits."""
    code = context.options.code
    batches, names = _split(context, context.options.which)
    answers = [{**about(batch), **batch.hold(code)} for batch in batches]
    if names:
        answers.append({"workunits": names, **context.project.hold(names, code)})
    context.answer(answers, _counts(answers, "held"))


def release_things(context: Context) -> None:
    """Release batches and workunits, and print the numbers of workunits."""
    batches, names = _split(context, context.options.which)
    answers = [{**about(batch), **batch.release()} for batch in batches]
    if names:
        answers.append({"workunits": names, **context.project.release(names)})
    context.answer(answers, _counts(answers, "released"))


def _counts(answers: list[dict[str, Any]], did: str) -> str:
    """Return a line with the numbers of workunits by outcome."""
    words = {
        did: did,
        "already": f"already {did}" if did == "held" else "not held",
        "finished": "finished",
        "impossible": "unchanged: they wait for other workunits, or staff hold them",
    }
    totals = {name: sum(answer[name] for answer in answers) for name in words}
    parts = [f"{count(totals[did], 'workunit')} {did}"]
    parts += [f"{count(totals[name])} {words[name]}" for name in list(words)[1:] if totals[name]]
    return " · ".join(parts)


def _split(context: Context, targets: list[str]) -> tuple[list[Batch], list[str]]:
    """Divide the targets into batches and names of workunits.

    Raises NotFoundError if a target is neither a batch nor a workunit.
    """
    batches, names = [], []
    for which in dict.fromkeys(targets):
        try:
            batches.append(context.batch(which))
        except NotFoundError:
            if next(context.project.workunits(name=which), None) is None:
                detail = f"You have no batch and no workunit {which!r}. Nothing was changed."
                hint = "scientist list shows your batches."
                raise NotFoundError(404, {"detail": detail, "hint": hint}) from None
            names.append(which)
    return batches, names


def retry_batch(context: Context) -> None:
    options = context.options
    if bool(options.workunits) == options.failed:
        hint = "use --failed for all failed workunits, or name workunits, not both."
        raise UsageError("It is not clear which workunits to submit again.", hint)
    batch = context.batch(options.batch)
    summary = batch.retry_failed(options.workunits or None)
    parts = [f"submitted {count(summary.count, 'workunit')} of {batch.name} again"]
    if summary.cancelled:
        parts.append(f"{count(summary.cancelled)} were cancelled: name them to retry them")
    if summary.inputs_gone:
        gone = count(summary.inputs_gone)
        parts.append(f"the inputs of {gone} were deleted: submit new workunits")
    if summary.names_taken:
        parts.append(f"{count(summary.names_taken)} were retried before")
    if summary.refused_by_queue:
        parts.append(
            f"the queue of {count(summary.refused_by_queue)} does not accept them any more"
        )
    context.answer({**about(batch), **asdict(summary)}, " · ".join(parts))


def retire_batch(context: Context) -> None:
    batch = context.batch(context.options.batch)
    progress = batch.progress()
    left = progress.total - progress.finished
    unfinished = f" Unfinished: {count(left, 'workunit')}." if left else ""
    outputs = count(progress.done, "output")
    if not context.confirm(f"Retire {batch.name}? Its {outputs} will be deleted.{unfinished}"):
        context.out.print("Nothing was retired.")
        return
    facts = {**about(batch), **batch.retire()}
    context.answer(facts, f"retired {batch.name}: the project deletes its outputs and its rows")
