"""Configures the Django app of the daemons."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate
from django.utils import timezone


class DaemonsConfig(AppConfig):
    name = "daemons"
    verbose_name = "Daemons"

    def ready(self) -> None:
        """Connect a handler that creates the ledger's partitions after each migration."""
        # Django sends the signal only for apps with models; the ledger's model is in `scheduler`.
        post_migrate.connect(_tend_ledger, sender=apps.get_app_config("scheduler"))


def _tend_ledger(**_signal: object) -> None:
    from daemons import purger  # noqa: PLC0415  models are loaded only now

    purger.tend_ledger(now=timezone.now(), max_moved=None)
