"""The Django app configurations of the scheduler and of allauth's tables."""

from __future__ import annotations

from allauth.account.apps import AccountConfig
from allauth.mfa.apps import MFAConfig
from allauth.socialaccount.apps import SocialAccountConfig
from django.apps import AppConfig
from django.apps import apps as installed
from django.apps.registry import Apps
from django.conf import settings
from django.core import checks
from django.db import DEFAULT_DB_ALIAS
from django.db.models.signals import post_migrate


class SchedulerConfig(AppConfig):
    name = "scheduler"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = "Manyhands"

    def ready(self) -> None:
        """Create missing keys, and connect signal receivers and checks."""
        from scheduler import signing  # noqa: PLC0415  settings are complete only now

        signing.ensure_keys()
        post_migrate.connect(_guard, sender=self)
        post_migrate.connect(_set_roles, sender=self)
        from scheduler.people import logins, second_factors  # noqa: PLC0415  as above

        logins.connect()
        second_factors.connect()
        from scheduler.apps.apps import field_checks  # noqa: PLC0415
        from scheduler.boinc_submission import templates  # noqa: PLC0415

        field_checks.append(templates.faults)
        from scheduler.sql import database_roles  # noqa: PLC0415

        checks.register(database_roles.warn_of_excess, checks.Tags.database, deploy=True)


class EmailAddressesConfig(AccountConfig):
    """allauth's e-mail addresses; only `project.urls` imports its pages and our adapter."""

    def ready(self) -> None:
        """Register no checks of the adapter, so that daemons and commands do not import pages."""


class SecondFactorConfig(MFAConfig):
    """allauth's second factors; only `project.urls` imports its pages."""

    def ready(self) -> None:
        """Connect no receiver: allauth's pages for several addresses are not used."""


class LoginProvidersConfig(SocialAccountConfig):
    """allauth's log-ins with other sites; only `project.urls` imports its pages."""

    def ready(self) -> None:
        """Load no providers: `web.accounts.openid` registers the only kind."""


def _guard(**_signal: object) -> None:
    """Install the guard triggers, which refuse illegal moves, if `GUARD_TRIGGER` is set."""
    from scheduler.sql import guard_triggers  # noqa: PLC0415  models are complete only now

    if settings.GUARD_TRIGGER and not guard_triggers.is_installed():
        guard_triggers.install()


def _set_roles(using: str, apps: Apps = installed, **_signal: object) -> None:
    """Give the group of each role the permissions that this release defines for the role.

    The function does nothing if the tables do not exist yet, for example after a migration of
    another app.
    """
    from scheduler.people import roles  # noqa: PLC0415  models are complete only now

    try:
        apps.get_model("auth", "Group")
        apps.get_model("scheduler", "AuditEntry")
    except LookupError:
        return
    if using == DEFAULT_DB_ALIAS:
        roles.set_up()
