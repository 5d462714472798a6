"""Reads the sizes and the estimated rows of all tables."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from scheduler.sql import fetch_into, fetch_one


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table with its partitions; sizes are in bytes.

    `estimated_rows` is PostgreSQL's estimate, and `dead_rows` the number of old row versions that
    its vacuum has not removed yet.  `vacuumed_at` is the end of the newest vacuum of the table or
    of one of its partitions, or None.  `own_nbytes` is the table without indexes and TOAST (the
    table of its long values).
    """

    name: str
    estimated_rows: int
    dead_rows: int
    vacuumed_at: datetime | None
    own_nbytes: int
    index_nbytes: int
    toast_nbytes: int
    partition_count: int

    @property
    def nbytes(self) -> int:
        """The size of the table with its indexes and TOAST."""
        return self.own_nbytes + self.index_nbytes + self.toast_nbytes


def read() -> list[TableSize]:
    """Return all tables, largest first, by one statement that reads no row of them."""
    return fetch_into(TableSize, "sql/read_table_statistics", {})


def database_nbytes() -> int:
    """Return the size of the whole database in bytes, with PostgreSQL's own tables."""
    row = fetch_one("sql/read_database_size", {}) or {}
    return int(row["nbytes"])
