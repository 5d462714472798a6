"""Exceptions of the scientist's SDK and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

#: Maximum number of faults in the message of a ProblemError; `ProblemError.errors` has all faults.
_MAX_SHOWN_ERRORS = 10


class ScientistError(Exception):
    """The base class of all errors.

    `sentence` describes the error.  `hint` describes the remedy; it may be empty.
    """

    #: Exit code of the command line.
    exit_code: ClassVar[int] = 1

    def __init__(self, sentence: str, hint: str = "") -> None:
        self.sentence, self.hint = sentence, hint
        super().__init__(f"{sentence}\nHint: {hint}" if hint else sentence)

    def as_json(self) -> dict[str, Any]:
        """Return the error in the form of the command's JSON output."""
        error: dict[str, Any] = {"error": type(self).__name__, "detail": self.sentence}
        return error | ({"hint": self.hint} if self.hint else {})


class UsageError(ScientistError):
    """An argument, an option or an input is invalid."""

    exit_code = 2


class Unreachable(ScientistError):
    """The connection failed or broke off, or the answer is not from a Manyhands project."""

    exit_code = 3


class Interrupted(ScientistError):
    """The user interrupted a submission with Ctrl-C.  `sentence` describes the outcome."""

    exit_code = 130


class NotLoggedIn(ScientistError):
    """There is no login, address or token, or the project refused the token."""

    exit_code = 7


class Damaged(ScientistError):
    """A download cannot be used.

    The file does not have the declared size or digest, is not a regular file, or was lost by the
    project.
    """


class UnsafeName(Damaged):
    """A name in an archive is not safe, for example because it leaves the target folder.

    The file with this name was not written.
    """


class PlaceTaken(ScientistError):
    """Another file exists at the path of an output; the existing file was not changed."""


class BatchFailed(ScientistError):
    """At least one workunit of a batch failed."""

    exit_code = 6


class WorkunitFailed(ScientistError):
    """A workunit failed.

    `errors` has the names of the server's error flags (``CANCELLED``, ...).  `stderr` has the
    stderr of the workunit's results, the newest last; it may be empty.
    """

    exit_code = 6

    def __init__(self, name: str, errors: Sequence[str], stderr: str = "") -> None:
        self.name, self.errors, self.stderr = name, tuple(errors), stderr
        reasons = ", ".join(errors) or "reason unknown"
        last_line = stderr.strip().splitlines()[-1:]
        ending = f" Its stderr ends: {last_line[0][:200]}" if last_line else ""
        super().__init__(f"Workunit {name} failed: {reasons}.{ending}")


class ProblemError(ScientistError):
    """The project answered a request with an error.  `errors` has the faults that the API sent."""

    exit_code = 4

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code") or status)
        self.errors: tuple[Mapping[str, Any], ...] = tuple(
            fault for fault in body.get("errors") or () if isinstance(fault, Mapping)
        )
        detail = str(body.get("detail") or body.get("title") or f"HTTP status {status}")
        detail, _, hint_in_detail = detail.partition(" Hint: ")
        hint = str(body.get("hint") or hint_in_detail)
        lines = [f"  {_fault_line(fault)}" for fault in self.errors[:_MAX_SHOWN_ERRORS]]
        if len(self.errors) > _MAX_SHOWN_ERRORS:
            lines.append(f"  ... and {len(self.errors) - _MAX_SHOWN_ERRORS} more.")
        sentence = "\n".join([detail, *lines])
        # If a fault already shows this hint, it is not repeated at the end.
        super().__init__(sentence, "" if hint and f"Hint: {hint}" in sentence else hint)
        self.detail, self.hint = detail, hint

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the API's problem document and the name of the exception."""
        error = {"error": type(self).__name__, "status": self.status, "code": self.code}
        error |= {"detail": self.detail, "hint": self.hint}
        return error | ({"errors": [dict(fault) for fault in self.errors]} if self.errors else {})


def _fault_line(fault: Mapping[str, Any]) -> str:
    where = f"line {fault['line']}" if fault.get("line") is not None else ""
    where = ", ".join(part for part in (where, str(fault.get("pointer") or "")) if part)
    hint = f" Hint: {fault['hint']}" if fault.get("hint") else ""
    return f"{where}{': ' if where else ''}{fault.get('detail', '')}{hint}"


class TokenRefused(ProblemError, NotLoggedIn):
    """The token is unknown, expired or revoked, or the password is wrong (401)."""

    exit_code = 7


class NotAllowed(ProblemError):
    """The token or the account does not permit the request (403)."""


class NotFoundError(ProblemError):
    """The object does not exist or belongs to another account (404, 410)."""

    exit_code = 5


class Conflict(ProblemError):
    """The request conflicts with the current state (409, 412)."""


class Invalid(ProblemError):
    """The request is invalid (400, 413, 415, 422).  `errors` has the faults."""


class QuotaError(ProblemError):
    """A quota or the limit of the request rate is exceeded (429).

    The quotas limit the unfinished work and the size of kept files.
    """


class ServerFault(ProblemError):
    """The server failed (5xx)."""

    exit_code = 3


_BY_STATUS: dict[int, type[ProblemError]] = {
    400: Invalid,
    401: TokenRefused,
    403: NotAllowed,
    404: NotFoundError,
    409: Conflict,
    410: NotFoundError,
    412: Conflict,
    413: Invalid,
    415: Invalid,
    422: Invalid,
    429: QuotaError,
}
_FIRST_SERVER_ERROR = 500


def problem(status: int, body: Mapping[str, Any]) -> ProblemError:
    """Return the exception for an error response with this status and problem document.

    >>> problem(404, {"detail": "There is no such batch."}).exit_code
    5
    """
    if "quota" in str(body.get("code", "")):
        return QuotaError(status, body)
    fallback = ServerFault if status >= _FIRST_SERVER_ERROR else ProblemError
    return _BY_STATUS.get(status, fallback)(status, body)
