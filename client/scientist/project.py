"""The Project class, with the submissions, batches, apps and usage of a project."""

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
from scientist.submission import SubmissionSpec, batch_name, submission_key, tag
from scientist.transport import Transport, project_url
from scientist.uploads import OnProgress, ignore_progress


def resolve_login(url: str | None, token: str | None) -> tuple[str, str | None]:
    """Return the address of the project, and the token or None if there is no token.

    An argument takes precedence over MANYHANDS_URL and MANYHANDS_TOKEN, and these over the login
    that `scientist login` stored.  Raises NotLoggedIn if there is no address.
    """
    logins = store.load()
    address = url or os.environ.get("MANYHANDS_URL") or logins.default
    if not address:
        hint = "scientist login URL --email E, or set MANYHANDS_URL and MANYHANDS_TOKEN."
        raise NotLoggedIn("No project was given.", hint)
    address = project_url(address)
    login = logins.projects.get(address)
    return address, token or os.environ.get("MANYHANDS_TOKEN") or (login.token if login else None)


class Project:
    """Access to a project.  This class is thread-safe.

    Close a Project after use, or use the Project as a context manager.  `url` and `token` default
    to MANYHANDS_URL and MANYHANDS_TOKEN, else to the login that `scientist login` stored.
    `patience` is the number of seconds for which requests are retried while the project does not
    answer.  Methods that send requests may raise `Unreachable`, and `ProblemError` if the project
    refuses the request.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, *, patience: float = 120.0
    ) -> None:
        self.url, resolved_token = resolve_login(url, token)
        self.transport = Transport(self.url, resolved_token, patience=patience)
        self._futures: list[Futures] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the polling of futures and close the connections; pending futures stay pending."""
        for futures in self._futures:
            futures.close()
        self.transport.close()

    # Account and status

    def me(self) -> dict[str, Any]:
        """Return the account of the token, its permissions, its quotas and their use."""
        return dict(self.transport.get("me"))

    def status(self) -> dict[str, Any]:
        """Return the content of the project's status page as a JSON object."""
        return dict(self.transport.get("status"))

    def usage(
        self,
        *,
        since: date | None = None,
        until: date | None = None,
        by: str | None = None,
    ) -> list[dict[str, Any]]:
        """Return the cost of the account's work for each ``day``, ``app`` or ``batch``.

        The period begins with the day `since` and ends before the day `until`, in UTC.  The default
        is the last 30 days, by ``day``.
        """
        params = {"since": since and f"{since:%Y-%m-%d}", "until": until and f"{until:%Y-%m-%d}"}
        answer = self.transport.get("usage", {**params, "by": by})
        return [dict(row) for row in answer["usage"]]

    # Apps

    def apps(self) -> Iterator[models.AppInfo]:
        return (models.read(models.AppInfo, row) for row in self.transport.pages("apps"))

    def app(self, name: str) -> models.AppInfo:
        """Return an app.  Raises NotFoundError."""
        try:
            return models.read(models.AppInfo, self.transport.get(f"apps/{_segment(name)}"))
        except NotFoundError as error:
            raise _no_app(error, name) from None

    def create_app(self, name: str, **fields: Any) -> models.AppInfo:
        """Create an app; `fields` are fields of the API, such as `kind` and `workunit_defaults`."""
        body = {"name": name} | {key: value for key, value in fields.items() if value is not None}
        return models.read(models.AppInfo, self.transport.post("apps", body))

    def versions(self, app: str) -> Iterator[models.AppVersionInfo]:
        """Yield the published versions of an app.  Raises NotFoundError."""
        try:
            for row in self.transport.pages(f"apps/{_segment(app)}/versions"):
                yield models.read(models.AppVersionInfo, row)
        except NotFoundError as error:
            raise _no_app(error, app) from None

    def publish(
        self, app: str, source: Path | str | Sequence[Path | str] = (), **options: Any
    ) -> list[models.AppVersionInfo]:  # fmt: skip
        """Publish a program; return its versions, one for each platform.

        `source` is a file, a list of files, a folder, or the URL of an archive.  `options` are
        fields of `Publication`.  Raises NotFoundError if there is no such app.
        """
        publication = publishing.publication(source, options)
        try:
            return publishing.publish(self.transport, _segment(app), publication)
        except NotFoundError as error:
            raise _no_app(error, app) from None

    # Batches, workunits and results

    def batches(
        self, *, app: str | None = None, state: str | None = None, name: str | None = None
    ) -> Iterator[Batch]:
        """Yield the account's batches that match all given arguments, the newest first."""
        rows = self.transport.pages("batches", {"app": app, "state": state, "name": name})
        return (Batch(self.transport, models.read(models.BatchInfo, row)) for row in rows)

    def find_batch(self, which: str | int) -> Batch:
        """Return the batch with this id, or the newest batch with this name.

        A string of digits is looked up as an id, then as a name.  Raises NotFoundError.
        """
        if isinstance(which, int) or which.isdecimal():
            try:
                row = self.transport.get(f"batches/{int(which)}")
            except NotFoundError:
                if isinstance(which, int):
                    raise
            else:
                return Batch(self.transport, models.read(models.BatchInfo, row))
        batch = next(self.batches(name=str(which)), None)
        if batch is None:
            hint = "scientist list shows your batches."
            detail = f"You have no batch {which!r}."
            raise NotFoundError(404, {"detail": detail, "hint": hint, "code": "not_found"})
        return batch

    def workunits(
        self,
        *,
        batch: int | None = None,
        status: str | None = None,
        app: str | None = None,
        name: str | None = None,
    ) -> Iterator[models.WorkunitInfo]:
        """Yield the account's workunits that match all given arguments."""
        params = {"batch": batch, "status": status, "app": app, "name": name}
        rows = self.transport.pages("workunits", params)
        return (models.read(models.WorkunitInfo, row) for row in rows)

    def results(self, *, workunit: int | None = None) -> Iterator[models.ResultInfo]:
        """Yield the results of the workunit with this id, or of all the account's workunits."""
        rows = self.transport.pages("results", {"workunit": workunit})
        return (models.read(models.ResultInfo, row) for row in rows)

    def cancel(self, names: Sequence[str], reason: str = "") -> dict[str, Any]:
        """Cancel the workunits with these names; return the JSON answer.

        The answer has the numbers of workunits that this request cancelled (`cancelled`), that were
        cancelled earlier (`already`) and that were finished (`finished`).
        """
        body = {"names": list(names)} | ({"reason": reason} if reason else {})
        return dict(self.transport.post("workunits/cancel", body) or {})

    # Submission

    def map(
        self, app: str, inputs: Iterable[Input], *, into: Path | str | None = None, **options: Any
    ) -> Futures:
        """Submit a workunit for each input; return the futures of the workunits, in the same order.

        An input is a path or bytes (the input file), a str (the command line), a pair of a name
        and the content of the input file, or a dict of the API's fields.  `options` are arguments
        of `batch`.  The futures return outputs as bytes, or as paths if `into` is a folder for the
        outputs.  `inputs` may be a generator, because inputs are not kept in memory.
        """
        with self.batch(app=app, into=into, **options) as draft:
            draft.submit_all(inputs)
        return draft.futures

    def submit(self, app: str, inputs: Iterable[Input], **options: Any) -> Batch:
        """Submit a workunit for each input; return the batch.

        `inputs` and `options` are as in `map`.
        """
        with self.batch(app=app, **options) as draft:
            draft.submit_all(inputs)
        return draft.batch

    def batch(  # noqa: PLR0913  all options of a submission
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
        on_progress: OnProgress = ignore_progress,
        **numbers: Any,
    ) -> DraftBatch:
        """Return a draft batch, which is submitted at the end of its `with` block.

        `quorum` is the number of results that must agree, and `deadline` the time for a result.
        `command_line`, `outputs`, `input_files` (uploaded once) and `numbers` (other fields of the
        API) are defaults of all workunits.  `meta` belongs to the batch.  `after` is a batch whose
        workunits must be done first.  With `after_any`, they may also have failed.  At `expire_at`,
        or after `expires`, an unfinished batch is aborted.  `into` is a folder for the outputs.
        `total` is the number of workunits, or None if it is unknown.  `key` is an idempotency key,
        so a repeated submission with the same key and workunits creates the workunits once.
        """
        key = key or submission_key()
        fields = {"quorum": quorum, "deadline": deadline, "command_line": command_line}
        defaults = fields_of({**fields, **numbers})
        entries = outputs_of(outputs) if outputs else self._default_outputs(app)
        defaults |= {"outputs": entries} if entries else {}
        if shared := files_of(input_files):
            defaults["input_files"] = shared
        attributes: dict[str, Any] = {"meta": dict(meta) if meta else None, "priority": priority}
        attributes |= {"after": self._id_of(after), "after_any": after_any, "expire_at": expire_at}
        attributes |= {"accelerate_tail": accelerate_tail}
        attributes |= {"expires_in_seconds": None if expires is None else seconds(expires)}
        full_name = name or batch_name(app, key)
        batch = {"name": full_name, **fields_of(attributes)}
        prefix = f"{full_name}-{tag(key)}" if name else full_name
        spec = SubmissionSpec(app, batch, prefix, key, defaults, total)
        folder = Path(into) if into is not None else None
        return DraftBatch(
            self.transport, spec, open_name, folder, on_progress, self._futures.append
        )

    def _default_outputs(self, app: str) -> list[Any]:
        """Return a list with the output ``out``, or an empty list if the app defines outputs."""
        info = self.app(app)
        has_outputs = info.workunit_defaults.get("outputs") or info.output_template
        return [] if has_outputs else [OUTPUT_NAME]

    def _id_of(self, batch: Batch | int | str | None) -> int | None:
        if batch is None or isinstance(batch, int):
            return batch
        return batch.id if isinstance(batch, Batch) else self.find_batch(batch).id


def _segment(name: str) -> str:
    if not name or "/" in name or name in {".", ".."}:
        raise UsageError(f"{name!r} is not an app's name.", "scientist app list shows the names.")
    return name


def _no_app(error: NotFoundError, name: str) -> NotFoundError:
    hint = "scientist app list shows the apps; scientist app publish --create creates one."
    body = {"code": error.code, "detail": f"There is no app {name!r}.", "hint": hint}
    return NotFoundError(error.status, body)
