"""Measures every page in a separate project, as `python -m bench.pages`."""

from __future__ import annotations

import argparse
import os
import signal
import sys

RESULTS = 1_000_000
VISITS = 3


def main() -> int:
    """Load the rows, visit the pages, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.pages",
        description="Measure the server time and the SQL statements of every page.",
        epilog="The exit status is 1 if a page takes too long, or more statements with more rows.",
    )
    parser.add_argument(
        "--results",
        type=int,
        default=RESULTS,
        metavar="N",
        help=f"number of results in the table; default {RESULTS:,}",
    )
    parser.add_argument(
        "--visits",
        type=int,
        default=VISITS,
        metavar="N",
        help=f"timed visits of each page, of which the median is printed; default {VISITS}",
    )
    arguments = parser.parse_args()
    if arguments.visits < 1:
        parser.error(f"--visits is {arguments.visits}. Hint: use a whole number from 1.")
    # SIGTERM then raises KeyboardInterrupt, so that the database is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from bench import stage

    bench_stage = stage.set_up()
    os.environ["STAFF_SECOND_FACTOR"] = "false"
    try:
        import django

        django.setup()
        from bench.pages import program

        return program.perform(arguments.results, arguments.visits)
    except KeyboardInterrupt:
        return 130
    finally:
        bench_stage.close()


if __name__ == "__main__":
    sys.exit(main())
