"""Replaces a key by a new one; what the old one signed or granted stays good."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from scheduler import signing
from scheduler.management.conversation import as_shell
from scheduler.operations import app_versions


class Command(BaseCommand):
    """Rotate the code-sign key or the upload-grant key."""

    help = "Replace a key of the project, for instance after a machine was broken into."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the options."""
        parser.add_argument("key", choices=("code-sign", "upload-grant"), help="which key")

    @as_shell
    def handle(self, *_args: Any, key: str, **_options: Any) -> None:
        """Rotate, and say what follows."""
        if key == "upload-grant":
            signing.rotate_upload_grant_key()
            self.stdout.write(
                "Uploads are granted by a new key from now on; grants given before stay good."
            )
            return
        count = app_versions.rotate_key()
        self.stdout.write(
            f"A new code-sign key is in force and {count} app files are signed by it; "
            "clients take it over by the old key's signature."
        )
