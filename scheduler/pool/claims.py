"""Lists work for hosts of the pool, and claims it for them.

Theory of operation.  A claim sends a result to a host, as a scheduler RPC does: it judges the
result by the same rules, locks in the same order and takes a slot of the queue.  The client does
not have the result yet, so the next RPC treats it as lost and sends it again, with its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from time import sleep
from typing import Any

from django.db import connection, transaction

from scheduler import sql
from scheduler.apps.plan_class_store import machine_of
from scheduler.config import ProjectConfig
from scheduler.dispatch import catalog as catalogs
from scheduler.dispatch import claim, search
from scheduler.dispatch.catalog import Catalog
from scheduler.dispatch.facts import Candidate, HostFacts, Taste, VersionFacts, Work, WorkRequest
from scheduler.dispatch.rules import homogeneous_redundancy, host_limits
from scheduler.dispatch.search import Search
from scheduler.lifecycle import ServerState
from scheduler.models import Host, Queue
from scheduler.pool import acquisition
from scheduler.pool.facts import Acquired, AvailableResult, ClaimedResult, Filter, PoolHost
from scheduler.queues import slots
from scheduler.queues.facts import QueueFacts
from scheduler.queues.rules import serving

#: The maximum number of results that one call lists, lists as claimed, or acquires.
MAX_LISTED = 200
MAX_HELD = 1000
MAX_ACQUIRED = 64
#: The queues whose results hosts of the pool may claim.
_POOL_QUEUES: Mapping[str, Any] = {"trusted": True}
#: Delays before each attempt while other transactions hold the workunits.
_RETRY_DELAYS_SECONDS = (0.0, 0.005, 0.02, 0.05, 0.1)


class ResultUnknown(LookupError):
    """No trusted queue that serves the host has this result. Hint: list the available results."""


class ClaimRefused(Exception):
    """A result cannot be claimed; `reason` is a word for programs.

    `claimed`: another host has it; `cancelled`: its workunit was cancelled or has failed;
    `unavailable`: the workunit may not be sent now; `unfit`: this host may not run it; `busy`:
    another request of this host is being answered, or other transactions hold the workunit.
    """

    def __init__(self, reason: str, sentence: str) -> None:
        self.reason = reason
        super().__init__(sentence)


def available(
    pool_host: PoolHost, wanted: Filter, *, limit: int, now: datetime
) -> list[AvailableResult]:
    """Return unsent results of trusted queues that serve the host, oldest first.

    A listed result may be gone when the host claims it.
    """
    queue_ids = [
        queue.id
        for queue in _trusted_queues(wanted.queue)
        if _why_closed(queue, pool_host, now=now) is None
    ]
    if not queue_ids:
        return []
    params = asdict(wanted) | {"queue_ids": queue_ids, "limit": limit, "now": now}
    return sql.fetch_into(AvailableResult, "pool/read_available", params)


def claimed_by(pool_host: PoolHost) -> list[ClaimedResult]:
    """Return the newest results in progress on the host, however they were assigned."""
    params = {"host_id": pool_host.host_id, "limit": MAX_HELD}
    rows = sql.fetch("pool/read_claimed", params)
    return [ClaimedResult(row["id"], row["name"], row["report_deadline"]) for row in rows]


def claim_one(
    pool_host: PoolHost, result_id: int, *, config: ProjectConfig, now: datetime
) -> ClaimedResult:
    """Claim a result for a host; a repeated claim by the same host succeeds.

    Raises `ResultUnknown` and `ClaimRefused`.
    """
    name = ""
    with transaction.atomic():
        _lock_host(pool_host)
        for delay in _RETRY_DELAYS_SECONDS:
            sleep(delay)
            row = _read_claimable(pool_host, result_id, now=now)
            if row is None or not _serves(row, pool_host):
                raise ResultUnknown(_UNKNOWN)
            name = row["name"]
            if row["host_id"] == pool_host.host_id and _is_in_progress(row):
                return ClaimedResult(result_id, name, row["report_deadline"])
            if row["cancelled"]:
                raise ClaimRefused("cancelled", f"The workunit of {name} was cancelled.")
            if row["server_state"] != ServerState.UNSENT:
                raise ClaimRefused("claimed", f"{name} was claimed by another host.")
            host_search = _search(pool_host, most=1, config=config, now=now)
            _judge(host_search, row, config=config, now=now)
            if not host_search.has_feasible:
                raise _refusal(name, host_search.work)
            if claimed := _claim(host_search, now=now):
                return claimed[0]
    raise ClaimRefused(
        "unavailable",
        f"{name} may not be sent now: it is being changed, held, or waits for its time. "
        "Hint: claim another result, or try again.",
    )


def acquire(
    pool_host: PoolHost, wanted: Filter, *, count: int, config: ProjectConfig, now: datetime
) -> Acquired:
    """Claim at most `count` available results that the host can run.

    The server selects them in the order of the queues, as a scheduler RPC does.  Fewer are returned
    if other transactions hold some of them.  Raises `ClaimRefused` with the reason `busy`, and with
    `unfit` if the limit of one request was reached before a result that the host can run.
    """
    with transaction.atomic():
        _lock_host(pool_host)
        queue_ids = [queue.id for queue in _trusted_queues(wanted.queue)]
        rows_left, acquired = acquisition.MAX_ROWS, Acquired([], 0, all_read=False)
        for delay in _RETRY_DELAYS_SECONDS:
            # An attempt reads from the beginning, and needs as many rows as the one before.
            if rows_left < acquired.results_read:
                break
            sleep(delay)
            host_search = _search(pool_host, most=count, config=config, now=now)
            extent = acquisition.find(
                host_search,
                wanted,
                queue_ids=queue_ids,
                max_rows=rows_left,
                config=config,
                now=now,
            )
            rows_left -= extent.results_read
            if host_search.has_feasible:
                claimed = _claim(host_search, now=now)
            elif extent.results_read and not extent.all_read:
                raise _none_fits(extent.results_read)
            else:
                claimed = []
            acquired = Acquired(claimed, extent.results_read, extent.all_read)
            if claimed or not host_search.has_feasible:
                break
    return acquired


_UNKNOWN = (
    "No trusted queue that serves this host has this result. Hint: list the available results."
)


def _lock_host(pool_host: PoolHost) -> None:
    """Take the lock of the host's RPCs, so that its limits hold."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))",
            [f"host {pool_host.host_id}"],
        )
        row = cursor.fetchone()
    if not (row and row[0]):
        msg = "Another request of this host is being answered. Hint: try again in a second."
        raise ClaimRefused("busy", msg)


def _trusted_queues(name: str | None) -> list[QueueFacts]:
    queues = Queue.objects.filter(**_POOL_QUEUES)
    if name is not None:
        queues = queues.filter(name=name)
    columns = [column for column in QueueFacts.__slots__ if column != "version"]
    return [QueueFacts(**row) for row in queues.order_by("id").values(*columns)]


def _why_closed(queue: QueueFacts, pool_host: PoolHost, *, now: datetime) -> serving.Closed | None:
    return serving.why_closed(
        queue, host_id=pool_host.host_id, account_id=pool_host.account_id, now=now
    )


def _serves(row: Mapping[str, Any], pool_host: PoolHost) -> bool:
    facts = next((queue for queue in _trusted_queues(None) if queue.id == row["queue_id"]), None)
    return facts is not None and serving.serves(
        facts, host_id=pool_host.host_id, account_id=pool_host.account_id
    )


def _read_claimable(pool_host: PoolHost, result_id: int, *, now: datetime) -> dict[str, Any] | None:
    params = {
        "result_id": result_id,
        "host_id": pool_host.host_id,
        "account_id": pool_host.account_id,
        "now": now,
    }
    return next(iter(sql.fetch("pool/read_claimable", params)), None)


def _is_in_progress(row: Mapping[str, Any]) -> bool:
    return bool(row["server_state"] == ServerState.IN_PROGRESS)


def _search(pool_host: PoolHost, *, most: int, config: ProjectConfig, now: datetime) -> Search:
    """Return a search for at most `most` results for the host, without candidates."""
    host = Host.objects.select_related("account").get(pk=pool_host.host_id)
    catalog = catalogs.fresh()
    facts = _host_facts(host)
    versions = catalog.versions_for(
        host_id=host.pk,
        machine=facts.machine,
        platforms=[host.platform_name],
        client_version=host.client_version,
        records=catalogs.records([host.pk]),
    )
    by_app: dict[int, list[VersionFacts]] = {}
    for version in versions.values():
        by_app.setdefault(version.facts.app_id, []).append(version.facts)
    headroom = host_limits.headroom_for(
        facts,
        config,
        apps=catalog.current.values(),
        versions={version_id: version.facts for version_id, version in versions.items()},
    )
    headroom.total = min(headroom.total, most)
    return Search(
        work=Work(asked_for_work=True, apps=catalog.current, versions=versions),
        host=facts,
        work_requests=_work_requests(facts, most),
        headroom=headroom,
        versions=by_app,
        streams=(),
        queues=catalog.queues,
        closed=_closed(catalog, pool_host, now=now),
    )


def _judge(
    host_search: Search, row: Mapping[str, Any], *, config: ProjectConfig, now: datetime
) -> None:
    """Judge one result for the host of a search."""
    is_candidate = (
        row["server_state"] == ServerState.UNSENT
        and not row["had_before"]
        and row["app_id"] in host_search.work.apps
    )
    if not is_candidate:
        return
    candidate = Candidate(**{name: row[name] for name in Candidate._fields})
    host_search.candidates = {None: {candidate.result_id: candidate}}
    queue = host_search.queues[candidate.queue_id]
    if queue.is_capped and queue.id not in host_search.closed:
        host_search.free_slots = dict(slots.free_slots([queue]))
    if host_search.headroom.total:
        search.find_beyond([host_search], unavailable=(), config=config, now=now)


def _closed(catalog: Catalog, pool_host: PoolHost, *, now: datetime) -> dict[int, serving.Closed]:
    return {
        queue.id: closed
        for queue in catalog.queues.values()
        if (closed := _why_closed(queue, pool_host, now=now))
    }


def _work_requests(host: HostFacts, most: int) -> tuple[WorkRequest, ...]:
    """Return a request per device, GPUs first, that every number of results up to `most` meets."""
    instances = float(most * max(1, host.ncpus))
    devices = dict.fromkeys(gpu.kind for gpu in host.machine.gpus)
    return tuple(WorkRequest(instances=instances, device=device) for device in (*devices, ""))


def _host_facts(host: Host) -> HostFacts:
    """Return the facts of a host from its row, without the limits of its preferences."""
    held_rows = sql.fetch("pool/read_held", {"host_id": host.pk})
    machine = machine_of(host)
    return HostFacts(
        id=host.pk,
        account_id=host.account_id,
        team_id=host.account.team_id,
        ncpus=host.p_ncpus,
        fpops=host.p_fpops,
        memory_bytes=host.m_nbytes,
        disk_bytes=host.d_free,
        bandwidth=host.n_bwdown,
        max_in_progress=host.max_in_progress,
        held_counts={(row["app_id"], row["app_version_id"]): row["held"] for row in held_rows},
        promised_bytes=sum(row["output_bytes"] for row in held_rows),
        hr_classes={
            hr_type: homogeneous_redundancy.hr_class(
                hr_type,
                os_name=host.os_name,
                p_vendor=host.p_vendor,
                p_model=host.p_model,
            )
            for hr_type in (1, 2)
        },
        machine=machine,
        taste=Taste(allow_beta=True),
    )


def _claim(host_search: Search, *, now: datetime) -> list[ClaimedResult]:
    claim.claim([host_search], apps=host_search.work.apps, now=now)
    assigned = host_search.work.assigned
    if assigned:
        versions = sorted({result.app_version_id for result in assigned})
        params = {"host_id": host_search.host.id, "app_version_ids": versions}
        sql.execute("pool/insert_records", params)
    return [ClaimedResult(r.result_id, r.result_name, r.report_deadline) for r in assigned]


def _refusal(name: str, work: Work) -> ClaimRefused:
    sentences = list(work.sentences.values())
    if not sentences:
        msg = (
            f"{name} may not go to this host: it holds too many results, or had a result of the "
            "workunit. Hint: report results first, or claim another one."
        )
        return ClaimRefused("unfit", msg)
    return ClaimRefused("unfit", f"{name} may not go to this host: {sentences[0].rstrip('.')}.")


def _none_fits(rows_read: int) -> ClaimRefused:
    msg = (
        f"This host may run none of the first {rows_read} unsent results of these queues, and one "
        "request reads no more; the others were not read. Hint: name another queue or app, or list "
        "results with limits and claim one by its id."
    )
    return ClaimRefused("unfit", msg)
