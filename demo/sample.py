"""The sample project: publishes the app `mersenne` and submits prime exponents."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from demo import mersenne
from scheduler.apps import app_versions
from scheduler.models import App
from scheduler.work.submission.submit import (
    DuplicateNames,
    NewFile,
    NewOutput,
    NewWorkunit,
    Submission,
    submit,
)

APP = "mersenne"
VERSION = 100

#: Every exponent p below 2 300 for which 2^p - 1 is prime (OEIS A000043): the expected answer.
KNOWN_EXPONENTS = (2, 3, 5, 7, 13, 17, 19, 31, 61, 89, 107, 127, 521, 607, 1279, 2203, 2281)

#: The script runs on all of these; it needs only Python 3.
PLATFORMS = ("x86_64-pc-linux-gnu", "i686-pc-linux-gnu", "aarch64-unknown-linux-gnu")
MAC_PLATFORMS = ("x86_64-apple-darwin", "arm64-apple-darwin")

MAX_OUTPUT_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The number of exponents per workunit, and the parameters of the workunits.

    `seconds_per_exponent` is a minimum time, which makes progress visible; 0 for none.
    """

    exponents_per_workunit: int = 25
    min_quorum: int = 1
    seconds_per_exponent: float = 0.0
    delay_bound: timedelta = timedelta(days=1)


def publish(*, now: datetime) -> App:
    """Publish the app for every platform that runs Python scripts; repeating changes nothing."""
    content = Path(mersenne.__file__).read_bytes()
    platforms = MAC_PLATFORMS if platform.system() == "Darwin" else ()
    for name in (*PLATFORMS, *platforms):
        app_versions.publish(
            app=APP,
            version_num=VERSION,
            platform=name,
            files={"mersenne.py": content},
            main_program="mersenne.py",
            executables=["mersenne.py"],
            create_app=True,
            now=now,
        )
    app = App.objects.get(name=APP)
    App.objects.filter(pk=app.pk).update(user_friendly_name="Mersenne primes")
    return app


def configure_for_few_hosts(app: App) -> None:
    """Send few results at a time, and let an account retry immediately after an error."""
    App.objects.filter(pk=app.pk).update(
        retry_same_account_after=timedelta(0), max_in_progress_per_cpu=2
    )


def primes(*, below: int, at_least: int = 2) -> list[int]:
    """Return the prime numbers from `at_least` to `below`, exclusive.

    >>> primes(below=20)
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    return [number for number in range(at_least, below) if mersenne.is_prime(number)]


def workunits(exponents: Sequence[int], shape: Shape) -> list[NewWorkunit]:
    """Return workunits, each named after its first and last exponent."""
    return [_workunit(group, shape) for group in _groups(exponents, shape.exponents_per_workunit)]


def submit_exponents(exponents: Sequence[int], shape: Shape, *, now: datetime) -> Submission:
    """Submit the exponents; raises the errors of `submit`, such as DuplicateNames."""
    return submit(app=APP, workunits=workunits(exponents, shape), now=now)


def _groups(exponents: Sequence[int], size: int) -> Iterator[list[int]]:
    remaining = iter(exponents)
    while group := list(islice(remaining, size)):
        yield group


def _workunit(exponents: Sequence[int], shape: Shape) -> NewWorkunit:
    content = "".join(f"{exponent}\n" for exponent in exponents).encode()
    delay_option = f"--seconds-per-exponent {shape.seconds_per_exponent:g}"
    return NewWorkunit(
        name=f"{APP}_{exponents[0]}_{exponents[-1]}",
        command_line=delay_option if shape.seconds_per_exponent else "",
        input_files=(NewFile(open_name="in", content=content),),
        outputs=(NewOutput(open_name="out", max_nbytes=MAX_OUTPUT_BYTES),),
        rsc_fpops_est=1e10,
        rsc_fpops_bound=1e14,
        rsc_memory_bound=5e7,
        rsc_disk_bound=2e7,
        delay_bound=shape.delay_bound,
        min_quorum=shape.min_quorum,
    )


def wait_for_volunteers(*, below: int, min_quorum: int, now: datetime) -> str:
    """Publish and submit; return a message, or "" if the workunits exist already."""
    publish(now=now)
    exponents = primes(below=below)
    try:
        submitted = submit_exponents(exponents, Shape(min_quorum=min_quorum), now=now)
    except DuplicateNames:
        return ""
    return f"{APP}: {submitted.count} workunits wait for volunteers."
