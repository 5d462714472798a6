"""The Batch class, with methods to watch, fetch, retry, abort and retire a batch."""

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

#: Seconds between two polls of a batch.  While the batch does not change, the time between polls
#: grows to five times this value.
INTERVAL = 2.0
_MAX_INTERVAL_FACTOR = 5
#: Seconds between two requests for the troubles of a batch that does not change.
_TROUBLES_INTERVAL_SECONDS = 30.0


class Batch:
    """A batch of a project.

    `info` is a local copy of the batch's fields.  Most methods send requests to the project.
    """

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
        """Fetch the fields of the batch from the project, store them in `info` and return them."""
        self.info = models.read(models.BatchInfo, self._transport.get(self._path))
        return self.info

    def progress(self) -> models.Progress:
        """Fetch and return the progress of the batch."""
        return read_progress(self._transport.get(f"{self._path}/progress"))

    def troubles(self) -> models.Troubles:
        """Fetch and return the errors of the batch and the reasons for its delays.

        If the project answers 404, as a server without this endpoint does, the Troubles are empty.
        """
        try:
            return models.read(models.Troubles, self._transport.get(f"{self._path}/troubles"))
        except NotFoundError:
            return models.Troubles()

    def watch(
        self, interval: float = INTERVAL, *, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[models.Progress]:
        """Yield the progress of the batch now and at each change, until the batch is complete.

        `interval` is the time between polls in seconds; while the progress does not change, the
        time grows to five times this value.  The progress is also yielded after an outage.  Raises
        the same errors as `snapshots`.
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

        If `with_troubles` is set, the troubles are requested at each change and every 30 seconds.
        `sleep` is called with the seconds to pause before the next poll.  While the project is
        unreachable, a snapshot repeats the last progress.  Raises Unreachable or ServerFault if the
        first request fails, or if an outage lasts longer than the transport's `patience` in
        seconds.
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

        Raises TimeoutError if the batch is not complete after `timeout` seconds, and BatchFailed if
        workunits failed.
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
        """Yield the workunits of the batch that have this status, or all if `status` is None."""
        rows = self._transport.pages("workunits", {"batch": self.id, "status": status})
        return (models.read(models.WorkunitInfo, row) for row in rows)

    def results(self, *, state: str | None = None) -> Iterator[models.ResultInfo]:
        """Yield the results of the batch that are in this state, or all if `state` is None."""
        rows = self._transport.pages("results", {"batch": self.id, "state": state})
        return (models.read(models.ResultInfo, row) for row in rows)

    def fetch(
        self, folder: Path | str, *, flat: bool = False, follow: bool = False, failed: bool = False
    ) -> FetchSummary:
        """Download the outputs of done workunits as ``folder/<workunit>/<open_name>``.

        Workunits that an earlier fetch placed are skipped.  A workunit is placed when all its files
        have the digests that the project declared.  With `flat`, the files are written as
        ``folder/<workunit>.<ext>``.  With `follow`, the download continues until the batch is
        complete.  With `failed`, the stderr of failed workunits is downloaded, too.  Raises
        Damaged, PlaceTaken, UnwritableFolder, Unreachable and ProblemError.
        """
        layout = Layout(Path(folder), flat=flat, failed=failed)
        return fetch(self._transport, self.info, layout, follow=follow)

    def retry_failed(self, names: Sequence[str] | None = None) -> models.RetrySummary:
        """Submit all failed workunits of the batch again, or only the workunits in `names`.

        A cancelled workunit is submitted again only if `names` contains it.
        """
        body: dict[str, Any] = {} if names is None else {"workunits": list(names)}
        return models.read(models.RetrySummary, self._transport.post(f"{self._path}/retry", body))

    def abort(self, reason: str = "") -> dict[str, Any]:
        """Cancel the unfinished workunits of the batch.

        Returns the JSON answer: the numbers of workunits that this request cancelled (`cancelled`),
        that were cancelled earlier (`already`) and that were finished (`finished`).
        """
        body = {"reason": reason} if reason else {}
        return dict(self._transport.post(f"{self._path}/abort", body) or {})

    def hold(self, code: int | None = None) -> dict[str, Any]:
        """Hold the unfinished workunits; arguments and answer are those of `Project.hold`."""
        body = {"batch": self.id} if code is None else {"batch": self.id, "hold_code": code}
        return dict(self._transport.post("workunits/hold", body) or {})

    def release(self) -> dict[str, Any]:
        """Release the held workunits of the batch; return the JSON answer."""
        return dict(self._transport.post("workunits/release", {"batch": self.id}) or {})

    def retire(self) -> dict[str, Any]:
        """Allow the project to delete the outputs and rows of the batch.

        Returns the JSON answer: `let_go` is the number of workunits whose files may be deleted.
        """
        return dict(self._transport.post(f"{self._path}/retire") or {})

    def update(
        self,
        *,
        expire_at: datetime | None = None,
        meta: models.Json | None = None,
        accelerate: bool | None = None,
        accelerate_tail: bool | None = None,
    ) -> models.BatchInfo:
        """Change attributes of the batch; store the new fields in `info` and return them.

        An attribute is left unchanged if its argument is None.
        """
        changes: dict[str, Any] = {"expire_at": expire_at, "meta": meta}
        changes |= {"accelerate": accelerate, "accelerate_tail": accelerate_tail}
        answer = self._transport.patch(self._path, fields_of(changes))
        self.info = models.read(models.BatchInfo, answer)
        return self.info


def _unreachable(
    snapshot: models.Snapshot, error: ScientistError, patience: float
) -> models.Snapshot:
    """Return a copy of the snapshot with `unreachable_since` set.

    Raises `error` if the project has been unreachable for more than `patience` seconds.
    """
    now = datetime.now(UTC)  # noqa: TID251  the edge reads the clock
    since = snapshot.unreachable_since or now
    if (now - since).total_seconds() > patience:
        raise error
    has_changed = snapshot.unreachable_since is None
    return replace(snapshot, unreachable_since=since, has_changed=has_changed)


def read_progress(answer: Any) -> models.Progress:  # noqa: ANN401  any JSON
    """Read the progress from a JSON answer, which may have the counts in an object `progress`."""
    counts = answer.get("progress") if isinstance(answer, dict) else None
    progress = {**answer, **counts} if isinstance(counts, dict) else answer
    return models.read(models.Progress, progress)
