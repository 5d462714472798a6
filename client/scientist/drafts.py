"""A batch that is being written: a `with` block, at whose end it is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from scientist import models
from scientist.batches import Batch
from scientist.errors import ScientistError, UsageError
from scientist.futures import Futures, WorkunitFuture
from scientist.inputs import Input, Work, fields_of, work_of
from scientist.submission import Order, Submission
from scientist.transport import Transport
from scientist.uploads import Tell


class DraftBatch:
    """A batch that is being written.

    At the end of the `with` block it is sent; if the block raises, what was sent of it already
    (of a very large one) is aborted, unless the batch has workunits of other submissions.
    """

    def __init__(
        self,
        transport: Transport,
        order: Order,
        open_name: str,
        into: Path | None,
        tell: Tell,
        made: Callable[[Futures], None],
    ) -> None:
        self._transport, self._open_name, self._order = transport, open_name, order
        self._submission = Submission(transport, order, tell)
        self.futures = Futures(transport, into)
        self.submitted: models.Submitted | None = None
        #: Of a batch that was not finished: what was sent of it, and whether that was aborted.
        self.abandoned: models.Submitted | None = None
        self.is_withdrawn = False
        #: Whether that batch has workunits of other submissions, so that it was not aborted.
        self.is_shared = False
        made(self.futures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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

    def submit(self, one: Input, **fields: Any) -> WorkunitFuture:
        """Add a workunit, with fields of its own; gives its future."""
        return self.futures[self._add(one, fields)]

    def submit_all(self, inputs: Iterable[Input]) -> None:
        """Add a workunit per input; their futures are in `futures`."""
        for one in inputs:
            self._add(one, {})

    def add(self, work: Work) -> None:
        """Add a workunit that has its shape already."""
        self.futures.add(self._submission.add(work))

    def _add(self, one: Input, fields: Mapping[str, Any]) -> int:
        work = work_of(one, self._open_name)
        if fields:
            said = fields_of(fields)
            if isinstance(said.get("meta"), Mapping) and "meta" in work.fields:
                said["meta"] = {**work.fields["meta"], **said["meta"]}
            work = Work(work.files, {**work.fields, **said}, work.label, work.name)
        return self.futures.add(self._submission.add(work))

    def send(self) -> models.Submitted:
        """Send it now; the end of the `with` block does."""
        if self.submitted is None:
            self.submitted = self._submission.finish()
            info = models.BatchInfo(
                id=self.submitted.batch_id, name=self.submitted.batch_name, app=self._order.app
            )
            self.futures.begin(info)
        return self.submitted

    @property
    def batch(self) -> Batch:
        """The batch, once it is sent.  Raises UsageError before."""
        if self.futures.batch is None:
            raise UsageError("The batch is not sent yet.", "leave the with block first.")
        return Batch(self._transport, self.futures.batch)

    def _abandon(self, error: BaseException) -> None:
        if self._submission.made:
            self._abort(self._submission.made[0])
        if isinstance(error, ScientistError):
            self.futures.fail(error)
        else:
            self.futures.fail(ScientistError("The batch was not submitted."))

    def _abort(self, first: models.Submitted) -> None:
        self.abandoned = first
        self.is_shared = isinstance(self._order.batch, int) or first.workunits_before > 0
        if self.is_shared:
            return
        with suppress(ScientistError):
            reason = {"reason": "the submission was not finished"}
            self._transport.post(f"batches/{first.batch_id}/abort", reason)
            self.is_withdrawn = True
