"""Formats log records, as columns for people or as JSON lines for programs."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import Any

#: The attributes of every record; all other attributes were passed as `extra`.
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
HIDDEN = STANDARD | {"request", "server_time", "status_code"}


#: Django logs suspicious requests with these loggers.  The tracebacks are useless, and any client
#: could fill the log with them by sending wrong Host headers.
SUSPICIOUS = "django.security."
#: Text from a request must not start a new line of the log.
_CONTROL = {code: f"\\x{code:02x}" for code in [*range(32), 127, 0x85, 0x2028, 0x2029]}


def has_traceback(record: logging.LogRecord) -> bool:
    """Return whether the record has a traceback and is not about a suspicious request."""
    return bool(record.exc_info) and not record.name.startswith(SUSPICIOUS)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields that were passed as `extra`."""
    return {name: value for name, value in vars(record).items() if name not in HIDDEN}


class NotOfCommands(logging.Filter):
    """Drops the audit entries of commands, so that a command prints only its own output.

    These entries are in the database, and in the file `AUDIT_LOG` if this is set.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        # Only requests from the network have an address.
        return record.name != "manyhands.audit" or bool(fields(record).get("address"))


class Columns(logging.Formatter):
    """Formats time (UTC), level, logger and event as columns, then the fields as name=value."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line for a record, with the traceback in the next lines if there is one."""
        at = time.strftime("%H:%M:%S", time.gmtime(record.created))
        event = record.getMessage().translate(_CONTROL)
        line = f"{at} {record.levelname:<7} {record.name:<22} {event}"
        for name, value in fields(record).items():
            line += f" {name}={str(value).translate(_CONTROL)}"
        if record.exc_info and has_traceback(record):
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object: at, level, logger, event, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line of JSON, with a traceback if there is one.

        Values that JSON cannot represent are converted to strings.
        """
        at = datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds")
        entry = {
            "at": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **fields(record),
        }
        if record.exc_info and has_traceback(record):
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str, ensure_ascii=False)


def configuration(form: str, *, level: str, audit_log: str | None = None) -> dict[str, Any]:
    """Return Django's LOGGING for `form`, which is text or json.

    The logger `manyhands.audit` appends lines of JSON to the file `audit_log`, also if `form` is
    text.  The file is opened again after a rotation.  If `audit_log` is None, audit records are
    written to the common log.
    """
    formatter = JsonLines if form == "json" else Columns
    config: dict[str, Any] = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": formatter}},
        "filters": {"not_of_commands": {"()": NotOfCommands}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["not_of_commands"],
            },
        },
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # The web server logs requests, too, and an invalid request needs no warning.
            "django.request": {"level": "ERROR"},
            "django.server": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
            "psycopg.pool": {"level": "ERROR"},
            "httpx": {"level": "WARNING"},
            # Celery logs lines for every message, which contain nothing about the work.
            "celery": {"level": "WARNING"},
            "celery.worker.consumer.connection": {"level": "INFO"},
            # This level does not depend on LOG_LEVEL, because audit entries must not be dropped.
            "manyhands.audit": {"level": "INFO"},
        },
    }
    if audit_log is not None:
        config["formatters"]["json"] = {"()": JsonLines}
        config["handlers"]["audit"] = {
            "class": "logging.handlers.WatchedFileHandler",
            "filename": audit_log,
            "formatter": "json",
            "delay": True,
        }
        config["loggers"]["manyhands.audit"] |= {"handlers": ["audit"], "propagate": False}
    return config
