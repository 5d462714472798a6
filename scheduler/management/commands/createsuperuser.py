"""Creates a superuser with Django's command, and writes audit entries."""

from __future__ import annotations

from django.contrib.auth.management.commands import createsuperuser

from scheduler.management.base import ShellActor


class Command(ShellActor, createsuperuser.Command):
    """Django's `createsuperuser`, with audit entries for the operating-system user."""

    requires_system_checks = ()
