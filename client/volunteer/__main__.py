"""Runs the volunteer client: `python -m volunteer`."""

from __future__ import annotations

import sys

from volunteer.cli import main

if __name__ == "__main__":
    sys.exit(main())
