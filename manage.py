#!/usr/bin/env python3
"""Runs the project's commands: `manage.py help` lists them."""

from __future__ import annotations

import os
import sys

EXIT_REFUSED = 2


def main(words: list[str]) -> int:
    """Run one command; returns its exit code.

    Errors that the user can correct are printed without a traceback.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    try:
        from django.core.management import execute_from_command_line  # noqa: PLC0415
        from django.db import NotSupportedError, OperationalError  # noqa: PLC0415

        from project.env import BadSetting  # noqa: PLC0415
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"{error}.\nHint: `make setup` creates .venv; then .venv/bin/python manage.py.\n"
        )
        return EXIT_REFUSED
    try:
        execute_from_command_line(words)
    except (BadSetting, NotSupportedError, OperationalError) as error:
        if "--traceback" in words:
            raise
        sys.stderr.write(f"{error}\n")
        return EXIT_REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
