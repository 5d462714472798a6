"""Contains rates of BOINC's own server, and the aims of this project.

BOINC's server (C++ and FastCGI, MariaDB with durable commits) was tuned and measured on two cores
with 24 GiB in August 2026.
"""

from __future__ import annotations

SOURCE = "BOINC's own server, measured"

#: The rates of BOINC's server in units per second, by the key of the figure.
RATES: dict[str, float] = {
    "rpc_1": 455,
    "rpc_20": 1000,
    "rpc_no_work": 1890,
    "uploads": 12_100,
    "uploads_fresh": 9500,
    "submit": 20_000,
    "transitioner_new": 1800,
    "transitioner_reported": 3800,
    "transitioner_assimilated": 1370,
    "validator": 300,
    "assimilator": 1290,
    "file_deleter": 920,
    "purger": 910,
    "pipeline": 182,
    "pipeline_results": 365,
}

#: Remarks on differences between the two servers, by the key of the figure.
REMARKS: dict[str, str] = {
    "assimilator": "BOINC's assimilator did nothing; this one copies a file and syncs it",
    "pipeline": "BOINC's daemons were tuned; with its defaults it reached 130 workunits/s",
}

#: The minimum of a figure, in its unit.
AIMS: dict[str, float] = {
    "rpc_1": 1300,
    "rpc_20": 10_000,
    "rpc_no_work": 1900,
    "uploads": 8000,
    "uploads_fresh": 8000,
    "submit": 40_000,
    "transitioner_new": 20_000,
    "transitioner_reported": 20_000,
    "transitioner_assimilated": 14_000,
    "validator": 6000,
    "assimilator": 6000,
    "file_deleter": 2700,
    "purger": 4500,
    "pipeline": 730,
    "held_share": 80,
}

#: The maximum of a figure, in its unit.
AIMS_AT_MOST: dict[str, float] = {
    "claim_growth": 1.5,
    "latency_p50": 300,
    "latency_longest": 300,
    "memory": 150,
}
