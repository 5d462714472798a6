"""What BOINC's own server does on a machine like ours: the figures to beat.

Two cores, 24 GiB, C++ and FastCGI, MariaDB with durable commits, tuned; August 2026.
"""

from __future__ import annotations

SOURCE = "BOINC's own server, measured"

#: Units per second, by the key of our line.
RATES: dict[str, float] = {
    "rpc_1": 455,
    "rpc_20": 1000,
    "rpc_no_work": 1890,
    "uploads": 12_100,
    "submit": 20_000,
    "transitioner_new": 1800,
    "transitioner_reported": 3800,
    "transitioner_assimilated": 1370,
    "validator": 300,
    "assimilator": 1290,
    "file_deleter": 920,
    "purger": 910,
}

#: Where the peer's work was not quite ours.
REMARKS: dict[str, str] = {
    "assimilator": "the peer's assimilator did nothing; ours copies a file and syncs it",
}
