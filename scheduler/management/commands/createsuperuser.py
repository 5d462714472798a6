"""Creates a superuser as Django does, and records the actor in the audit log."""

from __future__ import annotations

from django.contrib.auth.management.commands import createsuperuser

from scheduler.management.base import ShellActor


class Command(ShellActor, createsuperuser.Command):
    """Django's `createsuperuser`, with audit entries that name the user of the command."""
