"""`python -m demo`: runs the demonstration; `--sample-work` submits sample work."""

from __future__ import annotations

import argparse
import os
import sys

EXPONENT_LIMIT = 5000


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m demo",
        description="Find the Mersenne primes below 2^2300, with a server and three volunteers.",
    )
    parser.add_argument(
        "--sample-work",
        action="store_true",
        help="instead publish the app mersenne in the project of VAR_DIR, and submit workunits",
    )
    parser.add_argument(
        "--below",
        type=int,
        default=EXPONENT_LIMIT,
        help=f"exponents of the sample work (below {EXPONENT_LIMIT})",
    )
    parser.add_argument("--quorum", type=int, default=1, help="quorum of the sample work (1)")
    arguments = parser.parse_args()
    if arguments.sample_work:
        return submit_sample_work(arguments.below, arguments.quorum)
    from demo.show import demonstrate

    return demonstrate()


def submit_sample_work(below: int, min_quorum: int) -> int:
    """Publish the app and submit workunits in the project of the environment."""
    import django
    from django.utils import timezone

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from demo import sample
    from scheduler.management.base import shell_actor
    from scheduler.people import audit

    with audit.acting(name=shell_actor()):
        message = sample.wait_for_volunteers(below=below, min_quorum=min_quorum, now=timezone.now())
    if message:
        print(message)
    return 0


if __name__ == "__main__":
    sys.exit(main())
