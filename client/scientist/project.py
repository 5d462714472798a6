"""The Project class, with the submissions, batches, apps and usage of a project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from scientist import models, publishing, store
from scientist.batches import Batch
from scientist.drafts import DraftBatch
from scientist.errors import NotFoundError, NotLoggedIn, UsageError
from scientist.futures import Futures, WorkunitFuture
from scientist.graphs import Node
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

    # Hosts and queues

    def hosts(self, *, name: str | None = None) -> Iterator[models.HostInfo]:
        """Yield the hosts that the account may see, the newest first."""
        rows = self.transport.pages("hosts", {"name": name})
        return (models.read(models.HostInfo, row) for row in rows)

    def host(self, host: int | str) -> models.HostInfo:
        """Return a host by its id or name; digits are an id.

        Raises NotFoundError, or Conflict if several hosts have the name.
        """
        return models.read(models.HostInfo, self.transport.get(f"hosts/{_host_segment(host)}"))

    def limit_host(self, host: int | str, max_in_progress: int | None) -> models.HostInfo:
        """Set the maximum number of results in progress of a host; None removes it.

        `host` is an id or a name, as for `host`.  With 0, the host gets no new results.
        """
        fields = {"max_in_progress": max_in_progress}
        path = f"hosts/{_host_segment(host)}"
        return models.read(models.HostInfo, self.transport.patch(path, fields))

    def queues(self, *, app: str | None = None) -> Iterator[models.QueueInfo]:
        """Yield the queues with the numbers of their results, the newest first."""
        rows = self.transport.pages("queues", {"app": app})
        return (models.read(models.QueueInfo, row) for row in rows)

    def queue(self, name: str) -> models.QueueInfo:
        """Return a queue, without the numbers of its results.  Raises NotFoundError."""
        return models.read(models.QueueInfo, self.transport.get(f"queues/{_queue_segment(name)}"))

    def create_queue(self, name: str, **fields: Any) -> models.QueueInfo:
        """Create a queue; `fields` are fields of the API, such as `max_in_progress`."""
        row = self.transport.post("queues", {"name": name, **fields})
        return models.read(models.QueueInfo, row)

    def change_queue(self, name: str, **fields: Any) -> models.QueueInfo:
        """Change the given fields of a queue.  Raises NotFoundError."""
        row = self.transport.patch(f"queues/{_queue_segment(name)}", fields)
        return models.read(models.QueueInfo, row)

    def delete_queue(self, name: str) -> None:
        """Delete a queue without workunits.  Raises NotFoundError."""
        self.transport.delete(f"queues/{_queue_segment(name)}")

    def balance(self) -> models.BalanceInfo:
        """Return the maximum number of results in progress that several queues share."""
        return models.read(models.BalanceInfo, self.transport.get("balance"))

    def change_balance(self, **fields: Any) -> models.BalanceInfo:
        """Change the given fields of the balance; `queues` are names of queues by group."""
        return models.read(models.BalanceInfo, self.transport.patch("balance", fields))

    # Task lists

    def bundles(
        self, *, batch: Batch | int | str | None = None, state: str | None = None
    ) -> Iterator[models.BundleInfo]:
        """Yield the task lists of a batch or of all batches of the account, the newest first."""
        rows = self.transport.pages("bundles", {"batch": self._id_of(batch), "state": state})
        return (models.read(models.BundleInfo, row) for row in rows)

    def bundle(self, id_: int) -> models.BundleInfo:
        """Return a task list with its workunits.  Raises NotFoundError."""
        return models.read(models.BundleInfo, self.transport.get(f"bundles/{id_}"))

    def create_bundle(
        self, batch: Batch | int | str, workunits: Sequence[str]
    ) -> models.BundleInfo:
        """Make a task list of workunits of a batch, by name, that no host computes."""
        body = {"batch": self._id_of(batch), "workunits": list(workunits)}
        return models.read(models.BundleInfo, self.transport.post("bundles", body))

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

    def search(self, what: str, expression: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a list (`workunits`, `results`, ...) that match a JSON expression."""
        return self.transport.pages(what, {"filter": expression})

    def submit_from_query(
        self,
        app: str,
        source: dict[str, Any],
        workunit: dict[str, Any],
        *,
        batch: str | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Submit a workunit for each document of `source`; return the JSON answer.

        `source` has one of `workunits`, `results` and `hosts` with a filter, `csv` or `json_lines`
        with a text.  In `workunit`, ``document.NAME`` stands for a field of the document.
        """
        body = {"app": app, "source": source, "workunit": workunit, "dry_run": dry_run}
        if batch is not None:
            body["batch"] = batch
        return dict(self.transport.post("workunits/from-query", body) or {})

    def hold(self, names: Sequence[str], code: int | None = None) -> dict[str, Any]:
        """Hold the workunits with these names, with a negative code; return the JSON answer.

        Held workunits are not sent until they are released.  The answer has the numbers of
        workunits: `held`, `already`, `finished`, and `impossible` for those that wait for others.
        """
        body: dict[str, Any] = {"names": list(names)}
        if code is not None:
            body["hold_code"] = code
        return dict(self.transport.post("workunits/hold", body) or {})

    def release(self, names: Sequence[str]) -> dict[str, Any]:
        """Release held workunits; return the JSON answer with the numbers of workunits."""
        return dict(self.transport.post("workunits/release", {"names": list(names)}) or {})

    # Submission

    def map(
        self,
        app: str,
        inputs: Iterable[Input],
        *,
        into: Path | str | None = None,
        after: Iterable[WorkunitFuture] | Batch | int | str | None = None,
        **options: Any,
    ) -> Futures:
        """Submit a workunit for each input; return the futures of the workunits, in the same order.

        An input is a path or bytes (the input file), a str (the command line), a pair of a name
        and the content of the input file, or a dict of the API's fields.  `options` are arguments
        of `batch`.  The futures return outputs as bytes, or as paths if `into` is a folder for the
        outputs.  `inputs` may be a generator, because inputs are not kept in memory.  `after` is a
        batch, as in `batch`, or futures of workunits: the new workunits wait until these are done,
        and fail if one of them fails.
        """
        if after is None or isinstance(after, Batch | int | str):
            with self.batch(app=app, into=into, after=after, **options) as draft:
                draft.submit_all(inputs)
            return draft.futures
        names = after.names if isinstance(after, Futures) else [future.name for future in after]
        with self.batch(app=app, into=into, **options) as draft:
            parents = draft.join(names)
            for item in inputs:
                draft.add_after(item, parents)
        return draft.futures

    def graph(self, batch: Batch | int | str) -> list[Node]:
        """Return the workunits of a batch with the ids of those for which they wait.

        Raises UsageError for a batch with more workunits than the project's limit.
        """
        answer = self.transport.get(f"batches/{self._id_of(batch)}/graph")
        if more := answer["left_out"]:
            shown = len(answer["workunits"])
            hint = "scientist list workunits BATCH lists all of them."
            raise UsageError(f"The batch has {shown + more} workunits, too many to draw.", hint)
        return [
            Node(row["id"], row["name"], row["status"], tuple(row["after"]), row["group"])
            for row in answer["workunits"]
        ]

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
        queue: str | None = None,
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
        bundle_size: int | None = None,
        into: Path | str | None = None,
        key: str | None = None,
        total: int | None = None,
        on_progress: OnProgress = ignore_progress,
        **numbers: Any,
    ) -> DraftBatch:
        """Return a draft batch, which is submitted at the end of its `with` block.

        `quorum` is the number of results that must agree, and `deadline` the time for a result.
        `queue` is the name of the queue that sends the work.
        `command_line`, `outputs`, `input_files` (uploaded once) and `numbers` (other fields of the
        API) are defaults of all workunits.  `meta` belongs to the batch.  `after` is a batch whose
        workunits must be done first.  With `after_any`, they may also have failed.  At `expire_at`,
        or after `expires`, an unfinished batch is aborted.  With `bundle_size`, the workunits are
        sent in task lists of at most that many.  `into` is a folder for the outputs.
        `total` is the number of workunits, or None if it is unknown.  `key` is an idempotency key,
        so a repeated submission with the same key and workunits creates the workunits once.
        """
        key = key or submission_key()
        fields = {"quorum": quorum, "deadline": deadline, "queue": queue}
        fields |= {"command_line": command_line}
        defaults = fields_of({**fields, **numbers})
        entries = outputs_of(outputs) if outputs else self._default_outputs(app)
        defaults |= {"outputs": entries} if entries else {}
        if shared := files_of(input_files):
            defaults["input_files"] = shared
        attributes: dict[str, Any] = {"meta": dict(meta) if meta else None, "priority": priority}
        attributes |= {"after": self._id_of(after), "after_any": after_any, "expire_at": expire_at}
        attributes |= {"accelerate_tail": accelerate_tail, "bundle_size": bundle_size}
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


def _queue_segment(name: str) -> str:
    if not name or "/" in name or name in {".", ".."}:
        hint = "scientist queue list shows the names."
        raise UsageError(f"{name!r} is not a queue's name.", hint)
    return name


def _host_segment(host: int | str) -> str:
    text = str(host)
    if not text or "/" in text or text in {".", ".."}:
        hint = "scientist host list shows the ids and names."
        raise UsageError(f"{text!r} is not a host's id or name.", hint)
    # Clients choose the names of their hosts, so any character can occur.
    return quote(text, safe="")


def _no_app(error: NotFoundError, name: str) -> NotFoundError:
    hint = "scientist app list shows the apps; scientist app publish --create creates one."
    body = {"code": error.code, "detail": f"There is no app {name!r}.", "hint": hint}
    return NotFoundError(error.status, body)
