"""Work to measure with: an app, hosts, workunits in every stage, files on disk.

Everything is made by the project's own operations and passes, but for what volunteers would do:
that is set-based SQL, which a bench of ours may and nobody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import count
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.utils import timezone

from bench.figures import BenchError
from daemons import registry
from scheduler import signing, storage
from scheduler.models import Account, App, AppVersion, AppVersionFile, File, Host, Platform
from scheduler.results.facts import output_name
from scheduler.work.submission import submit
from scheduler.work.submission.facts import NewFile, NewOutput, NewWorkunit

APP = "bench"
PLATFORM = "x86_64-pc-linux-gnu"
#: One result of the default workunit on a host of 1e9 FLOPS, in seconds.
RESULT_SECONDS = 3600.0
SHARED_INPUT = b"the same for all\n"
OUTPUT = b"42\n" * 100
MAX_NBYTES = 65536

#: ext4 allows 65 000 links to a file.
_MOST_LINKS = 20_000

_numbers = count(1)

_FORGET = """
TRUNCATE workunit, workunit_file, result, result_file, file, ledger_entry, credit_entry, refusal,
    host_app_version, app_version_file, account_app_credit, file_request, science_failure,
    file_hold, job_file
"""
#: Attempt k of a workunit ran on the host k places behind the workunit's own.
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
UPDATE workunit SET transition_at = now() WHERE id IN (SELECT workunit_id FROM reported)
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
    """Empty the tables of work, as before a first bulk load: never analysed; publish the app."""
    _execute(_FORGET)
    # Totals are sums of entries that are gone.
    for payee in (Host, Account, App):
        payee.objects.exclude(total_credit=0).update(total_credit=0)
    # What was measured of the version would have hosts ask for more than a figure means to give.
    AppVersion.objects.update(pfc_n=0, pfc_avg=0, pfc_scale=0)
    for hierarchy in ("upload", "results"):
        for path in Path(settings.VAR_DIR, hierarchy).rglob("*"):
            if path.is_file():
                path.unlink()
    _publish()


def some_hosts(number: int) -> None:
    """So many hosts, an account each, for work that no client fetches."""
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
    Host.objects.bulk_create(
        Host(account=account, created_at=now, rpc_at=now, p_fpops=1e9) for account in accounts
    )


def shared_input() -> NewFile:
    """The input file that many workunits have in common."""
    return NewFile(open_name="in", content=SHARED_INPUT)


def own_input(number: int) -> NewFile:
    """An input file that no other workunit has."""
    return NewFile(open_name="in", content=f"input {next(_numbers)} {number}\n".encode())


def workunits(number: int, *, own_inputs: bool = False, quorum: int = 2) -> list[NewWorkunit]:
    """Workunits of one input and one output, not submitted yet."""
    shared = shared_input()
    return [
        NewWorkunit(
            input_files=(own_input(place) if own_inputs else shared,),
            outputs=(NewOutput(open_name="out", max_nbytes=MAX_NBYTES),),
            command_line=f"--number {place}",
            min_quorum=quorum,
        )
        for place in range(number)
    ]


def submit_all(new: Sequence[NewWorkunit]) -> None:
    """Submit them in one go; raises BenchError unless all of them are new."""
    made = submit.submit(app=APP, workunits=new, now=timezone.now())
    if made.count != len(new):
        raise BenchError(f"{made.count} of {len(new)} workunits were submitted.")


def unsent(number: int, *, quorum: int = 2) -> int:
    """Make workunits until so many results wait to be sent; returns how many do."""
    submit_all(workunits(number // quorum, quorum=quorum))
    transitioner = registry.find("transitioner")
    while transitioner.run_pass(now=timezone.now(), limit=transitioner.batch).more:
        pass
    return number // quorum * quorum


def report_all() -> None:
    """Have every unsent result computed and reported, its output uploaded."""
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
    """Upload the outputs of all unsent results as the server would: digests kept beside them.

    The files are links to a few that were really uploaded, for there are many.
    """
    names = _output_names()
    for first in range(0, len(names), _MOST_LINKS):
        model, *others = names[first : first + _MOST_LINKS]
        with storage.begin_upload(model, 0) as upload:
            upload.write(OUTPUT)
            upload.finish(md5=None)
        made = storage.upload_path(model)
        endings = [path.name.removeprefix(model) for path in made.parent.glob(f"{model}*")]
        for path in _paths(others):
            for ending in endings:
                path.with_name(path.name + ending).hardlink_to(made.with_name(model + ending))


def send_long_ago() -> None:
    """Have every unsent result sent, and its deadline passed."""
    _execute(_SEND_LONG_AGO, {})


def _output_names() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, id FROM result WHERE server_state = 2")
        return [output_name(name, result_id, 0) for name, result_id in cursor.fetchall()]


def _paths(names: Sequence[str]) -> Iterator[Path]:
    """Where uploads belong, their folders made."""
    folders: set[Path] = set()
    for name in names:
        path = storage.upload_path(name)
        if path.parent not in folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            folders.add(path.parent)
        yield path


def _publish() -> None:
    """The app with one version for Linux: a signed script of one line."""
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
