"""A batch in a scientist's hands: watch it, fetch from it, mend it, end it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from scientist import models
from scientist.errors import (
    BatchFailed,
    NotFoundError,
    ScientistError,
    ServerFault,
    Unreachable,
)
from scientist.fetching import Fetched, fetch
from scientist.inputs import fields_of
from scientist.placing import Layout
from scientist.transport import Transport
from scientist.words import count

#: Seconds between two looks at a batch in which something happens; up to five times as many else.
INTERVAL = 2.0
_SLOWEST = 5
#: Seconds between two questions for what went wrong, while nothing changes.
_TROUBLES_EVERY = 30.0


class Batch:
    """A batch of the project's; what is read of it is asked for when it is read."""

    def __init__(self, transport: Transport, info: models.BatchInfo) -> None:
        self._transport = transport
        self.info = info

    def __repr__(self) -> str:
        return f"<Batch {self.id} {self.name!r}>"

    @property
    def id(self) -> int:
        """Its number."""
        return self.info.id

    @property
    def name(self) -> str:
        """Its name."""
        return self.info.name

    @property
    def _path(self) -> str:
        return f"batches/{self.info.id}"

    def refresh(self) -> models.BatchInfo:
        """Ask for everything that the project says of it."""
        self.info = models.read(models.BatchInfo, self._transport.get(self._path))
        return self.info

    def progress(self) -> models.Progress:
        """Ask how far it is."""
        return read_progress(self._transport.get(f"{self._path}/progress"))

    def troubles(self) -> models.Troubles:
        """Ask what went wrong in it (the last error, parked science), and what it waits for."""
        try:
            return models.read(models.Troubles, self._transport.get(f"{self._path}/troubles"))
        except NotFoundError:  # a project that is older than this program
            return models.Troubles()

    def watch(
        self, interval: float = INTERVAL, *, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[models.Progress]:
        """Give its progress now and at each change, until it is complete.

        Looks less often while nothing changes, up to a fifth.
        """
        for look in self.looks(interval, sleep=sleep, asks_troubles=False):
            if look.is_news and look.silent_since is None:
                yield look.progress

    def looks(
        self,
        interval: float = INTERVAL,
        *,
        sleep: Callable[[float], None] = time.sleep,
        asks_troubles: bool = True,
    ) -> Iterator[models.Look]:
        """Give each look at it until it is complete, also those that find no change.

        While the project does not answer, a look gives what was known last.  Raises Unreachable
        if there was no answer at all yet, or none for as long as the transport is patient.
        """
        etag, pause = "", interval
        look: models.Look | None = None
        asked_at = 0.0
        while True:
            try:
                said, etag = self._transport.get_if_changed(
                    f"{self._path}/progress", etag, patience=None if look is None else 0.0
                )
                before = look
                look = self._look(before, said)
                is_due = time.monotonic() - asked_at >= _TROUBLES_EVERY
                if asks_troubles and (is_due or (before and look.is_news) or _is_over(look)):
                    asked_at = time.monotonic()
                    look = replace(look, troubles=self.troubles())
            except (Unreachable, ServerFault) as error:
                if look is None:
                    raise
                look = _silent(look, error, self._transport.patience)
            yield look
            if look.silent_since is None and look.progress.is_complete:
                return
            pause = interval if look.is_news else min(pause * 1.3, interval * _SLOWEST)
            sleep(pause)

    def _look(self, before: models.Look | None, said: Any) -> models.Look:  # noqa: ANN401  any JSON
        if before is None:
            return models.Look(
                progress=read_progress(said), troubles=models.Troubles(), is_news=True
            )
        progress = before.progress if said is None else read_progress(said)
        is_news = progress.counts != before.progress.counts or before.silent_since is not None
        return replace(before, progress=progress, is_news=is_news, silent_since=None)

    def wait(self, timeout: float | None = None, interval: float = INTERVAL) -> models.Progress:
        """Wait until it is complete.  Raises TimeoutError, after `timeout` seconds.

        Raises BatchFailed if workunits of it failed.
        """
        began = time.monotonic()

        def sleep(seconds: float) -> None:
            left = None if timeout is None else began + timeout - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"Batch {self.name} is not complete after {timeout:g} s.")
            time.sleep(seconds if left is None else min(seconds, left))

        *_, last = self.watch(interval, sleep=sleep)
        if last.failed:
            hint = f"look at them (scientist list workunits {self.id} --status failed)."
            raise BatchFailed(f"{count(last.failed, 'workunit')} of {self.name} failed.", hint)
        return last

    def workunits(self, *, status: str | None = None) -> Iterator[models.WorkunitInfo]:
        """Walk through its workunits, those of a status alone if one is said."""
        found = self._transport.pages("workunits", {"batch": self.id, "status": status})
        return (models.read(models.WorkunitInfo, one) for one in found)

    def results(self, *, state: str | None = None) -> Iterator[models.ResultInfo]:
        """Walk through the results of its workunits."""
        found = self._transport.pages("results", {"batch": self.id, "state": state})
        return (models.read(models.ResultInfo, one) for one in found)

    def fetch(
        self, folder: Path | str, *, flat: bool = False, follow: bool = False, failed: bool = False
    ) -> Fetched:
        """Bring what is done into a folder: ``folder/<workunit>/<open_name>``.

        What is there already is not fetched again; each workunit appears whole, with the digests
        that the project promised.  `follow` goes on until the batch is complete; `failed` brings
        what the programs of failed workunits wrote to stderr.  Raises Damaged, ProblemError.
        """
        layout = Layout(Path(folder), flat=flat, failed=failed)
        return fetch(self._transport, self.info, layout, follow=follow)

    def retry_failed(self, names: Sequence[str] | None = None) -> models.Retried:
        """Submit its failed workunits again, or some of them; those cancelled only by name."""
        body: dict[str, Any] = {} if names is None else {"workunits": list(names)}
        return models.read(models.Retried, self._transport.post(f"{self._path}/retry", body))

    def abort(self, reason: str = "") -> dict[str, Any]:
        """Cancel what is not over; gives the project's counts."""
        body = {"reason": reason} if reason else {}
        return dict(self._transport.post(f"{self._path}/abort", body) or {})

    def retire(self) -> dict[str, Any]:
        """Let the project delete its outputs and rows: you have what you want of it."""
        return dict(self._transport.post(f"{self._path}/retire") or {})

    def update(
        self,
        *,
        expire_at: datetime | None = None,
        meta: models.Json | None = None,
        accelerate: bool | None = None,
        accelerate_tail: bool | None = None,
    ) -> models.BatchInfo:
        """Change what may change of it; None leaves things as they are."""
        said: dict[str, Any] = {"expire_at": expire_at, "meta": meta}
        said |= {"accelerate": accelerate, "accelerate_tail": accelerate_tail}
        answer = self._transport.patch(self._path, fields_of(said))
        self.info = models.read(models.BatchInfo, answer)
        return self.info


def _is_over(look: models.Look) -> bool:
    return look.progress.is_complete


def _silent(look: models.Look, error: ScientistError, patience: float) -> models.Look:
    """The same look, without an answer; raises `error` once patience is at its end."""
    now = datetime.now(UTC)  # noqa: TID251  the edge reads the clock
    since = look.silent_since or now
    if (now - since).total_seconds() > patience:
        raise error
    return replace(look, silent_since=since, is_news=look.silent_since is None)


def read_progress(said: Any) -> models.Progress:  # noqa: ANN401  any JSON
    """Read a progress, which may stand beside its rate or around it."""
    inner = said.get("progress") if isinstance(said, dict) else None
    return models.read(models.Progress, {**said, **inner} if isinstance(inner, dict) else said)
