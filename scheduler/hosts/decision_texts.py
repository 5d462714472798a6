"""Explains the outcomes of a host's last work requests to its owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

_MAX_REASONS: Final = 30
_MAX_NAME, _MAX_TEXT = 60, 300
#: Reasons for refusal (`dispatch.rules.fit.RefusalReason`) as sentences about the owner's computer.
WHY: Final = {
    "taste": "your preferences exclude the app, beta apps or a keyword",
    "no_version": "the app has no version for this kind of computer",
    "own_version": "your app_info.xml has no usable version of the app",
    "plan_class": "the computer lacks something that the app version needs",
    "device": "the app runs on devices for which your client requested no work",
    "committed": "the work is bound to another class of computers or another app version",
    "rollout": "a new version of the app is sent to other computers first",
    "unknown_class": "the server cannot classify this computer",
    "quota": "the computer has reached its daily quota; valid results raise it",
    "cpus": "the work needs more processors than the computer offers",
    "gpus": "the work needs more GPUs than the computer offers",
    "memory": "the work needs more memory than BOINC may use here; see your preferences",
    "disk": "the work needs more disk space than BOINC may use here; see your preferences",
    "disk_taken": "other results of the same request need the disk space",
    "bandwidth": "the work needs a faster network connection",
    "deadline": "the computer would not finish the work before its deadline",
    "reserved": "the work is reserved for reliable computers for some time",
    "in_progress_limit": "the computer has its maximum of results in progress",
    "output_limit": "the outputs of the results in progress could exceed a limit",
    "queue_stopped": "the project has stopped this kind of work",
    "queue_disabled": "the project has paused this kind of work",
    "queue_hosts": "this kind of work goes to other computers",
    "queue_full": "enough of this kind of work is in progress",
    "queue_unwanted": "the settings of your client exclude this kind of work",
}
#: The text for a request for which no result was refused.
NO_RESULTS: Final = "the project had no results to send"
#: Reasons whose sentences describe the project's queues, which are no business of volunteers.
_INTERNAL: Final = "queue_"


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason why `count` results were not sent; `detail` has the values, or is empty."""

    name: str
    count: int
    text: str
    detail: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a work request; `at` is None if the stored time is unreadable."""

    at: datetime | None
    sent: int
    resent: int
    reasons: tuple[Reason, ...]
    messages: tuple[str, ...]

    @property
    def summary(self) -> str:
        """The outcome in one sentence."""
        if self.sent or self.resent:
            again = f", and {_results(self.resent)} sent again" if self.resent else ""
            return f"{_results(self.sent)} sent{again}"
        if self.reasons:
            return "No work: the available results do not fit this computer"
        return f"No work: {NO_RESULTS}"


def read_decision(stored: object) -> Decision | None:
    """Return a decision of `models.Host.last_decisions`, or None if it is unreadable.

    >>> read_decision({"at": "2026-01-01T12:00:00+00:00", "given": 2}).summary
    '2 results sent'
    """
    if not isinstance(stored, Mapping):
        return None
    refused, sentences = _mapping(stored.get("refused")), _mapping(stored.get("sentences"))
    reasons = tuple(
        _reason(str(name), _number(count), sentences.get(name))
        for name, count in list(refused.items())[:_MAX_REASONS]
    )
    stored_messages = stored.get("said")
    texts = stored_messages[:_MAX_REASONS] if isinstance(stored_messages, list) else []
    return Decision(
        at=_time(stored.get("at")),
        sent=_number(stored.get("given")),
        resent=_number(stored.get("resent")),
        reasons=reasons,
        messages=tuple(str(text)[:_MAX_TEXT] for text in texts),
    )


def _reason(name: str, count: int, sentence: object) -> Reason:
    detail = "" if sentence is None or name.startswith(_INTERNAL) else str(sentence)[:_MAX_TEXT]
    short = name[:_MAX_NAME]
    return Reason(short, count, WHY.get(name, short.replace("_", " ")), detail)


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _time(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value))
    except ValueError:
        return None


def _results(count: int) -> str:
    return f"{count} result" if count == 1 else f"{count} results"
