"""`python -m bench`: measures the project here, in a database of its own."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from bench import PARTS
from bench.sizes import SIZES


def main() -> int:
    """Read the options, set the stage, perform; everything is stopped at the end."""
    options = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measure what this project does per second, beside pgbench and BOINC's server.",
        epilog="Figures are kept in BENCH_FOLDER, var/bench: last.json and history.jsonl.",
    )
    size = options.add_mutually_exclusive_group()
    for name, summary in (
        ("quick", "small backlogs, short loads: a minute or two"),
        ("large", "backlogs up to 10 million results, held transactions, fsync: 25 minutes"),
        ("tiny", argparse.SUPPRESS),
    ):
        size.add_argument(f"--{name}", action="store_const", dest="size", const=name, help=summary)
    options.set_defaults(size="usual")
    options.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        choices=PARTS,
        default=PARTS,
        help=f"measure only these: {', '.join(PARTS)} (pgbench always)",
    )
    given = options.parse_args()
    # Whoever ends the bench ends its servers, too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from bench import stage

    set_up = stage.set_up()
    try:
        import django

        django.setup()
        from bench import program

        return program.perform(set_up, parts=given.only, size=SIZES[given.size], also=given.json)
    except KeyboardInterrupt:
        return 130
    finally:
        set_up.close()


if __name__ == "__main__":
    sys.exit(main())
