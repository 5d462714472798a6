"""Reads the report of a program with the success rule `runner` [pure].

The contract is Disbatch's (seed D-27): the program writes a JSON object with a `status` and,
optionally, the texts `stdout` and `stderr`.  A status must be a positive number: 1 is success, 2 is
failure, and the others are the app's own.  Every other status counts as 2.  The launcher passes the
object in a line of the reported standard error output.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

FAILED_STATUS = 2
_MAX_STATUS = 2**31 - 1
_LINE = re.compile(r"^manyhands-runner: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunnerReport:
    """The report of a program; `stdout` is None if it is only in the first output file.

    `stderr` is the reported standard error output, with the program's text in place of the
    launcher's line.
    """

    status: int
    stdout: str | None
    stderr: str


def read_report(reported: str) -> RunnerReport:
    r"""Return the report in a reported standard error output.

    >>> read_report('<stderr_txt>\nmanyhands-runner: {"status": 7, "stderr": "so"}\n</stderr_txt>')
    RunnerReport(status=7, stdout='', stderr='<stderr_txt>\nso\n</stderr_txt>')
    >>> read_report("no report")
    RunnerReport(status=2, stdout='', stderr='no report')
    """
    # The launcher's line is the last one; a program may have written others.
    lines = list(_LINE.finditer(reported))
    if not lines:
        return RunnerReport(FAILED_STATUS, "", reported)
    line = lines[-1]
    fields = _read_object(line[1])
    own = _text(fields.get("stderr"))
    return RunnerReport(
        status=_status(fields.get("status")),
        stdout=None if fields.get("in_file") is True else _text(fields.get("stdout")),
        stderr=f"{reported[: line.start()]}{own}{reported[line.end() :]}",
    )


def _read_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _status(value: object) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value <= _MAX_STATUS else FAILED_STATUS  # type: ignore[operator, return-value]


def _text(value: object) -> str:
    """Return a text that PostgreSQL can store; empty for other values."""
    if not isinstance(value, str):
        return ""
    # JSON can contain halves of surrogate pairs, which UTF-8 cannot.
    return value.encode("utf-8", "replace").decode("utf-8").replace("\x00", "")
