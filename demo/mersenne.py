#!/usr/bin/env python3
"""The science app `mersenne`: the Lucas-Lehmer test for a list of prime exponents.

Runs under any BOINC client, as a plain program of one file with nothing but Python 3.8: soft links
are resolved here, and the file `boinc_finish_called` tells the client that this was the end.

The input file `in` holds one prime exponent per line; `#` begins a comment.  The output file `out`
gets one line for each: the exponent p, whether 2^p - 1 is `prime` or `composite`, and the residue,
the low 64 bits of s(p-2) mod 2^p - 1 in hexadecimal (s(0) = 4, s(n+1) = s(n)^2 - 2), which is zero
exactly for primes.  p = 2 is outside of the theorem but known to be prime: its residue is 0.

For stories about failure, an input line `exit CODE attempt N` makes attempt N of the workunit (the
number that ends the result's name) leave with that code.
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
    """The input file holds something that is no prime exponent; the message says which line."""


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
    """Follow a soft link, which in BOINC is a text file; a plain file is itself."""
    path = Path(name)
    try:
        with path.open(errors="replace") as file:
            found = re.search(r"<soft_link>(.*?)</soft_link>", file.read(4096))
    except FileNotFoundError:
        return path
    return Path(found.group(1)) if found else path


def attempt() -> int:
    """Return the number that ends the result's name; -1 outside of a client."""
    try:
        text = Path("init_data.xml").read_text(errors="replace")
    except FileNotFoundError:
        return -1
    found = re.search(r"<result_name>.*_(\d+)</result_name>", text)
    return int(found.group(1)) if found else -1


def read_input(path: Path) -> list[int]:
    """Return the exponents; leaves at once where the input asks this attempt to fail."""
    exponents = []
    for number, content in enumerate(path.read_text().splitlines(), start=1):
        words = content.partition("#")[0].split()
        if len(words) == 4 and words[0] == "exit" and words[2] == "attempt":  # noqa: PLR2004
            if int(words[3]) == attempt():
                sys.stderr.write(f"mersenne: line {number} asks attempt {words[3]} to fail\n")
                sys.exit(int(words[1]))
        elif len(words) == 1 and words[0].isdecimal() and is_prime(int(words[0])):
            exponents.append(int(words[0]))
        elif words:
            msg = f"line {number} of the input is no prime exponent: {content[:60]!r}"
            raise BadInput(msg)
    return exponents


def is_prime(number: int) -> bool:
    """Say whether a small number is prime.

    >>> [n for n in range(20) if is_prime(n)]
    [2, 3, 5, 7, 11, 13, 17, 19]
    """
    return number > 1 and all(number % d for d in range(2, int(number**0.5) + 1))


def save(lines: list[str]) -> None:
    """Write down what is done, so that a killed program goes on from here."""
    partial = STATE_FILE.with_suffix(".new")
    partial.write_text("".join(f"{done}\n" for done in lines))
    partial.replace(STATE_FILE)


def restore(exponents: list[int]) -> list[str]:
    """Read what an earlier start had done; nothing if it does not belong to this input."""
    try:
        lines = STATE_FILE.read_text().splitlines()
    except FileNotFoundError:
        return []
    done = [int(saved.split()[0]) for saved in lines]
    return lines if done == exponents[: len(done)] else []


def test_all(exponents: list[int], *, seconds_per_exponent: float) -> list[str]:
    """Test every exponent, saving after each; slowly, if people are to watch."""
    lines = restore(exponents)
    for exponent in exponents[len(lines) :]:
        began = time.monotonic()
        lines.append(line(exponent))
        save(lines)
        time.sleep(max(0.0, began + seconds_per_exponent - time.monotonic()))
    return lines


def main() -> int:
    """Read `in`, test, write `out`."""
    options = argparse.ArgumentParser(description="Lucas-Lehmer test for prime exponents.")
    options.add_argument("--input", default="in", help="input file (default in)")
    options.add_argument("--output", default="out", help="output file (default out)")
    options.add_argument(
        "--seconds-per-exponent",
        type=float,
        default=0.0,
        metavar="S",
        help="take at least this long for each (default 0)",
    )
    given = options.parse_args()
    try:
        exponents = read_input(resolve(given.input))
    except (BadInput, OSError) as error:
        sys.stderr.write(f"mersenne: {error}\n")
        return 2
    lines = test_all(exponents, seconds_per_exponent=given.seconds_per_exponent)
    resolve(given.output).write_text("".join(f"{done}\n" for done in lines))
    FINISH_FILE.write_text("0\n")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
