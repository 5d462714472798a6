"""Assimilates by running a program of the allow-list (``script:PROGRAM``).

The command is ``PROGRAM KEY WORKUNIT FILE...``.  Environment variables (``MANYHANDS_...``) contain
these values and more.  Exit status 0 means that the workunit is assimilated.  Exit status 3
requests a retry, which is at least SECONDS later if the last line of standard output is
``defer SECONDS``.  Any other status is a failure.  The program's standard error is
stored with it.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from daemons.science import checking
from daemons.science.interfaces import Defer, TransientScienceError
from daemons.science.kernel import ending
from daemons.science.messages import optional
from daemons.science.moments import defer_message, read_defer
from daemons.science.script import ScriptFailed, end_of, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemons.science.interfaces import Assimilation
    from scheduler.apps.rules.plugins import Plugin

#: The exit status that requests a retry.
TRY_AGAIN = 3
_MAX_EXCERPT = 8000
_KNOWN = {"arguments": checking.texts, "environment": checking.texts_by_name}


@dataclass(frozen=True, slots=True)
class RunScript:
    """An assimilator that runs a program; `arguments` precede the key in the command."""

    program: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    plugin: Plugin
    time_limit: timedelta
    transactional: ClassVar[bool] = False

    def __call__(self, assimilation: Assimilation) -> Defer | None:
        """Run the program in a worker, which is killed with all its children at the time limit."""
        from daemons.science import worker  # noqa: PLC0415 - the worker itself has no Django

        paths = [str(output.path) for output in assimilation.outputs]
        return worker.call(
            "daemons.science.run_script:run",
            [self.program, *self.arguments, assimilation.key, assimilation.workunit_name, *paths],
            {**environment_of(assimilation), **self.environment},
            time_limit=self.time_limit,
            read=optional(read_defer),
            profile=worker.profile_of(self.plugin),
        )


def make(plugin: Plugin, options: object, folder: str, time_limit: timedelta) -> RunScript:
    """Return the assimilator that runs a plug-in's program; raises `BadOptions`.

    A relative path of the program is relative to `folder`.
    """
    read = checking.checked("script", options, _KNOWN)
    program = plugin.path if plugin.path.startswith("/") else f"{folder}/{plugin.path}"
    arguments, environment = read.get("arguments", ()), read.get("environment", {})
    return RunScript(program, arguments, environment, plugin, time_limit)


def environment_of(assimilation: Assimilation) -> dict[str, str]:
    """Return the environment variables that describe the workunit to the program."""
    files = {
        output.open_name or f"output_{output.position}": str(output.path)
        for output in assimilation.outputs
    }
    return {
        "MANYHANDS_KEY": assimilation.key,
        "MANYHANDS_WORKUNIT": assimilation.workunit_name,
        "MANYHANDS_WORKUNIT_ID": str(assimilation.workunit_id),
        "MANYHANDS_APP": assimilation.app,
        "MANYHANDS_BATCH_ID": str(assimilation.batch_id or ""),
        "MANYHANDS_META": json.dumps(assimilation.meta),
        "MANYHANDS_OUTPUTS": json.dumps(files),
        "MANYHANDS_FAILED": str(int(assimilation.failed)),
        "MANYHANDS_ERRORS": ",".join(assimilation.errors),
        "MANYHANDS_CANCEL_REASON": assimilation.cancel_reason,
    }


def run(command: list[str], variables: dict[str, str]) -> dict[str, Any] | None:
    """Run a program to its end, in the worker; return None, or a `Defer` as JSON.

    Raises `ScriptFailed`, and `TransientScienceError` if it requests a retry.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        status = start(command, output, errors, env={**os.environ, **variables}).wait()
        if status == 0:
            return None
        excerpt = end_of(errors, _MAX_EXCERPT)
        if status == TRY_AGAIN:
            if match := re.search(r"(?:^|\n)defer (\d{1,9})\s*$", end_of(output, _MAX_EXCERPT)):
                return defer_message(Defer(timedelta(seconds=int(match[1])), excerpt))
            raise TransientScienceError(f"{command[0]} requested a later retry.\n{excerpt}")
        raise ScriptFailed(f"{command[0]} ended with {ending(status)}.\n{excerpt}".rstrip())
