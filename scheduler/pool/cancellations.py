"""Reads the results that hosts must abort, as their workunits have failed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from scheduler import sql


@dataclass(frozen=True, slots=True)
class Cancellations:
    """The names of the results that a host must abort.

    `cursor` identifies the set of names.  A host sends the last cursor that it got, and waits while
    the set is the same.
    """

    aborts: tuple[str, ...] = ()

    @property
    def cursor(self) -> str:
        return hashlib.sha256("\n".join(self.aborts).encode()).hexdigest()[:16]


def read(host_ids: Collection[int]) -> dict[int, Cancellations]:
    """Return the cancellations of each host, with one statement for all hosts."""
    names: dict[int, list[str]] = {host_id: [] for host_id in host_ids}
    for row in sql.fetch("pool/read_cancelled", {"host_ids": sorted(names)}):
        names[row["host_id"]].append(row["name"])
    return {host_id: Cancellations(tuple(aborts)) for host_id, aborts in names.items()}
