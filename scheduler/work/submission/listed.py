"""Creates the task lists of a submission, and marks workunits that wait for one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from scheduler.models import App, Bundle
from scheduler.sql import execute
from scheduler.work.submission.submission_checks import SubmissionRefused

_SINGLE = r"\N"
_WAITING = "0"


class ListedRow(Protocol):
    """A row of a new workunit, with the label of its list or None."""

    @property
    def name(self) -> str: ...

    @property
    def bundle(self) -> str | None: ...

    @property
    def can_be_listed(self) -> bool: ...


class NewLists:
    """The task lists of one submission, by their labels.

    Workunits without a label wait for a list if the batch asks for lists (`in_lists`); the bundler
    makes these lists.  Members of a list cannot be in `continued`, the names of workunits that wait
    for others.  Without lists, no statement is run.
    """

    def __init__(
        self,
        app_id: int,
        batch_id: int | None,
        *,
        in_lists: bool,
        continued: Collection[str] = (),
        now: datetime,
    ) -> None:
        self._continued = continued
        self._app_id, self._batch_id, self._now = app_id, batch_id, now
        self._in_lists = in_lists and batch_id is not None
        self._ids: dict[str, int] = {}
        self._members: list[tuple[int, int]] = []

    def assign(
        self, rows: Sequence[ListedRow], ids: Sequence[int], priorities: Sequence[int]
    ) -> list[str]:
        """Return the text of the column `bundle_id` for each row; creates new lists."""
        if not self._in_lists and all(row.bundle is None for row in rows):
            return [_SINGLE] * len(rows)
        labels: dict[str, int] = {}
        for row, priority in zip(rows, priorities, strict=True):
            if row.bundle is not None and row.bundle not in self._ids:
                labels[row.bundle] = max(priority, labels.get(row.bundle, priority))
        if labels:
            self._create(labels)
        column = []
        for row, id_ in zip(rows, ids, strict=True):
            if row.bundle is not None:
                if row.name in self._continued:
                    raise SubmissionRefused(
                        f"{row.name} is a member of task list {row.bundle!r}, and continues "
                        "another workunit. Hint: leave `bundle` out, or set bundle_size of the "
                        "batch: then lists are made of workunits that are due."
                    )
                self._members.append((self._ids[row.bundle], id_))
                column.append(str(self._ids[row.bundle]))
            else:
                column.append(_WAITING if self._in_lists and row.can_be_listed else _SINGLE)
        return column

    def finish(self) -> None:
        """Write the members of the lists; call it after the workunits are written."""
        if self._members:
            params = {
                "bundle_ids": [bundle_id for bundle_id, _ in self._members],
                "workunit_ids": [workunit_id for _, workunit_id in self._members],
            }
            execute("work/insert_bundle_members", params)
        if self._members or self._in_lists:
            App.objects.filter(pk=self._app_id, has_bundles=False).update(has_bundles=True)

    def _create(self, labels: dict[str, int]) -> None:
        if self._batch_id is None:
            msg = "A task list needs a batch. Hint: check the workunits with `WorkunitChecks`."
            raise ValueError(msg)
        bundles = Bundle.objects.bulk_create(
            Bundle(
                batch_id=self._batch_id,
                app_id=self._app_id,
                priority=priority,
                created_at=self._now,
            )
            for priority in labels.values()
        )
        self._ids |= dict(zip(labels, (bundle.pk for bundle in bundles), strict=True))
