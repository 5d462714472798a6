"""A batch: its progress, outputs, retry, cancellation and retirement."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scientist import models
from scientist.errors import BatchFailed, NotFoundError, ScientistError, ServerFault, Unreachable
from scientist.fetching import FetchSummary, fetch
from scientist.inputs import fields_of
from scientist.placing import Layout
from scientist.transport import Transport
from scientist.words import count

#: Seconds between two polls of a batch; while it does not change, up to five times as many.
INTERVAL = 2.0
_MAX_INTERVAL_FACTOR = 5
#: Seconds between two requests for the troubles of a batch that does not change.
_TROUBLES_INTERVAL_SECONDS = 30.0


class Batch:
    """A batch.  `info` is a local copy of its fields; most methods send requests to the project."""

    def __init__(self, transport: Transport, info: models.BatchInfo) -> None:
        self._transport = transport
        self.info = info

    def __repr__(self) -> str:
        return f"<Batch {self.id} {self.name!r}>"

    @property
    def id(self) -> int:
        return self.info.id

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def _path(self) -> str:
        return f"batches/{self.info.id}"

    def refresh(self) -> models.BatchInfo:
        """Fetch the batch from the project; store it in `info` and return it."""
        self.info = models.read(models.BatchInfo, self._transport.get(self._path))
        return self.info

    def progress(self) -> models.Progress:
        """Fetch and return the progress of the batch."""
        return read_progress(self._transport.get(f"{self._path}/progress"))

    def troubles(self) -> models.Troubles:
        """Fetch and return the errors of the batch and the reasons for its delays.

        If the server is too old to have this endpoint, the Troubles are empty.
        """
        try:
            return models.read(models.Troubles, self._transport.get(f"{self._path}/troubles"))
        except NotFoundError:
            return models.Troubles()

    def watch(
        self, interval: float = INTERVAL, *, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[models.Progress]:
        """Yield the progress of the batch now and at each change, until the batch is complete.

        `interval` is the time between polls in seconds.  It grows up to fivefold while the progress
        does not change.
        """
        for snapshot in self.snapshots(interval, sleep=sleep, with_troubles=False):
            if snapshot.has_changed and snapshot.unreachable_since is None:
                yield snapshot.progress

    def snapshots(
        self,
        interval: float = INTERVAL,
        *,
        sleep: Callable[[float], None] = time.sleep,
        with_troubles: bool = True,
    ) -> Iterator[models.Snapshot]:
        """Yield a snapshot after every poll until the batch is complete.

        While the project is unreachable, a snapshot repeats the last progress.  Raises Unreachable
        or ServerFault if the first request fails, or if the outage lasts longer than the
        transport's `patience` in seconds.
        """
        etag, pause = "", interval
        snapshot: models.Snapshot | None = None
        troubles_at = 0.0
        while True:
            try:
                answer, etag = self._transport.get_if_changed(
                    f"{self._path}/progress", etag, patience=None if snapshot is None else 0.0
                )
                previous = snapshot
                snapshot = self._snapshot(previous, answer)
                is_due = time.monotonic() - troubles_at >= _TROUBLES_INTERVAL_SECONDS
                has_changed = previous is not None and snapshot.has_changed
                if with_troubles and (is_due or has_changed or snapshot.progress.is_complete):
                    troubles_at = time.monotonic()
                    snapshot = replace(snapshot, troubles=self.troubles())
            except (Unreachable, ServerFault) as error:
                if snapshot is None:
                    raise
                snapshot = _unreachable(snapshot, error, self._transport.patience)
            yield snapshot
            if snapshot.unreachable_since is None and snapshot.progress.is_complete:
                return
            pause = min(pause * 1.3, interval * _MAX_INTERVAL_FACTOR)
            if snapshot.has_changed:
                pause = interval
            sleep(pause)

    def _snapshot(self, previous: models.Snapshot | None, answer: Any) -> models.Snapshot:  # noqa: ANN401  any JSON
        if previous is None:
            progress = read_progress(answer)
            return models.Snapshot(progress=progress, troubles=models.Troubles(), has_changed=True)
        progress = previous.progress if answer is None else read_progress(answer)
        has_moved = progress.counts != previous.progress.counts
        has_changed = has_moved or previous.unreachable_since is not None
        return replace(previous, progress=progress, has_changed=has_changed, unreachable_since=None)

    def wait(self, timeout: float | None = None, interval: float = INTERVAL) -> models.Progress:
        """Wait until the batch is complete; return its progress.

        Raises TimeoutError after `timeout` seconds, BatchFailed if workunits failed.
        """
        began = time.monotonic()

        def sleep(seconds: float) -> None:
            left = None if timeout is None else began + timeout - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"Batch {self.name} is not complete after {timeout:g} s.")
            time.sleep(seconds if left is None else min(seconds, left))

        *_, last = self.watch(interval, sleep=sleep)
        if last.failed:
            hint = f"scientist list workunits {self.id} --status failed shows the failed workunits."
            raise BatchFailed(f"{count(last.failed, 'workunit')} of {self.name} failed.", hint)
        return last

    def workunits(self, *, status: str | None = None) -> Iterator[models.WorkunitInfo]:
        """Yield the workunits of the batch; `status` selects workunits with this status."""
        rows = self._transport.pages("workunits", {"batch": self.id, "status": status})
        return (models.read(models.WorkunitInfo, row) for row in rows)

    def results(self, *, state: str | None = None) -> Iterator[models.ResultInfo]:
        """Yield the results of the batch; `state` selects results in this state."""
        rows = self._transport.pages("results", {"batch": self.id, "state": state})
        return (models.read(models.ResultInfo, row) for row in rows)

    def fetch(
        self, folder: Path | str, *, flat: bool = False, follow: bool = False, failed: bool = False
    ) -> FetchSummary:
        """Download the outputs of done workunits as ``folder/<workunit>/<open_name>``.

        Workunits that an earlier fetch placed are skipped.  A workunit is placed when all its files
        have the digests that the project declared.  `flat` writes ``folder/<workunit>.<ext>``,
        `follow` continues until the batch is complete, `failed` adds the stderr of failed
        workunits.  Raises Damaged, PlaceTaken, ProblemError.
        """
        layout = Layout(Path(folder), flat=flat, failed=failed)
        return fetch(self._transport, self.info, layout, follow=follow)

    def retry_failed(self, names: Sequence[str] | None = None) -> models.RetrySummary:
        """Submit the failed workunits of the batch again, or the workunits in `names`.

        A cancelled workunit is submitted again only if `names` contains it.
        """
        body: dict[str, Any] = {} if names is None else {"workunits": list(names)}
        return models.read(models.RetrySummary, self._transport.post(f"{self._path}/retry", body))

    def abort(self, reason: str = "") -> dict[str, Any]:
        """Cancel the unfinished workunits of the batch; return the JSON answer with the counts."""
        body = {"reason": reason} if reason else {}
        return dict(self._transport.post(f"{self._path}/abort", body) or {})

    def retire(self) -> dict[str, Any]:
        """Allow the project to delete the outputs and rows of the batch."""
        return dict(self._transport.post(f"{self._path}/retire") or {})

    def update(
        self,
        *,
        expire_at: datetime | None = None,
        meta: models.Json | None = None,
        accelerate: bool | None = None,
        accelerate_tail: bool | None = None,
    ) -> models.BatchInfo:
        """Change attributes of the batch; None leaves an attribute unchanged."""
        changes: dict[str, Any] = {"expire_at": expire_at, "meta": meta}
        changes |= {"accelerate": accelerate, "accelerate_tail": accelerate_tail}
        answer = self._transport.patch(self._path, fields_of(changes))
        self.info = models.read(models.BatchInfo, answer)
        return self.info


def _unreachable(
    snapshot: models.Snapshot, error: ScientistError, patience: float
) -> models.Snapshot:
    """Return the snapshot marked as unreachable.

    Raises `error` if the project has been unreachable for more than `patience` seconds.
    """
    now = datetime.now(UTC)  # noqa: TID251  the edge reads the clock
    since = snapshot.unreachable_since or now
    if (now - since).total_seconds() > patience:
        raise error
    has_changed = snapshot.unreachable_since is None
    return replace(snapshot, unreachable_since=since, has_changed=has_changed)


def read_progress(answer: Any) -> models.Progress:  # noqa: ANN401  any JSON
    """Return the progress in a JSON answer; its counts may be in a nested `progress` object."""
    counts = answer.get("progress") if isinstance(answer, dict) else None
    progress = {**answer, **counts} if isinstance(counts, dict) else answer
    return models.read(models.Progress, progress)
