"""Defines the sizes of a run: quick, usual or large."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The durations (in seconds) and the numbers of rows and requests of a run."""

    name: str
    pgbench_seconds: int
    rpc_seconds: float
    #: The number of unsent results, by the number of results per RPC.
    rpc_unsent: dict[int, int]
    #: The numbers of hosts with which the RPCs with most results are repeated.
    rpc_crowds: tuple[int, ...]
    upload_seconds: float
    uploads: int
    synced_uploads: bool
    backlog: int
    claims_at: tuple[int, ...]
    claims: int
    pipeline: int
    open_transaction: bool
    latencies: int
    #: A part is skipped if more time than this has passed since the start of the run.
    latest_start_seconds: float


QUICK = Size(
    name="quick",
    pgbench_seconds=1,
    rpc_seconds=2.0,
    rpc_unsent={1: 4000, 20: 12_000},
    rpc_crowds=(64,),
    upload_seconds=1.0,
    uploads=20_000,
    synced_uploads=False,
    backlog=1000,
    claims_at=(2000, 20_000),
    claims=100,
    pipeline=500,
    open_transaction=False,
    latencies=3,
    latest_start_seconds=600,
)
USUAL = Size(
    name="usual",
    pgbench_seconds=2,
    rpc_seconds=5.0,
    rpc_unsent={1: 14_000, 20: 60_000},
    rpc_crowds=(1, 4, 64, 256),
    upload_seconds=3.0,
    uploads=50_000,
    synced_uploads=False,
    backlog=10_000,
    claims_at=(10_000, 200_000),
    claims=400,
    pipeline=5000,
    open_transaction=False,
    latencies=8,
    latest_start_seconds=600,
)
LARGE = Size(
    name="large",
    pgbench_seconds=5,
    rpc_seconds=10.0,
    rpc_unsent={1: 20_000, 20: 100_000},
    rpc_crowds=(1, 4, 64, 256),
    upload_seconds=6.0,
    uploads=90_000,
    synced_uploads=True,
    backlog=50_000,
    claims_at=(10_000, 1_000_000, 10_000_000),
    claims=1000,
    pipeline=20_000,
    open_transaction=True,
    latencies=20,
    latest_start_seconds=1260,
)
#: The size for the test of the bench.
TINY = replace(
    QUICK,
    name="tiny",
    rpc_seconds=1.0,
    rpc_unsent={1: 400},
    rpc_crowds=(4,),
    upload_seconds=0.5,
    uploads=4000,
    backlog=100,
    claims_at=(100, 2000),
    claims=10,
    pipeline=40,
    open_transaction=True,
    latencies=1,
)
SIZES = {size.name: size for size in (TINY, QUICK, USUAL, LARGE)}
