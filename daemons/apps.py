"""Tells Django what the daemons are called."""

from __future__ import annotations

from django.apps import AppConfig


class DaemonsConfig(AppConfig):
    """What moves work along."""

    name = "daemons"
    verbose_name = "Daemons"
