"""Measures the CPU time of each step of a scheduler RPC.

Run it by `python -m bench.micro`.  There is no database and no web server.  Requests are decoded
and translated to facts, candidates are judged, and a reply is composed and encoded.  Other programs
have little influence, because only the CPU time of this process is measured.  Each figure is the
best of several rounds.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.stage import FOLDER

if TYPE_CHECKING:
    from bench.conversations import Conversation

ROUNDS = 15
#: The numbers of results that an RPC reports and receives.  With 0, it requests work in vain.
SIZES = (0, 1, 20)


@dataclass(frozen=True, slots=True)
class Line:
    """The CPU time of a step of an RPC with `results` results, in microseconds."""

    step: str
    results: int
    micros: float


def measure(conversations: Sequence[Conversation], results: int, *, rounds: int) -> list[Line]:
    """Measure the CPU time of each step.

    For each conversation, the minimum of all rounds is taken.  The result is the average of these
    minima.
    """
    best: dict[str, list[float]] = {}
    for _ in range(rounds):
        for step in conversations[0].STEPS:
            durations = [_cpu_seconds(getattr(each, step)) for each in conversations]
            best_so_far = best.setdefault(step, durations)
            best[step] = [min(pair) for pair in zip(best_so_far, durations, strict=True)]
    return [Line(step, results, 1e6 * sum(each) / len(each)) for step, each in best.items()]


def _cpu_seconds(act: Callable[[], None]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def table(lines: Sequence[Line]) -> str:
    """Return the lines as a text table, with a row per step and a column per number of results."""
    steps = list(dict.fromkeys(line.step for line in lines))
    sizes = list(dict.fromkeys(line.results for line in lines))
    micros = {(line.step, line.results): line.micros for line in lines}
    rows = [["microseconds of CPU", *(f"K={size}" if size else "no work" for size in sizes)]]
    rows += [[step, *(f"{micros[step, size]:.0f}" for size in sizes)] for step in steps]
    sums = [sum(micros[step, size] for step in steps) for size in sizes]
    rows.append(["together", *(f"{each:.0f}" for each in sums)])
    return "\n".join(f"{row[0]:<22}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def main() -> int:
    """Measure every size and print the table; with ``--profile STEP``, profile a step instead."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"rounds of each step ({ROUNDS})"
    )
    parser.add_argument("--hosts", type=int, default=64, help="number of different hosts (64)")
    parser.add_argument("--profile", metavar="STEP", help="profile only this step")
    parser.add_argument("--results", type=int, default=1, help="results of the RPC to profile (1)")
    arguments = parser.parse_args()
    _set_up_project()
    from bench import conversations

    if arguments.profile:
        return _profile(
            [conversations.of(host, arguments.results) for host in range(arguments.hosts)],
            arguments.profile,
        )
    lines: list[Line] = []
    for size in SIZES:
        conversation_list = [conversations.of(host, size) for host in range(arguments.hosts)]
        conversations.warm_up(conversation_list)
        gc.collect()
        gc.freeze()
        lines += measure(conversation_list, size, rounds=arguments.rounds)
    print(table(lines))
    return 0


def _set_up_project() -> None:
    """Set up Django with a separate project, for keys and settings; no database is used."""
    os.environ.update(
        {
            "DJANGO_SETTINGS_MODULE": "project.settings",
            "VAR_DIR": str(FOLDER / "micro"),
            "MASTER_URL": "http://127.0.0.1:8000/",
            "DAILY_QUOTA": "500",
        }
    )
    import django

    django.setup()
    from scheduler import signing

    signing.ensure_keys()


def _profile(conversations: Sequence[Conversation], step: str) -> int:
    import cProfile
    import pstats

    from bench.conversations import warm_up

    warm_up(conversations)
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(20):
        for each in conversations:
            getattr(each, step)()
    profile.disable()
    pstats.Stats(profile).sort_stats("tottime").print_stats(25)
    return 0


if __name__ == "__main__":
    sys.exit(main())
