"""Measures this project in a separate database, as `python -m bench`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from bench import PARTS
from bench.sizes import SIZES


def main() -> int:
    """Run the benchmarks, stop all processes, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure this project's throughput, compared with pgbench and BOINC's server.",
        epilog="Figures are stored in BENCH_FOLDER (var/bench): last.json and history.jsonl.",
    )
    size = parser.add_mutually_exclusive_group()
    for name, summary in (
        ("quick", "small backlogs, short loads: 1 to 2 minutes"),
        ("large", "backlogs up to 10 million results, open transactions, fsync: 25 minutes"),
        ("tiny", argparse.SUPPRESS),
    ):
        size.add_argument(f"--{name}", action="store_const", dest="size", const=name, help=summary)
    parser.set_defaults(size="usual")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to this file"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=PARTS,
        default=PARTS,
        help=f"measure only these: {', '.join(PARTS)} (pgbench always)",
    )
    arguments = parser.parse_args()
    # SIGTERM then raises KeyboardInterrupt, so that the servers are stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from bench import stage

    bench_stage = stage.set_up()
    try:
        import django

        django.setup()
        from bench import program

        return program.perform(
            bench_stage, parts=arguments.only, size=SIZES[arguments.size], also=arguments.json
        )
    except KeyboardInterrupt:
        return 130
    finally:
        bench_stage.close()


if __name__ == "__main__":
    sys.exit(main())
