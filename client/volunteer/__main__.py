"""Lets `python -m volunteer` run."""

from __future__ import annotations

import sys

from volunteer.cli import main

if __name__ == "__main__":
    sys.exit(main())
