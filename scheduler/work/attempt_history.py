"""Reads the attempts at a workunit: rounds, resource usage and statistics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from scheduler import sql, storage
from scheduler.models import LedgerEntry, Result, ResultFile, Workunit
from scheduler.results.facts import ResultFacts, WorkunitFacts
from scheduler.work.explain import workunit_facts
from scheduler.work.facts import Attempt, MoveFacts, OutputFacts, UsageFacts
from scheduler.work.rules import predecessor_states, rounds
from scheduler.work.rules.rounds import Round
from scheduler.work.timeline import describe_move, moves_of

#: Limits of one answer: the newest attempts and moves.
MAX_ATTEMPTS: Final = 1000
MAX_MOVES: Final = 10_000
#: Number of newest attempts whose samples and texts are read.  With all of them, an answer would
#: have up to 30 MB of samples and 64 MB of texts.
MAX_DETAILED: Final = 50
#: Maximum number of samples of an attempt, and of bytes of an output.
MAX_SAMPLES: Final = 100
MAX_OUTPUT_BYTES: Final = 64 * 1024

_COLUMNS: Final = (
    *("id", "name", "attempt", "server_state", "outcome", "validate_state", "exit_status"),
    *("host_id", "created_at", "sent_at", "acknowledged_at", "report_deadline", "received_at"),
    *("fraction_done", "cpu_time", "elapsed_time", "peak_working_set_bytes", "app_status"),
)


class NeverSent(LookupError):
    """No result of the workunit was sent to a host. Hint: read its `rounds` or `timeline`."""


@dataclass(frozen=True, slots=True)
class OtherReplica:
    """The rounds of a replica other than the first."""

    replica: int
    round: int
    timeline: dict[str, float | str]


@dataclass(frozen=True, slots=True)
class Rounds:
    """A workunit with TDF's attributes; `timeline` has the rounds of its first replica."""

    name: str
    state: str
    round: int
    fails: int
    timeouts: int
    timeline: dict[str, float | str]
    other_replicas: tuple[OtherReplica, ...]
    log: str


@dataclass(frozen=True, slots=True)
class Execution:
    """One attempt at a workunit, with its states in TDF2 and Disbatch."""

    round: Round
    tdf2: str
    disbatch_status: int

    @property
    def attempt(self) -> Attempt:
        """The result of this attempt."""
        return self.round.attempt

    @property
    def cpu_utilization(self) -> tuple[float | None, ...]:
        """The CPUs in use at each sample, or a single value from the report of the result."""
        if self.attempt.samples:
            return rounds.cpu_utilization(self.attempt.samples)
        elapsed = self.attempt.elapsed_time
        return (self.attempt.cpu_time / elapsed,) if elapsed > 0 else ()


@dataclass(frozen=True, slots=True)
class States:
    """The state of a workunit in each of the older systems."""

    tdf: str
    tdf2: str
    eve: str
    disbatch_status: int


@dataclass(frozen=True, slots=True)
class History:
    """The attempts at a workunit that were sent, oldest first; `retry_count` is their number."""

    name: str
    states: States
    retry_count: int
    history: tuple[Execution, ...]


@dataclass(frozen=True, slots=True)
class Statistics:
    """Figures of the results of a workunit or a batch; means and maxima are None without a value.

    Times are in seconds: waiting from creation to sending, turnaround from sending to the report.
    """

    results: int
    sent: int
    in_progress: int
    successes: int
    errors: int
    timeouts: int
    cpu_seconds: float
    elapsed_seconds: float
    mean_elapsed_seconds: float | None
    max_elapsed_seconds: float | None
    mean_wait_seconds: float | None
    mean_turnaround_seconds: float | None
    peak_memory_bytes: float | None


def rounds_of(workunit_id: int) -> Rounds:
    """Return the rounds of a workunit with seven statements; raises Workunit.DoesNotExist.

    Of more than `MAX_ATTEMPTS` attempts, only the newest are read; then the rounds and the counters
    are those since the first of them.
    """
    facts = workunit_facts(workunit_id)
    created_at = Workunit.objects.values_list("created_at", flat=True).get(pk=workunit_id)
    attempts = _attempts(workunit_id, texts=True)
    numbered = rounds.number_rounds(attempts, replicas=facts.target_nresults)
    entries = moves_of(workunit_id, newest=MAX_MOVES)
    moves = [MoveFacts(entry.at, entry.result_id, entry.axis, entry.target) for entry in entries]
    texts = _output_texts(attempts)

    def timeline(replica: int) -> dict[str, float | str]:
        return rounds.timeline(
            numbered, facts, replica=replica, created_at=created_at, moves=moves, outputs=texts
        )

    last = {entry.replica: entry.index for entry in numbered}
    return Rounds(
        name=facts.name,
        state=predecessor_states.tdf_state(facts).value,
        round=rounds.current_round(numbered),
        fails=sum(map(rounds.is_failure, attempts)),
        timeouts=sum(map(rounds.is_timeout, attempts)),
        timeline=timeline(0),
        other_replicas=tuple(
            OtherReplica(replica, index, timeline(replica))
            for replica, index in last.items()
            if replica
        ),
        log=_log(entries, facts),
    )


def history_of(workunit_id: int, *, now: datetime) -> History:
    """Return the newest sent attempts with four statements; raises Workunit.DoesNotExist.

    Only the `MAX_DETAILED` newest attempts have samples.
    """
    facts = workunit_facts(workunit_id)
    attempts = _attempts(workunit_id, samples=True)
    numbered = rounds.number_rounds(attempts, replicas=facts.target_nresults)
    by_id = {result.id: result for result in facts.results}
    # An attempt can be created after the facts were read.
    sent = [
        entry
        for entry in numbered
        if entry.attempt.sent_at is not None and entry.attempt.id in by_id
    ]
    acknowledged = {entry.attempt.id for entry in sent if entry.attempt.acknowledged_at is not None}
    return History(
        name=facts.name,
        states=States(
            tdf=predecessor_states.tdf_state(facts).value,
            tdf2=predecessor_states.tdf2_state(facts).value,
            eve=predecessor_states.eve_state(facts, now=now).value,
            disbatch_status=_disbatch_status(facts, attempts, acknowledged),
        ),
        retry_count=len(sent),
        history=tuple(
            _execution(entry, by_id[entry.attempt.id], facts, acknowledged) for entry in sent
        ),
    )


def current_execution(workunit_id: int, *, now: datetime) -> Execution:
    """Return the newest sent attempt; raises `NeverSent`, Workunit.DoesNotExist."""
    history = history_of(workunit_id, now=now).history
    if not history:
        raise NeverSent("No host has received the workunit. Hint: its timeline has the reasons.")
    return max(history, key=lambda entry: (entry.attempt.sent_at, entry.attempt.id))


def statistics_of(id_: int, *, of: Literal["workunit_id", "batch_id"]) -> Statistics:
    """Return the statistics of a workunit or a batch with one statement, without purged results."""
    [row] = sql.fetch("work/result_statistics", {"workunit_id": None, "batch_id": None, of: id_})
    return Statistics(**row)


def _execution(
    entry: Round, result: ResultFacts, workunit: WorkunitFacts, acknowledged: set[int]
) -> Execution:
    return Execution(
        entry,
        tdf2=predecessor_states.tdf2_state_of(result, workunit).value,
        disbatch_status=predecessor_states.with_own_code(
            predecessor_states.disbatch_status_of(
                result, is_acknowledged=result.id in acknowledged
            ),
            app_status=entry.attempt.app_status,
        ),
    )


def _disbatch_status(
    facts: WorkunitFacts, attempts: Iterable[Attempt], acknowledged: set[int]
) -> int:
    status = predecessor_states.disbatch_status(facts, acknowledged=acknowledged)
    hold_code = None
    if status == predecessor_states.DisbatchStatus.HELD:
        codes = Workunit.objects.filter(pk=facts.id).values_list("hold_code", flat=True)
        hold_code = codes.first()
    statuses = {attempt.id: attempt.app_status for attempt in attempts}
    app_status = statuses.get(facts.canonical_result_id or 0)
    return predecessor_states.with_own_code(status, hold_code=hold_code, app_status=app_status)


def _attempts(workunit_id: int, *, texts: bool = False, samples: bool = False) -> list[Attempt]:
    """Read the newest attempts in ascending id, the last of them with texts or with samples."""
    newest = Result.objects.filter(workunit_id=workunit_id).order_by("-id").values(*_COLUMNS)
    rows = sorted(newest[:MAX_ATTEMPTS], key=lambda row: int(row["id"]))
    detailed = [row["id"] for row in rows[-MAX_DETAILED:]]
    more: dict[int, dict[str, Any]] = defaultdict(dict)
    if texts:
        stderrs = Result.objects.filter(pk__in=detailed).values_list("id", "stderr")
        outputs = _outputs(detailed)
        for id_, stderr in stderrs:
            more[id_] = {"stderr": stderr, "outputs": tuple(outputs.get(id_, ()))}
    if samples:
        for id_, own in _samples(detailed).items():
            more[id_]["samples"] = tuple(own)
    return [Attempt(**row, **more[row["id"]]) for row in rows]


def _outputs(result_ids: Sequence[int]) -> dict[int, list[OutputFacts]]:
    outputs: dict[int, list[OutputFacts]] = {}
    rows = ResultFile.objects.filter(result_id__in=result_ids).order_by("result_id", "position")
    for id_, position, name, nbytes in rows.values_list("result_id", "position", "name", "nbytes"):
        outputs.setdefault(id_, []).append(OutputFacts(position, name, nbytes))
    return outputs


def _samples(result_ids: Sequence[int]) -> dict[int, list[UsageFacts]]:
    samples: dict[int, list[UsageFacts]] = {}
    params = {"result_ids": list(result_ids), "limit": MAX_SAMPLES}
    for id_, *columns in sql.fetch_rows("work/read_usage_samples", params):
        samples.setdefault(id_, []).append(UsageFacts(*columns))
    return samples


def _output_texts(attempts: Iterable[Attempt]) -> dict[int, str]:
    """Return the text of the first output of each attempt; "" if it is deleted or too long."""
    texts = {}
    for attempt in attempts:
        first = next(iter(attempt.outputs), None)
        if first is None or first.nbytes > MAX_OUTPUT_BYTES:
            continue
        try:
            with storage.open_upload(first.name) as file:
                content = file.read(MAX_OUTPUT_BYTES)
        except OSError:
            continue
        texts[attempt.id] = content.decode("utf-8", "replace")
    return texts


def _log(entries: Iterable[LedgerEntry], facts: WorkunitFacts) -> str:
    """Return the moves of a workunit and its results as lines of text."""
    names: dict[int | None, str] = {result.id: result.name for result in facts.results}
    return "".join(
        f"{entry.at:%Y-%m-%d %H:%M:%S}.{entry.at.microsecond // 1000:03} "
        f"{names.get(entry.result_id, facts.name)} {words.axis}: {words.source} -> {words.target} "
        f"({words.because}, {words.by})\n"
        for entry in entries
        for words in [describe_move(entry)]
    )
