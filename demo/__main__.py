"""`python -m demo`: the demonstration; --sample-work only submits its work."""

from __future__ import annotations

import argparse
import os
import sys

BELOW = 5000


def main() -> int:
    """Choose between the two; both need Django's settings."""
    options = argparse.ArgumentParser(
        prog="python -m demo",
        description="Find the Mersenne primes below 2^2300, with a server and three volunteers.",
    )
    options.add_argument(
        "--sample-work",
        action="store_true",
        help="instead publish the app mersenne in the project of VAR_DIR, and submit workunits",
    )
    options.add_argument(
        "--below", type=int, default=BELOW, help=f"exponents of the sample work (below {BELOW})"
    )
    options.add_argument("--quorum", type=int, default=1, help="quorum of the sample work (1)")
    given = options.parse_args()
    if given.sample_work:
        return submit_sample_work(given.below, given.quorum)
    from demo.show import demonstrate

    return demonstrate()


def submit_sample_work(below: int, min_quorum: int) -> int:
    """Publish and submit in the project of the environment."""
    import django
    from django.utils import timezone

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()
    from demo import sample
    from scheduler.management.conversation import shell_actor
    from scheduler.people import audit

    with audit.acting(name=shell_actor()):
        said = sample.wait_for_volunteers(below=below, min_quorum=min_quorum, now=timezone.now())
    if said:
        print(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
