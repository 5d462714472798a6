"""What can go wrong between a scientist and a project, one exception each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

#: How many faults of a refused submission a message shows; `ProblemError.errors` has them all.
_SHOWN = 10


class ScientistError(Exception):
    """Something went wrong: `sentence` says what, `hint` says what to do."""

    #: What the command line exits with.
    exit_code: ClassVar[int] = 1

    def __init__(self, sentence: str, hint: str = "") -> None:
        self.sentence, self.hint = sentence, hint
        super().__init__(f"{sentence}\nHint: {hint}" if hint else sentence)

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        said: dict[str, Any] = {"error": type(self).__name__, "detail": self.sentence}
        return said | ({"hint": self.hint} if self.hint else {})


class UsageError(ScientistError):
    """What was asked for makes no sense; nothing was done."""

    exit_code = 2


class Unreachable(ScientistError):
    """No answer came: no connection, a broken one, or one that is no project's."""

    exit_code = 3


class Interrupted(ScientistError):
    """Ctrl-C in the middle of something that a project may still carry out."""

    exit_code = 130


class NotLoggedIn(ScientistError):
    """There is no token, or the project knows it no longer."""

    exit_code = 7


class Damaged(ScientistError):
    """What arrived is not what the project said it would be; nothing of it was kept."""


class UnsafeName(Damaged):
    """A name in an archive points out of its folder; nothing was written there."""


class PlaceTaken(ScientistError):
    """Something else is where an output would go; it was left as it is."""


class BatchFailed(ScientistError):
    """Some workunits of a batch ended without an answer."""

    exit_code = 6


class WorkunitFailed(ScientistError):
    """A workunit ended without an answer.

    `errors` has the reasons in the words of the law (``CANCELLED``, ...); `stderr` is what the
    program wrote last, as far as a result of it arrived.
    """

    exit_code = 6

    def __init__(self, name: str, errors: Sequence[str], stderr: str = "") -> None:
        self.name, self.errors, self.stderr = name, tuple(errors), stderr
        reasons = ", ".join(errors) or "no reason is known"
        last = stderr.strip().splitlines()[-1:]
        said = f" Its program said: {last[0][:200]}" if last else ""
        super().__init__(f"Workunit {name} failed: {reasons}.{said}")


class ProblemError(ScientistError):
    """The project refused.  `errors` are its single faults, as the project sent them."""

    exit_code = 4

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        self.status = status
        self.code = str(body.get("code") or status)
        self.errors: tuple[Mapping[str, Any], ...] = tuple(
            one for one in body.get("errors") or () if isinstance(one, Mapping)
        )
        detail = str(body.get("detail") or body.get("title") or f"HTTP status {status}")
        detail, _, said = detail.partition(" Hint: ")
        hint = str(body.get("hint") or said)
        lines = [f"  {_fault(one)}" for one in self.errors[:_SHOWN]]
        if len(self.errors) > _SHOWN:
            lines.append(f"  ... and {len(self.errors) - _SHOWN} more.")
        sentence = "\n".join([detail, *lines])
        # A fault's own hint is not repeated below all of them.
        super().__init__(sentence, "" if hint and f"Hint: {hint}" in sentence else hint)
        self.detail, self.hint = detail, hint

    def as_json(self) -> dict[str, Any]:
        """The problem as the project put it."""
        said = {"error": type(self).__name__, "status": self.status, "code": self.code}
        said |= {"detail": self.detail, "hint": self.hint}
        return said | ({"errors": [dict(one) for one in self.errors]} if self.errors else {})


def _fault(one: Mapping[str, Any]) -> str:
    where = f"line {one['line']}" if one.get("line") is not None else ""
    where = ", ".join(part for part in (where, str(one.get("pointer") or "")) if part)
    hint = f" Hint: {one['hint']}" if one.get("hint") else ""
    return f"{where}: {one.get('detail', '')}{hint}" if where else f"{one.get('detail', '')}{hint}"


class TokenRefused(ProblemError, NotLoggedIn):
    """The token is unknown, expired or revoked, or the password is wrong (401)."""

    exit_code = 7


class NotAllowed(ProblemError):
    """The token or the account may not do this (403)."""


class NotFoundError(ProblemError):
    """There is no such thing, or it is another's (404, 410)."""

    exit_code = 5


class Conflict(ProblemError):
    """It stands against what is there already (409, 412)."""


class Invalid(ProblemError):
    """The request makes no sense to the project; `errors` says where (400, 413, 415, 422)."""


class QuotaError(ProblemError):
    """More than this account may have unfinished, keep or ask (a quota, 429)."""


class ServerFault(ProblemError):
    """The project could not answer, through no fault of yours (5xx)."""

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
_FIRST_OF_SERVER = 500


def problem(status: int, body: Mapping[str, Any]) -> ProblemError:
    """The exception for an answer that is none.

    >>> problem(404, {"detail": "There is no such batch."}).exit_code
    5
    """
    if "quota" in str(body.get("code", "")):
        return QuotaError(status, body)
    usual = ServerFault if status >= _FIRST_OF_SERVER else ProblemError
    return _BY_STATUS.get(status, usual)(status, body)
