"""Runs the `scientist` command as `python -m scientist`."""

from __future__ import annotations

import sys

from scientist.cli import main

if __name__ == "__main__":
    sys.exit(main())
