"""Lets a worker compare results, for the validator and `try_validator`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from daemons.science import worker
from daemons.science.comparison import TARGET, Answer, Question, read_answer

if TYPE_CHECKING:
    from datetime import timedelta

    from scheduler.apps.rules.plugins import Plugin

#: The maximum size in JSON of an agreeing pair of ids, and of the reason for a bad result; bytes.
_MAX_PAIR_BYTES, _MAX_REASON_BYTES = 48, 8192


def ask(
    question: Question, plugin: Plugin | None, time_limit: timedelta, *, reads: tuple[str, ...] = ()
) -> Answer:
    """Compare results in a worker; `reads` are folders in addition to those of every worker.

    Raises what `worker.call` raises.
    """
    count: Final = len(question.results)
    return worker.call(
        TARGET,
        question.message(),
        time_limit=time_limit,
        read=partial(read_answer, question),
        profile=worker.profile_of(plugin, *reads),
        max_answer=worker.MAX_ANSWER + count * (_MAX_REASON_BYTES + count * _MAX_PAIR_BYTES),
    )
