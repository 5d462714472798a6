"""Tells Django what the scheduler's domain is called."""

from __future__ import annotations

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """The domain: what is known, decided and said."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Manyhands"

    def ready(self) -> None:
        """Give a fresh project its keys, before anything asks for one."""
        from scheduler import signing  # noqa: PLC0415  settings are complete only now

        signing.ensure_keys()
