"""Creates the data of benchmarks, such as an app, hosts, workunits and files.

The project's own operations and passes create most of the data.  SQL statements simulate the
actions of volunteers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path

from allauth.account.models import EmailAddress
from django.conf import settings
from django.db import connection
from django.utils import timezone

from bench.figures import BenchError
from daemons import registry
from scheduler import signing, storage
from scheduler.models import (
    Account,
    App,
    AppVersion,
    AppVersionFile,
    File,
    Host,
    Platform,
    Workunit,
)
from scheduler.results.facts import output_name
from scheduler.work import control
from scheduler.work.submission import submit
from scheduler.work.submission.facts import NewFile, NewOutput, NewWorkunit

APP = "bench"
PLATFORM = "x86_64-pc-linux-gnu"
#: The run time of a result of the default workunit on a host of 1e9 FLOPS; seconds.
RESULT_SECONDS = 3600.0
SHARED_INPUT = b"the same for all\n"
OUTPUT = b"42\n" * 100
MAX_NBYTES = 65536

#: Maximum number of hard links to one file; ext4 allows 65 000.
_MAX_LINKS = 20_000

_numbers = count(1)

_FORGET = """
TRUNCATE workunit, workunit_file, result, result_file, file, ledger_entry, credit_entry, refusal,
    host_app_version, app_version_file, account_app_credit, host_app_credit, team_app_credit,
    app_credit_cursor, file_request, science_failure, file_hold, job_file, workunit_wakeup,
    dependency, manual_grant
"""
#: Attempt k of a workunit ran on the k-th host after the workunit's first host.
_REPORT = """
WITH host AS (
    SELECT row_number() OVER (ORDER BY id) - 1 AS place, id, account_id, count(*) OVER () AS hosts
    FROM host
),
reported AS (
    UPDATE result AS r
    SET
        server_state = 5, outcome = 1, client_state = 5, cpu_time = 3000, elapsed_time = 3100,
        host_id = host.id, account_id = host.account_id,
        app_version_id = (SELECT min(id) FROM app_version), flops_estimate = 1e9,
        sent_at = now() - interval '1 hour', received_at = now(),
        report_deadline = now() + interval '7 days', credit_deadline = now() + interval '14 days'
    FROM host
    WHERE r.server_state = 2 AND host.place = (r.workunit_id + r.attempt) %% host.hosts
    RETURNING r.id, r.name, r.workunit_id
),
brought AS (
    INSERT INTO result_file (result_id, position, name, nbytes, md5, sha256)
    SELECT id, 0, name || '_r' || id || '_0', %(nbytes)s::bigint, %(md5)s::text, %(sha256)s::text
    FROM reported
)
INSERT INTO workunit_wakeup (workunit_id, inserted_at)
SELECT DISTINCT workunit_id, now() FROM reported
"""
_SEND_LONG_AGO = """
UPDATE result AS r
SET
    server_state = 4, host_id = host.id, account_id = host.account_id,
    app_version_id = (SELECT min(id) FROM app_version),
    sent_at = now() - interval '8 days', report_deadline = now() - interval '1 day',
    credit_deadline = now() + interval '6 days'
FROM (
    SELECT row_number() OVER (ORDER BY id) - 1 AS place, id, account_id, count(*) OVER () AS hosts
    FROM host
) AS host
WHERE r.server_state = 2 AND host.place = (r.workunit_id + r.attempt) %% host.hosts
"""


def forget() -> None:
    """Delete all workunits, results, uploads and outputs, and create the app if it is missing.

    Also resets credit totals and the statistics of app versions.  Tables are not analyzed.
    """
    _execute(_FORGET)
    # The credit entries of these totals were deleted.
    for payee in (Host, Account, App):
        payee.objects.exclude(total_credit=0).update(total_credit=0)
    # With old statistics of the version, hosts would request more results than a load expects.
    AppVersion.objects.update(pfc_n=0, pfc_avg=0, pfc_scale=0)
    for hierarchy in ("upload", "results"):
        for path in Path(settings.VAR_DIR, hierarchy).rglob("*"):
            if path.is_file():
                path.unlink()
    _publish()


def create_hosts(number: int) -> None:
    """Create `number` hosts with one account each, for `report_all` and `send_long_ago`."""
    now = timezone.now()
    first = next(_numbers)
    accounts = Account.objects.bulk_create(
        Account(
            email=f"silent{first}.{place}@example.org",
            name=f"silent {place}",
            cross_project_id="",
            password="!",
            created_at=now,
        )
        for place in range(number)
    )
    EmailAddress.objects.bulk_create(
        EmailAddress(user=account, email=account.email, primary=True) for account in accounts
    )
    Host.objects.bulk_create(
        Host(account=account, created_at=now, rpc_at=now, p_fpops=1e9) for account in accounts
    )


def shared_input() -> NewFile:
    """Return the input file that all workunits of `workunits` share by default."""
    return NewFile(open_name="in", content=SHARED_INPUT)


def unique_input(number: int) -> NewFile:
    """Return an input file that no other workunit has."""
    return NewFile(open_name="in", content=f"input {next(_numbers)} {number}\n".encode())


def workunits(number: int, *, own_inputs: bool = False, quorum: int = 2) -> list[NewWorkunit]:
    """Return `number` workunits with one input and one output, without submitting them."""
    shared = shared_input()
    return [
        NewWorkunit(
            input_files=(unique_input(place) if own_inputs else shared,),
            outputs=(NewOutput(open_name="out", max_nbytes=MAX_NBYTES),),
            command_line=f"--number {place}",
            min_quorum=quorum,
        )
        for place in range(number)
    ]


def submit_all(new: Sequence[NewWorkunit]) -> None:
    """Submit workunits in one call; raise BenchError unless all of them are new."""
    submission = submit.submit(app=APP, workunits=new, now=timezone.now())
    if submission.count != len(new):
        raise BenchError(f"{submission.count} of {len(new)} workunits were submitted.")


def chains(number: int, *, length: int, groups: bool) -> list[NewWorkunit]:
    """Return `number` workunits in chains: each but the first of a chain waits for the one before.

    With `groups`, all but the last of a chain are groups, which need no results.
    """
    stem = next(_numbers)
    last = NewWorkunit(outputs=(NewOutput(open_name="out", max_nbytes=MAX_NBYTES),))
    new = []
    for place in range(number):
        is_first, is_last = place % length == 0, (place + 1) % length == 0
        after = () if is_first else (f"chain_{stem}_{place - 1}",)
        kind = NewWorkunit(group=True) if groups and not is_last else last
        new.append(replace(kind, name=f"chain_{stem}_{place}", after=after))
    return new


def cancel_starts() -> None:
    """Request the cancellation of every workunit that waits for no other one."""
    starts = Workunit.objects.filter(has_parents=False).order_by("pk")
    control.cancel(ids=list(starts.values_list("pk", flat=True)), now=timezone.now())


def unsent(number: int, *, quorum: int = 2) -> int:
    """Create unsent results and return their number.

    This is `number`, rounded down to a multiple of `quorum`.
    """
    submit_all(workunits(number // quorum, quorum=quorum))
    transitioner = registry.find("transitioner")
    while transitioner.run_pass(now=timezone.now(), limit=transitioner.batch).more:
        pass
    return number // quorum * quorum


def report_all() -> None:
    """Write the output file of every unsent result, and mark the result as reported."""
    names = _output_names()
    for path in _paths(names):
        path.write_bytes(OUTPUT)
    digests: dict[str, str | int] = {
        "nbytes": len(OUTPUT),
        "md5": hashlib.md5(OUTPUT, usedforsecurity=False).hexdigest(),
        "sha256": hashlib.sha256(OUTPUT).hexdigest(),
    }
    _execute(_REPORT, digests)


def upload_all() -> None:
    """Create the uploaded outputs of all unsent results, with their digest files.

    The files are hard links to a few real uploads, because it takes too long to upload all files.
    """
    names = _output_names()
    for first in range(0, len(names), _MAX_LINKS):
        model, *others = names[first : first + _MAX_LINKS]
        with storage.begin_upload(model, 0) as upload:
            upload.write(OUTPUT)
            upload.finish(md5=None)
        uploaded_path = storage.upload_path(model)
        endings = [path.name.removeprefix(model) for path in uploaded_path.parent.glob(f"{model}*")]
        for path in _paths(others):
            for ending in endings:
                path.with_name(path.name + ending).hardlink_to(
                    uploaded_path.with_name(model + ending)
                )


def send_long_ago() -> None:
    """Mark every unsent result as sent, with an expired deadline."""
    _execute(_SEND_LONG_AGO, {})


def _output_names() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, id FROM result WHERE server_state = 2")
        return [output_name(name, result_id, 0) for name, result_id in cursor.fetchall()]


def _paths(names: Sequence[str]) -> Iterator[Path]:
    """Yield the path of each upload, and create its folder if necessary."""
    folders: set[Path] = set()
    for name in names:
        path = storage.upload_path(name)
        if path.parent not in folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.add(path.parent)
        yield path


def _publish() -> None:
    """Create the app and its version for Linux if they are missing, and the version's file."""
    now = timezone.now()
    app, _ = App.objects.get_or_create(
        name=APP, defaults={"created_at": now, "retry_same_account_after": timedelta(0)}
    )
    platform, _ = Platform.objects.get_or_create(name=PLATFORM)
    version, _ = AppVersion.objects.get_or_create(
        app=app, platform=platform, version_num=100, defaults={"created_at": now}
    )
    staged = storage.stage_bytes(b"#!/bin/sh\n")
    storage.publish(staged, "bench_100.sh")
    file = File.objects.create(
        name="bench_100.sh",
        sha256=staged.digest.sha256,
        md5=staged.digest.md5,
        nbytes=staged.digest.nbytes,
        created_at=now,
    )
    AppVersionFile.objects.create(
        app_version=version,
        file=file,
        position=0,
        main_program=True,
        executable=True,
        signature=signing.sign(staged.data),
    )


def _execute(statement: str, params: dict[str, str | int] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
