#!/usr/bin/env python3
"""The science app `mersenne`: the Lucas-Lehmer test for a list of prime exponents.

Runs under any BOINC client, as a program of one file that needs only Python 3.8: it resolves soft
links itself, and the file `boinc_finish_called` reports to the client that it has finished.

The input file `in` has one prime exponent per line; `#` begins a comment.  The output file `out`
gets one line for each: the exponent p, whether 2^p - 1 is `prime` or `composite`, and the residue,
the low 64 bits of s(p-2) mod 2^p - 1 in hexadecimal (s(0) = 4, s(n+1) = s(n)^2 - 2), which is zero
exactly for primes.  p = 2 is outside of the theorem but known to be prime: its residue is 0.

To test failures, an input line `exit CODE attempt N` makes attempt N of the workunit (the number
at the end of the result's name) exit with that code.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path

STATE_FILE = Path("mersenne_state")
FINISH_FILE = Path("boinc_finish_called")
LOW_64_BITS = (1 << 64) - 1


class BadInput(ValueError):
    """A line of the input file is not a prime exponent; the message has its number."""


def lucas_lehmer(exponent: int) -> int:
    """Return s(p-2) mod 2^p - 1 for a prime p; zero exactly if 2^p - 1 is prime.

    >>> [p for p in (3, 5, 7, 11, 13) if lucas_lehmer(p) == 0]
    [3, 5, 7, 13]
    """
    if exponent == 2:  # noqa: PLR2004  the theorem is about odd primes
        return 0
    mersenne = (1 << exponent) - 1
    value = 4
    for _ in range(exponent - 2):
        value = value * value - 2
        # Modulo 2^p - 1 the high bits are added to the low ones: no division is needed.
        value = (value & mersenne) + (value >> exponent)
        if value >= mersenne:
            value -= mersenne
    return value


def line(exponent: int) -> str:
    """Test one exponent; return its line of the output.

    >>> line(11), line(13)
    ('11 composite 00000000000006c8', '13 prime 0000000000000000')
    """
    value = lucas_lehmer(exponent)
    verdict = "prime" if value == 0 else "composite"
    return f"{exponent} {verdict} {value & LOW_64_BITS:016x}"


def resolve(name: str) -> Path:
    """Return the target of a soft link (in BOINC, a text file), or the path of a plain file."""
    path = Path(name)
    try:
        with path.open(errors="replace") as file:
            match = re.search(r"<soft_link>(.*?)</soft_link>", file.read(4096))
    except FileNotFoundError:
        return path
    return Path(match.group(1)) if match else path


def attempt() -> int:
    """Return the attempt, the number at the end of the result's name; -1 outside a client."""
    try:
        text = Path("init_data.xml").read_text(errors="replace")
    except FileNotFoundError:
        return -1
    match = re.search(r"<result_name>.*_(\d+)</result_name>", text)
    return int(match.group(1)) if match else -1


def read_input(path: Path) -> list[int]:
    """Return the exponents; exits if the input has an `exit` line for this attempt."""
    exponents = []
    for number, content in enumerate(path.read_text().splitlines(), start=1):
        words = content.partition("#")[0].split()
        if len(words) == 4 and words[0] == "exit" and words[2] == "attempt":  # noqa: PLR2004
            if int(words[3]) == attempt():
                sys.stderr.write(f"mersenne: line {number} makes attempt {words[3]} fail\n")
                sys.exit(int(words[1]))
        elif len(words) == 1 and words[0].isdecimal() and is_prime(int(words[0])):
            exponents.append(int(words[0]))
        elif words:
            msg = f"line {number} of the input is not a prime exponent: {content[:60]!r}"
            raise BadInput(msg)
    return exponents


def is_prime(number: int) -> bool:
    """Return whether a small number is prime.

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    return number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))


def save(lines: list[str]) -> None:
    """Save the finished lines, so that a killed program can resume."""
    partial = STATE_FILE.with_suffix(".new")
    partial.write_text("".join(f"{done}\n" for done in lines))
    partial.replace(STATE_FILE)


def restore(exponents: list[int]) -> list[str]:
    """Return the lines that an earlier start saved; empty if they are of another input."""
    try:
        lines = STATE_FILE.read_text().splitlines()
    except FileNotFoundError:
        return []
    done = [int(saved.split()[0]) for saved in lines]
    return lines if done == exponents[: len(done)] else []


def test_all(exponents: list[int], *, seconds_per_exponent: float) -> list[str]:
    """Test every exponent and save after each; `seconds_per_exponent` is a minimum time."""
    lines = restore(exponents)
    for exponent in exponents[len(lines) :]:
        began = time.monotonic()
        lines.append(line(exponent))
        save(lines)
        time.sleep(max(0.0, began + seconds_per_exponent - time.monotonic()))
    return lines


def main() -> int:
    """Read `in`, test, write `out`."""
    parser = argparse.ArgumentParser(description="Lucas-Lehmer test for prime exponents.")
    parser.add_argument("--input", default="in", help="input file (default in)")
    parser.add_argument("--output", default="out", help="output file (default out)")
    parser.add_argument(
        "--seconds-per-exponent",
        type=float,
        default=0.0,
        metavar="S",
        help="take at least this long for each (default 0)",
    )
    arguments = parser.parse_args()
    try:
        exponents = read_input(resolve(arguments.input))
    except (BadInput, OSError) as error:
        sys.stderr.write(f"mersenne: {error}\n")
        return 2
    lines = test_all(exponents, seconds_per_exponent=arguments.seconds_per_exponent)
    resolve(arguments.output).write_text("".join(f"{done}\n" for done in lines))
    FINISH_FILE.write_text("0\n")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
