"""Creates a superuser as Django does, and records the actor in the audit log."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.management.commands import createsuperuser

from scheduler.management.conversation import as_shell


class Command(createsuperuser.Command):
    """Django's command of this name."""

    @as_shell
    def handle(self, *args: Any, **options: Any) -> Any:
        return super().handle(*args, **options)
