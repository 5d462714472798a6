"""Tells Django what the scheduler's domain is called."""

from __future__ import annotations

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """The domain: what is known, decided and said."""

    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Manyhands"
