"""What each step of a scheduler RPC costs in Python: `python -m bench.micro`.

No database and no web server take part: requests are decoded, translated to facts, candidates are
judged, and what would be claimed is composed and encoded.  The clock is that of the process's CPU,
so that other programs of the machine disturb little; each figure is the best of several rounds.
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
#: Reports and results of one RPC; 0 asks and gets nothing.
SIZES = (0, 1, 20)


@dataclass(frozen=True, slots=True)
class Line:
    """One step at one size: microseconds of CPU per RPC."""

    step: str
    results: int
    micros: float


def measure(conversations: Sequence[Conversation], results: int, *, rounds: int) -> list[Line]:
    """Each step by itself: the best of so many rounds for each conversation, and their mean."""
    best: dict[str, list[float]] = {}
    for _ in range(rounds):
        for step in conversations[0].STEPS:
            spent = [_spent(getattr(each, step)) for each in conversations]
            known = best.setdefault(step, spent)
            best[step] = [min(pair) for pair in zip(known, spent, strict=True)]
    return [Line(step, results, 1e6 * sum(each) / len(each)) for step, each in best.items()]


def _spent(act: Callable[[], None]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def table(lines: Sequence[Line]) -> str:
    """The figures as text: a row a step, a column a size."""
    steps = list(dict.fromkeys(line.step for line in lines))
    sizes = list(dict.fromkeys(line.results for line in lines))
    known = {(line.step, line.results): line.micros for line in lines}
    rows = [["microseconds of CPU", *(f"K={size}" if size else "no work" for size in sizes)]]
    rows += [[step, *(f"{known[step, size]:.0f}" for size in sizes)] for step in steps]
    sums = [sum(known[step, size] for step in steps) for size in sizes]
    rows.append(["together", *(f"{each:.0f}" for each in sums)])
    return "\n".join(f"{row[0]:<22}" + "".join(f"{cell:>10}" for cell in row[1:]) for row in rows)


def main() -> int:
    """Measure every size, print the table; ``--profile STEP`` shows where one step spends."""
    options = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    options.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each step ({ROUNDS})")
    options.add_argument("--hosts", type=int, default=64, help="different hosts that ask (64)")
    options.add_argument("--profile", metavar="STEP", help="a profile of this step alone")
    options.add_argument("--results", type=int, default=1, help="of the RPC to profile (1)")
    given = options.parse_args()
    _settle_in()
    from bench import conversations

    if given.profile:
        return _profile(
            [conversations.of(host, given.results) for host in range(given.hosts)], given.profile
        )
    lines: list[Line] = []
    for size in SIZES:
        talks = [conversations.of(host, size) for host in range(given.hosts)]
        conversations.rehearse(talks)
        gc.collect()
        gc.freeze()
        lines += measure(talks, size, rounds=given.rounds)
    print(table(lines))
    return 0


def _settle_in() -> None:
    """A project of its own for keys and settings; no database is asked."""
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

    from bench.conversations import rehearse

    rehearse(conversations)
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
