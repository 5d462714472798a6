"""Acts on files, run by workers that stop before every step.

A step is a statement, a commit, or a change on disk: publishing or deleting a file.  Modification
times of files are those of the simulated clock, so that files left by a crash become antique.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from functools import cache

from django.apps import apps
from django.conf import settings
from django.db import connection, transaction

from daemons import file_deleter, purger
from daemons.tally import WHOLE
from scheduler import storage
from scheduler.apps import app_versions
from scheduler.files import antiques, file_holds, file_requests, unused_files
from scheduler.models import Account, AppVersion, File, FileHold, FileRequest, JobFile, Workunit
from scheduler.storage import downloads, leftovers
from scheduler.work.submission import bulk, submit
from scheduler.work.submission.facts import NewFile, NewWorkunit
from tests import rows

APP, PLATFORM = "filing", "x86_64-pc-linux-gnu"
#: Errors that an act may raise; any other error is a bug.
EXPECTED = ("UnknownFiles", "VersionExists", "FileRequestRefused", "FileInMotion", "BadLines")

ACTS = {}
_turn = {"now": None, "take": lambda: None}


def play(var, now, what, words, take_turn):
    """Run one act in a worker process."""
    settings.VAR_DIR = var
    _turn.update(now=now, take=take_turn)
    _stop_at_the_disk()
    return ACTS[what](now, *words)


def act(function):
    ACTS[function.__name__] = function
    return function


def content(number):
    return b"content %d" % number


def sha256(number):
    return hashlib.sha256(content(number)).hexdigest()


def _stop_at_the_disk():
    if "publish" in _turn:
        return
    _turn["publish"] = downloads.publish
    downloads.publish = _publish
    for module in (downloads, leftovers):
        module.delete_with_digest = _stopping(module.delete_with_digest)
    downloads.sync_downloads = _stopping(downloads.sync_downloads)


def _stopping(touch):
    def stop_before(*words):
        _turn["take"]()
        return touch(*words)

    return stop_before


def _publish(staged, name):
    _turn["take"]()
    _turn["publish"](staged, name)
    at = _turn["now"].timestamp()
    os.utime(storage.download_path(name), (at, at))


@act
def submission(now, numbers, path, known):
    inputs = [NewFile(open_name=f"in{n}", content=content(n)) for n in numbers]
    if path is not None:
        inputs.append(NewFile(open_name="of_a_path", path=path))
    if known is not None:
        inputs.append(NewFile(open_name="known", known_as=known))
    submit.submit(app=APP, workunits=[NewWorkunit(input_files=tuple(inputs))], now=now)


@act
def lines(now, account_id, numbers, known):
    """Submit as the API does: store and hold the contents line by line, then the workunits."""
    said = [{"open_name": "in", "content": content(n).decode()} for n in numbers]
    said += [{"open_name": "in", "sha256": sha256(n)} for n in known]
    bulk._CHUNK = 1
    bulk.submit_lines(
        bulk.read_head({"app": APP}, now=now),
        [bulk.Line(place, {"input_files": [one]}) for place, one in enumerate(said)],
        submitter=Account.objects.get(pk=account_id),
        now=now,
    )


@act
def hold(now, number, account_id, span):
    settings.PROJECT = replace(settings.PROJECT, file_hold=span)
    account = Account.objects.get(pk=account_id)
    file_holds.keep(storage.stage_bytes(content(number)), "held", account, now=now)


@act
def renewal(now, numbers, account_id, span):
    settings.PROJECT = replace(settings.PROJECT, file_hold=span)
    account = Account.objects.get(pk=account_id)
    file_holds.renew([sha256(number) for number in numbers], account, now=now)


@act
def giving_up(now, number, account_id):
    file_holds.give_up(sha256(number), Account.objects.get(pk=account_id), now=now)


@act
def publication(now, version, number):
    app_versions.publish(
        app=APP, version_num=version, platform=PLATFORM, files={"main": content(number)}, now=now
    )


@act
def withdrawal(_now, version):
    AppVersion.objects.filter(app__name=APP, version_num=version).delete()


@act
def request(now, host_id, path):
    file_requests.put_file(host_id, path, now=now)


@act
def listing(now, host_id):
    names = list(FileRequest.objects.filter(host_id=host_id).values_list("file_name", flat=True))
    with transaction.atomic():
        file_requests.take_pending(host_id, names, now=now)


@act
def finish(now, workunit_id):
    workunit = Workunit.objects.get(pk=workunit_id)
    with transaction.atomic():
        rows.update(workunit, transition_at=None)
        rows.settled(workunit, assimilate_state=2, file_delete_state=1, finished_at=now)


@act
def deleter(now, limit):
    file_deleter.run_pass(now=now, limit=limit)


@act
def purge(now):
    claimed = purger._claim(now=now, limit=100, shard=WHOLE)
    if claimed:
        purger._purge(claimed, now=now)


@act
def past_holds(now, limit):
    unused_files.drop_past_holds(now, limit)


@act
def forgotten(now, limit):
    unused_files.mark_forgotten_for_deletion(now, limit)


@act
def antique_pass(now):
    antiques.delete_antique_files(now)


# The expected state, read from the committed rows and the disk


@cache
def _references():
    """Return a statement that selects all foreign keys to `file`, without expired holds."""
    return " UNION ".join(
        f"SELECT {field.column} FROM {model._meta.db_table} WHERE {field.column} IS NOT NULL"
        + (" AND until > %(now)s" if model is FileHold else "")
        for model in apps.get_models()
        for field in model._meta.local_fields
        if field.is_relation and field.related_model is File and model is not JobFile
    )


def referred_to(now):
    """Return the ids of all files that are referred to."""
    with connection.cursor() as cursor:
        cursor.execute(_references(), {"now": now})
        return {id_ for (id_,) in cursor.fetchall()}


def on_disk():
    top = settings.VAR_DIR / "download"
    return {path.name for path in top.rglob("*") if path.is_file()}


TABLES = (
    "file_hold",
    "file_request",
    "app_version_file",
    "workunit_file",
    "app_version",
    "result",
    "workunit",
    "batch_usage",
    "batch",
    "file",
    "ledger_entry",
)


def wipe():
    with connection.cursor() as cursor:
        cursor.execute("; ".join(f"DELETE FROM {table}" for table in TABLES))
