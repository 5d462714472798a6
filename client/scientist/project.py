"""A project in a scientist's hands."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from scientist import models, publishing, store
from scientist.batches import Batch
from scientist.drafts import DraftBatch
from scientist.errors import NotFoundError, NotLoggedIn, UsageError
from scientist.futures import Futures
from scientist.inputs import (
    OPEN_NAME,
    OUTPUT_NAME,
    Input,
    fields_of,
    files_of,
    outputs_of,
    seconds,
)
from scientist.submission import Order, batch_name, submission_key, tag
from scientist.transport import Transport, project_url
from scientist.uploads import Tell, nobody


def found_login(url: str | None, token: str | None) -> tuple[str, str | None]:
    """Whose project and by which token: said, from the environment, or from `scientist login`.

    Raises NotLoggedIn if there is no address.
    """
    logins = store.load()
    address = url or os.environ.get("MANYHANDS_URL") or logins.default
    if not address:
        hint = "scientist login URL --email E, or set MANYHANDS_URL and MANYHANDS_TOKEN."
        raise NotLoggedIn("Which project?", hint)
    address = project_url(address)
    kept = logins.projects.get(address)
    return address, token or os.environ.get("MANYHANDS_TOKEN") or (kept.token if kept else None)


class Project:
    """A project.  May be shared among threads; close it, or use it as a context manager.

    Without `url` and `token`, those of MANYHANDS_URL and MANYHANDS_TOKEN are taken, else those of
    the last `scientist login`.  `patience` is for how many seconds a project that is away is asked
    again.  Every method may raise `Unreachable`, and a `ProblemError` if the project refuses.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, patience: float = 120.0
    ) -> None:
        self.url, found = found_login(url, token)
        self.transport = Transport(self.url, found, patience=patience)
        self._futures: list[Futures] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of connections; futures that are not over stay so."""
        for one in self._futures:
            one.close()
        self.transport.close()

    # Who and what

    def me(self) -> dict[str, Any]:
        """Whose token this is, what it may do, and what is left of quotas."""
        return dict(self.transport.get("me"))

    def status(self) -> dict[str, Any]:
        """What the project's status page says."""
        return dict(self.transport.get("status"))

    def usage(
        self,
        *,
        since: date | None = None,
        until: date | None = None,
        by: str | None = None,
    ) -> list[dict[str, Any]]:
        """What your work has cost, by ``day``, ``app`` or ``batch``; days are those of UTC."""
        params = {"since": since and f"{since:%Y-%m-%d}", "until": until and f"{until:%Y-%m-%d}"}
        said = self.transport.get("usage", {**params, "by": by})
        return [dict(row) for row in said["usage"]]

    # Apps

    def apps(self) -> Iterator[models.AppInfo]:
        """Walk through the apps."""
        return (models.read(models.AppInfo, one) for one in self.transport.pages("apps"))

    def app(self, name: str) -> models.AppInfo:
        """An app.  Raises NotFoundError."""
        try:
            return models.read(models.AppInfo, self.transport.get(f"apps/{_segment(name)}"))
        except NotFoundError as error:
            raise _no_app(error, name) from None

    def create_app(self, name: str, **fields: Any) -> models.AppInfo:
        """Create an app; `fields` are the API's: kind, success_rule, workunit_defaults, ..."""
        body = {"name": name, **{key: value for key, value in fields.items() if value is not None}}
        return models.read(models.AppInfo, self.transport.post("apps", body))

    def versions(self, app: str) -> Iterator[models.AppVersionInfo]:
        """Walk through what is published of an app."""
        try:
            for one in self.transport.pages(f"apps/{_segment(app)}/versions"):
                yield models.read(models.AppVersionInfo, one)
        except NotFoundError as error:
            raise _no_app(error, app) from None

    def publish(
        self, app: str, source: Path | str | Sequence[Path | str] = (), **said: Any
    ) -> list[models.AppVersionInfo]:  # fmt: skip
        """Publish a program: a file, files, or a folder; `said` are fields of `Publication`."""
        one = publishing.publication(source, said)
        try:
            return publishing.publish(self.transport, _segment(app), one)
        except NotFoundError as error:
            raise _no_app(error, app) from None

    # Batches and what is in them

    def batches(
        self, *, app: str | None = None, state: str | None = None, name: str | None = None
    ) -> Iterator[Batch]:
        """Walk through your batches, the newest first."""
        found = self.transport.pages("batches", {"app": app, "state": state, "name": name})
        return (Batch(self.transport, models.read(models.BatchInfo, one)) for one in found)

    def find_batch(self, which: str | int) -> Batch:
        """A batch by its id or its name; of one name, the newest.  Raises NotFoundError."""
        if isinstance(which, int) or which.isdecimal():
            try:
                said = self.transport.get(f"batches/{int(which)}")
            except NotFoundError:
                if isinstance(which, int):
                    raise
            else:
                return Batch(self.transport, models.read(models.BatchInfo, said))
        found = next(self.batches(name=str(which)), None)
        if found is None:
            hint = "scientist list shows yours."
            detail = f"You have no batch {which!r}."
            raise NotFoundError(404, {"detail": detail, "hint": hint, "code": "not_found"})
        return found

    def workunits(
        self,
        *,
        batch: int | None = None,
        status: str | None = None,
        app: str | None = None,
        name: str | None = None,
    ) -> Iterator[models.WorkunitInfo]:
        """Walk through your workunits."""
        params = {"batch": batch, "status": status, "app": app, "name": name}
        found = self.transport.pages("workunits", params)
        return (models.read(models.WorkunitInfo, one) for one in found)

    def results(self, *, workunit: int | None = None) -> Iterator[models.ResultInfo]:
        """Walk through the results of your workunits."""
        found = self.transport.pages("results", {"workunit": workunit})
        return (models.read(models.ResultInfo, one) for one in found)

    def cancel(self, names: Sequence[str], reason: str = "") -> dict[str, Any]:
        """Cancel workunits by their names; gives the project's counts."""
        body = {"names": list(names)} | ({"reason": reason} if reason else {})
        return dict(self.transport.post("workunits/cancel", body) or {})

    # Work in

    def map(
        self, app: str, inputs: Iterable[Input], *, into: Path | str | None = None, **said: Any
    ) -> Futures:
        """Submit a workunit per input; gives their futures, in the same order.

        An input is a path or bytes (the input file), a str (the command line), a pair of a name
        and a content, or a dict of the API's fields.  `said` is what `batch` takes.  Outputs are
        given as bytes, or with `into` as paths in that folder.  Inputs may be generated: only
        their names are held.
        """
        with self.batch(app=app, into=into, **said) as draft:
            draft.submit_all(inputs)
        return draft.futures

    def submit(self, app: str, inputs: Iterable[Input], **said: Any) -> Batch:
        """Submit a workunit per input; gives the batch.  `said` is what `batch` takes."""
        with self.batch(app=app, **said) as draft:
            draft.submit_all(inputs)
        return draft.batch

    def batch(  # noqa: PLR0913  everything that a submission may say
        self,
        name: str | None = None,
        *,
        app: str,
        quorum: int | None = None,
        deadline: timedelta | float | str | None = None,
        priority: int | None = None,
        command_line: str | None = None,
        outputs: str | Sequence[str | Mapping[str, Any]] | None = None,
        input_files: Mapping[str, bytes | str | Path] | Sequence[Mapping[str, Any]] = (),
        open_name: str = OPEN_NAME,
        meta: Mapping[str, Any] | None = None,
        after: Batch | int | str | None = None,
        after_any: bool | None = None,
        expire_at: datetime | None = None,
        expires: timedelta | float | str | None = None,
        accelerate_tail: bool | None = None,
        into: Path | str | None = None,
        key: str | None = None,
        total: int | None = None,
        tell: Tell = nobody,
        **numbers: Any,
    ) -> DraftBatch:
        """A batch to be: submit to it in a `with` block, at whose end it is sent.

        `quorum` results must agree, each within `deadline`.  `command_line`, `outputs`,
        `input_files` (shared by all, sent once) and `numbers` (the API's fields) hold for every
        workunit that says nothing else; `meta` is the batch's.  `after` names a batch that must
        have its answers first; at `expire_at`, or when `expires` has gone by, what is left of it
        is given up.  The same `key` with the same workunits makes them once.
        """
        key = key or submission_key()
        fields = {"quorum": quorum, "deadline": deadline, "command_line": command_line}
        defaults = fields_of({**fields, **numbers})
        said = outputs_of(outputs) if outputs else self._usual_outputs(app)
        defaults |= {"outputs": said} if said else {}
        if shared := files_of(input_files):
            defaults["input_files"] = shared
        about: dict[str, Any] = {"meta": dict(meta) if meta else None, "priority": priority}
        about |= {"after": self._id_of(after), "after_any": after_any, "expire_at": expire_at}
        about |= {"accelerate_tail": accelerate_tail}
        about |= {"expires_in_seconds": None if expires is None else seconds(expires)}
        about = fields_of(about)
        made = name or batch_name(app, key)
        batch = {"name": made, **about}
        prefix = f"{made}-{tag(key)}" if name else made
        order = Order(app, batch, prefix, key, defaults, total)
        folder = Path(into) if into is not None else None
        return DraftBatch(self.transport, order, open_name, folder, tell, self._futures.append)

    def _usual_outputs(self, app: str) -> list[Any]:
        """What workunits bring if nobody says: as the app has it, else the file ``out``."""
        about = self.app(app)
        return (
            [] if about.workunit_defaults.get("outputs") or about.output_template else [OUTPUT_NAME]
        )

    def _id_of(self, batch: Batch | int | str | None) -> int | None:
        if batch is None or isinstance(batch, int):
            return batch
        return batch.id if isinstance(batch, Batch) else self.find_batch(batch).id


def _segment(name: str) -> str:
    if not name or "/" in name or name in {".", ".."}:
        raise UsageError(f"{name!r} is no name of an app.", "scientist app list shows them.")
    return name


def _no_app(error: NotFoundError, name: str) -> NotFoundError:
    hint = "scientist app list shows them; publish --create makes one."
    said = {"code": error.code, "detail": f"There is no app {name!r}.", "hint": hint}
    return NotFoundError(error.status, said)
