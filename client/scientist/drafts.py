"""A batch that is built in a `with` block and submitted at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from scientist import graphs, models
from scientist.batches import Batch
from scientist.errors import ScientistError, UsageError
from scientist.futures import Futures, WorkunitFuture
from scientist.inputs import Input, Work, fields_of, work_of
from scientist.submission import Submission, SubmissionSpec
from scientist.transport import Transport
from scientist.uploads import OnProgress

#: Maximum number of workunits that a group joins; the server's limit for `after`.
MAX_JOINED = 10_000


class DraftBatch:
    """A batch to which workunits are added in a `with` block.

    The batch is submitted at the end of the block.  If the block raises an error, no more workunits
    are sent.  If parts of a large batch were sent before the error, the batch is aborted, unless it
    has workunits of other submissions.
    """

    def __init__(
        self,
        transport: Transport,
        spec: SubmissionSpec,
        open_name: str,
        into: Path | None,
        on_progress: OnProgress,
        on_created: Callable[[Futures], None],
    ) -> None:
        self._transport, self._open_name, self._spec = transport, open_name, spec
        self._submission = Submission(transport, spec, on_progress)
        self.futures = Futures(transport, into)
        self.submitted: models.SubmissionSummary | None = None
        #: After an error: the first part that was sent, and whether its batch was aborted.
        self.abandoned: models.SubmissionSummary | None = None
        self.is_aborted = False
        #: Whether the batch has workunits of other submissions, so that it was not aborted.
        self.is_shared = False
        on_created(self.futures)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if error is None:
                self.send()
        except BaseException as caught:
            error = caught
            raise
        finally:
            if error is not None:
                self._abandon(error)
            self._submission.close()

    def submit(self, item: Input, **fields: Any) -> WorkunitFuture:
        """Add a workunit; return its future.

        `fields` override the fields of the input and the defaults of the batch; a `meta` is merged
        with the `meta` of the input.
        """
        return self.futures[self._add(item, fields)]

    def submit_all(self, inputs: Iterable[Input]) -> None:
        """Add a workunit for each input, and its future to `futures`."""
        for item in inputs:
            self._add(item, {})

    def submit_graph(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Add the workunits of a graph, in the order of `graphs.in_order`.

        The names in the entries are local: the prefix of the submission is put before them.
        """
        names: dict[str, str] = {}
        for entry in entries:
            name = self._submission.add(work_of(graphs.rename(entry, names), self._open_name))
            self.futures.add(name)
            names[entry["name"]] = name

    def join(self, names: Sequence[str]) -> list[str]:
        """Return the names of workunits to wait for, so that all of `names` are waited for.

        Several names are joined by groups, which have no futures: otherwise each new workunit would
        need a dependency on each of them.  A group joins at most `MAX_JOINED` workunits.
        """
        joined = list(names)
        while len(joined) > 1:
            joined = [
                self._submission.add(
                    Work(
                        fields={"group": True, "after": joined[at : at + MAX_JOINED]}, label="start"
                    )
                )
                for at in range(0, len(joined), MAX_JOINED)
            ]
        return joined

    def add_after(self, item: Input, parents: Sequence[str]) -> None:
        """Add a workunit that waits for the workunits with these names."""
        self._add(item, {"after": list(parents)} if parents else {})

    def add(self, work: Work) -> None:
        """Add a workunit that is already converted to a `Work`."""
        self.futures.add(self._submission.add(work))

    def _add(self, item: Input, fields: Mapping[str, Any]) -> int:
        work = work_of(item, self._open_name)
        if fields:
            own = fields_of(fields)
            if isinstance(own.get("meta"), Mapping) and "meta" in work.fields:
                own["meta"] = {**work.fields["meta"], **own["meta"]}
            work = Work(work.files, {**work.fields, **own}, work.label, work.name)
        return self.futures.add(self._submission.add(work))

    def send(self) -> models.SubmissionSummary:
        """Submit the batch and return the summary; later calls return the same summary.

        The end of the `with` block calls this method.
        """
        if self.submitted is None:
            self.submitted = self._submission.finish()
            info = models.BatchInfo(
                id=self.submitted.batch_id, name=self.submitted.batch_name, app=self._spec.app
            )
            self.futures.begin(info)
        return self.submitted

    @property
    def batch(self) -> Batch:
        """The submitted batch.  Raises UsageError before the submission."""
        if self.futures.batch is None:
            raise UsageError("The batch is not submitted yet.", "leave the with block first.")
        return Batch(self._transport, self.futures.batch)

    def _abandon(self, error: BaseException) -> None:
        if self._submission.summaries:
            self._abort(self._submission.summaries[0])
        if not isinstance(error, ScientistError):
            error = ScientistError("The batch was not submitted.")
        self.futures.fail(error)

    def _abort(self, first: models.SubmissionSummary) -> None:
        self.abandoned = first
        self.is_shared = isinstance(self._spec.batch, int) or first.workunits_before > 0
        if self.is_shared:
            return
        with suppress(ScientistError):
            reason = {"reason": "the submission was not finished"}
            self._transport.post(f"batches/{first.batch_id}/abort", reason)
            self.is_aborted = True
