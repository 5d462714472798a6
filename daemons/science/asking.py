"""Asks a worker to compare results, for the validator and for those who try one."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from daemons.science import worker
from daemons.science.comparison import TARGET, Answer, Question, read_answer

if TYPE_CHECKING:
    from datetime import timedelta

    from scheduler.policy.plugins import Plugin

#: An agreeing pair of ids in JSON, and the longest reason why a result is bad; bytes.
_PAIR, _REASON = 48, 8192


def ask(
    question: Question, plugin: Plugin | None, time_limit: timedelta, *, reads: tuple[str, ...] = ()
) -> Answer:
    """Have a worker compare; `reads` are folders beside those of every worker.

    Raises what `worker.call` raises.
    """
    count: Final = len(question.results)
    return worker.call(
        TARGET,
        question.message(),
        time_limit=time_limit,
        read=partial(read_answer, question),
        profile=worker.profile_of(plugin, *reads),
        max_answer=worker.MAX_ANSWER + count * (_REASON + count * _PAIR),
    )
