"""Compares a workunit's results in a worker process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from daemons.science import worker
from daemons.science.comparison import Answer, Question
from daemons.science.interfaces import STDERR, BadOptions, ReportedOutput
from daemons.science.validators import READS_STDERR, allowed
from daemons.validator.comparing import Comparison, reported_outputs
from daemons.validator.settling import PACKAGE
from scheduler import sql, storage
from scheduler.apps.rules.plugins import UnknownPlugin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from daemons.validator.comparing import PendingWorkunit, Success


def answer_of(
    workunit: PendingWorkunit,
    successes: Sequence[Success],
    stderrs: Mapping[int, str],
    time_limit: timedelta,
) -> Answer:
    """Compare these successes with each other, or with the canonical result if there is one.

    `stderrs` maps result ids to standard error.  Raises the exceptions of `worker.call`.
    """
    try:
        target, options, plugin = allowed(
            workunit.validator, workunit.validator_options, settings.PLUGINS
        )
    except (UnknownPlugin, BadOptions) as error:
        return Answer(unusable=str(error))
    question = Question(
        validator=target,
        options=options,
        folder=worker.science_folder(),
        results={
            success.id: reported_outputs(workunit, success, _path)
            + _stderr(stderrs.get(success.id))
            for success in successes
        },
        canonical=workunit.canonical_result_id,
        at_least=workunit.min_quorum,
    )
    return worker.compare(question, plugin, time_limit)


def comparison_of(answer: Answer) -> Comparison[int]:
    """Return a comparison that looks up a validator's answer.

    The evidence of a result is its id, or None if its outputs could not be read.
    """
    return Comparison(
        lambda success: None if success.id in answer.bad else success.id,
        answer.agree,
        answer.suspicious,
    )


def stderrs_of(validator: str, successes: Sequence[Success]) -> dict[int, str]:
    """Return the standard error of each result, by result id.

    The dict is empty if the validator does not read standard error.
    """
    if validator not in READS_STDERR or not successes:
        return {}
    rows = sql.fetch("read_stderrs", {"ids": [success.id for success in successes]}, PACKAGE)
    return {row["id"]: row["stderr"] for row in rows}


def _path(name: str) -> str:
    return str(storage.upload_path(name))


def _stderr(text: str | None) -> list[ReportedOutput]:
    return [] if text is None else [ReportedOutput(STDERR, "stderr", sha256="", text=text)]
