"""Settings of a story's project that writes its mails to files in VAR_DIR."""

from __future__ import annotations

from project import settings
from project.settings import *  # noqa: F403  all settings of the project

EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
EMAIL_FILE_PATH = settings.VAR_DIR / "mails"
