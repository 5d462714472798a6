"""Lists, shows, accelerates, expires, aborts, retires and deletes batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser
from django.utils import timezone

from scheduler.health.standstill import waits_of
from scheduler.management.base import Answer, JsonCommand, optional_account, plural, require
from scheduler.management.parsing import duration
from scheduler.models import Account, Batch
from scheduler.work import batch_reads
from scheduler.work import batches as operations
from scheduler.work.progress import progress_of

#: Width of the progress bar in characters.
_BAR_WIDTH = 30
_ACTIONS = ("list", "show", "accelerate", "expire", "retire", "abort", "delete")


class Command(JsonCommand):
    """``batch ACTION [NAME] [--submitter EMAIL] [--dry-run] ...``."""

    help = (
        "Manage batches. list; show NAME; accelerate NAME [--off]; expire [NAME --in 7d]; "
        "abort NAME; retire NAME; delete NAME."
    )
    refusals = (batch_reads.UnknownBatch, batch_reads.AmbiguousBatch, operations.BatchNotReady)

    def add_options(self, parser: CommandParser) -> None:
        self.add_action(parser, _ACTIONS)
        parser.add_argument("name", metavar="NAME", nargs="?", help="name of the batch")
        parser.add_argument("--submitter", metavar="EMAIL", help="submitter of the batch")
        parser.add_argument("--off", action="store_true", help="accelerate: restore the priority")
        parser.add_argument(
            "--in",
            dest="after",
            type=duration,
            metavar="TIME",
            help="expire: time from now, such as 7d",
        )
        parser.add_argument("--reason", default="", help="abort: stored with the workunits")
        parser.add_argument("--dry-run", action="store_true", help="only print what would be done")

    def answer(self, options: Mapping[str, Any]) -> Answer:
        action, name = options["action"], options["name"]
        submitter = optional_account(options["submitter"])
        if action == "list":
            return _list(submitter)
        if action == "expire" and name is None:
            return _expire_all(dry_run=options["dry_run"])
        require(name is not None, f"No batch is named. Hint: `manage.py batch {action} NAME`.")
        batch = batch_reads.find(name, submitter)
        if action == "show":
            return _show(batch)
        if options["dry_run"]:
            return _preview(action, batch)
        return _DO[action](batch, options)


def _list(submitter: Account | None) -> Answer:
    batches = batch_reads.lines(submitter)
    width = max((len(line.name) for line in batches), default=0)
    lines = [
        f"{line.name:<{width}}  {line.state_label:<11}  {line.done:>3} %  "
        f"{plural(line.workunits, 'workunit')}, {line.open} open, {line.failed} failed  "
        f"{line.submitter}{'  accelerated' * line.accelerate}"
        for line in batches
    ]
    text = "\n".join(lines) or "There is no batch. Hint: `submit_work --batch` creates one."
    return Answer(text, {"batches": [line.as_json() for line in batches]})


def _show(batch: Batch) -> Answer:
    line, results = batch_reads.line(batch.pk), batch_reads.results_of(batch.pk)
    progress = progress_of([batch], now=timezone.now())[batch.pk]
    waits = waits_of(batch, now=timezone.now())
    until = f"{line.expire_at:%Y-%m-%d %H:%M} UTC" if line.expire_at else "never"
    text = (
        f"Batch {line.name} of {line.submitter} is {line.state_label}"
        f"{', accelerated' * line.accelerate}; app {line.app or 'none yet'}.\n"
        f"  {_bar(progress.fraction_done)} {progress.sentence}\n"
        f"  {plural(line.workunits, 'workunit')}: {line.answered} answered, {line.failed} failed, "
        f"{line.open} open; {line.unassimilated} not assimilated yet\n"
        f"  results: {', '.join(f'{count} {state}' for state, count in results.items())}\n"
        f"  created {line.created_at:%Y-%m-%d %H:%M} UTC, expires {until}"
        f"{_following(batch)}{_keeping(batch)}"
    ).replace("_", " ") + "".join(f"\n  {wait.sentence}" for wait in waits)
    facts = {
        "results": results,
        "progress": asdict(progress) | {"seconds_left": progress.seconds_left},
        "after": batch.after.name if batch.after else None,
        "keep_outputs": batch.keep_outputs,
        "waits": [asdict(wait) for wait in waits],
    }
    return Answer(text, line.as_json() | facts)


def _bar(fraction: float) -> str:
    full = int(fraction * _BAR_WIDTH)
    return f"[{'#' * full}{'-' * (_BAR_WIDTH - full)}]"


def _following(batch: Batch) -> str:
    if batch.after is None:
        return ""
    how = "even if workunits failed" if batch.after_any else "if no workunit failed"
    state = str(batch.after.get_state_display()).lower()
    return f"\n  starts after batch {batch.after.name} (which is {state}), {how}"


def _keeping(batch: Batch) -> str:
    if not batch.keep_outputs:
        return ""
    return "\n  its outputs are kept until it is retired" * (batch.state != Batch.State.RETIRED)


def _preview(action: str, batch: Batch) -> Answer:
    line, results = batch_reads.line(batch.pk), batch_reads.results_of(batch.pk)
    would = {
        "accelerate": f"change the priority of {plural(line.open, 'workunit')} and "
        f"{results['unsent']} unsent results",
        "expire": "set the expiry time",
        "abort": f"cancel {plural(line.open, 'workunit')} with {results['in_progress']} results "
        "in progress",
        "retire": "retire it and release its files",
        "delete": f"delete its row; {plural(line.unpurged, 'workunit')} are not purged yet",
    }[action]
    return Answer(
        f"Would {would} (batch {line.name}, {line.state_label}). Nothing was done.",
        line.as_json() | {"results": results, "dry_run": True},
    )


def _expire_all(*, dry_run: bool) -> Answer:
    now = timezone.now()
    if dry_run:
        due = Batch.objects.filter(expire_at__lte=now, state__lte=Batch.State.COMPLETE).count()
        sentence = f"Would end {due} expired batch{'es' * (due != 1)}. Nothing was done."
        return Answer(sentence, {"due": due, "dry_run": True})
    ended = operations.expire(now=now)
    return Answer(f"Ended {ended} expired batch{'es' * (ended != 1)}.", {"ended": ended})


def _accelerate(batch: Batch, options: Mapping[str, Any]) -> Answer:
    done = operations.accelerate(batch.pk, on=not options["off"], now=timezone.now())
    verb = "No longer accelerated" if options["off"] else "Accelerated"
    return Answer(
        f"{verb}: {plural(done.workunits, 'workunit')}, {plural(done.results, 'unsent result')} "
        f"of batch {batch.name}.",
        asdict(done),
    )


def _expire(batch: Batch, options: Mapping[str, Any]) -> Answer:
    missing = "The time is missing. Hint: `manage.py batch expire NAME --in 7d`."
    require(options["after"] is not None, missing)
    expire_at = timezone.now() + options["after"]
    operations.set_expiry(batch.pk, expire_at)
    return Answer(
        f"Batch {batch.name} expires on {expire_at:%Y-%m-%d at %H:%M} UTC.",
        {"expire_at": expire_at.isoformat()},
    )


def _abort(batch: Batch, options: Mapping[str, Any]) -> Answer:
    done = operations.abort(batch.pk, reason=options["reason"], now=timezone.now())
    return Answer(
        f"Aborted batch {batch.name}: cancellation requested for "
        f"{plural(done.changed, 'workunit')}; {done.finished} are finished.",
        {"changed": done.changed, "already": done.already, "finished": done.finished},
    )


def _retire(batch: Batch, _options: Mapping[str, Any]) -> Answer:
    kept = operations.retire(batch.pk, now=timezone.now())
    files = f"; the files of {plural(kept, 'workunit')} are released" if kept else ""
    return Answer(f"Retired batch {batch.name}{files}.", {"batch_id": batch.pk, "let_go": kept})


def _delete(batch: Batch, _options: Mapping[str, Any]) -> Answer:
    operations.delete(batch.pk)
    text = f"Deleted batch {batch.name}; its workunits are in the archive."
    return Answer(text, {"batch_id": batch.pk})


_DO = {
    "accelerate": _accelerate,
    "expire": _expire,
    "abort": _abort,
    "retire": _retire,
    "delete": _delete,
}
