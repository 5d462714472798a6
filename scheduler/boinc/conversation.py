"""Answers scheduler RPCs in batches, step by step.

Read this module first.  `answer_all` processes a batch of requests in these steps: refuse
unsupported clients, look up the reported outputs, recognize the hosts, record their reports, choose
work, exchange messages, compose the replies, and store the changes to the hosts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import InterfaceError, OperationalError, transaction

from scheduler.boinc import client_messages, compose, rpc_counts, sent_preferences, translate
from scheduler.boinc.file_moves import file_moves_part
from scheduler.boinc.wire.messages import GuiUrl, Message, SchedulerReply, SchedulerRequest
from scheduler.config import ProjectConfig
from scheduler.dispatch import assign, candidates, own_versions
from scheduler.dispatch import catalog as catalogs
from scheduler.dispatch.facts import Work
from scheduler.dispatch.rules import barred_hosts
from scheduler.dispatch.rules.lost_results import Holdings
from scheduler.files import file_requests
from scheduler.health import maintenance
from scheduler.hosts import identity, recognition
from scheduler.hosts.facts import HostDescription
from scheduler.messages import trickles
from scheduler.messages.facts import FileMoves, PendingTrickle
from scheduler.metrics import RpcOutcome
from scheduler.results import report

log = logging.getLogger(__name__)

#: The text and the delay in seconds of a refusal, by the exception that causes it (PROTOCOL 2.6;
#: the wording is BOINC's).
REFUSALS: dict[type[identity.CallerRefused], tuple[str, float]] = {
    identity.UnknownKey: (
        "Invalid or missing account key.  To fix, remove and add this project.",
        client_messages.HOUR,
    ),
    identity.HostDenied: ("Not accepting requests from this host", client_messages.DAY),
    identity.TooManyHosts: (
        "This account has attached too many new computers in 24 hours. Try again later.",
        6 * client_messages.HOUR,
    ),
    identity.HostBusy: ("Another scheduler instance is running for this host", 60.0),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A decoded request and the address of its sender."""

    request: SchedulerRequest
    ip_addr: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reply to a refused request, and the reason under which it is counted."""

    reply: SchedulerReply
    outcome: RpcOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The RPC of a recognized host; `place` is the position of the call in the batch.

    `reported` contains the host's reports; results of other accounts are treated as unknown.
    `barred` is the reason why the host must not get work.  It is an empty string if the host may
    get work.  Reports of a barred host are still accepted.
    """

    place: int
    request: SchedulerRequest
    code_sign_key: translate.CodeSignKey
    description: HostDescription
    caller: identity.Caller
    reported: report.Reported
    barred: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Data shared by all exchanges of a batch.

    `end` is the notice that the project has ended, or an empty string.  After the end of a project,
    reports are still accepted.
    """

    config: ProjectConfig
    now: datetime
    catalog: catalogs.Catalog
    records: catalogs.Records
    end: str


def answer(
    request: SchedulerRequest, *, config: ProjectConfig, ip_addr: str, now: datetime
) -> SchedulerReply:
    """Return the reply to one scheduler request, or raise the exception that it caused."""
    (reply,) = answer_all([Call(request, ip_addr)], config=config, now=now)
    if isinstance(reply, Exception):
        raise reply
    return reply


def answer_all(
    calls: Sequence[Call], *, config: ProjectConfig, now: datetime
) -> list[SchedulerReply | Exception]:
    """Answer a batch of scheduler requests in one transaction, with one set of statements.

    Returns, in the order of the calls, each reply or the exception that its request caused.  If any
    request fails, the transaction is rolled back and each request is answered alone, so that an
    error affects only the request that causes it.  If the database is unreachable, the error is
    returned for all calls without a second attempt.
    """
    replies: dict[int, SchedulerReply] = {}
    works: list[Work] = []
    settlements: list[report.Settlement] = []
    try:
        keys, refusals = _check_clients(calls, config)
        # Uploads are looked up before the transaction, so that no lock is held during disk access.
        reported = report.look_up(
            [translate.reports(calls[place].request) for place in keys],
            most=config.max_results_accepted,
        )
        with transaction.atomic():
            exchanges, refused_callers = _recognize(calls, keys, reported, config=config, now=now)
            refusals |= refused_callers
            if exchanges:
                batch = _batch_of(exchanges, config, now=now)
                settlements, holdings = _take_reports(exchanges, batch)
                host_requests = [
                    _host_request(*parts, batch) for parts in zip(exchanges, holdings, strict=True)
                ]
                works = assign.assign_work(
                    host_requests,
                    catalog=batch.catalog,
                    records=batch.records,
                    config=config,
                    now=now,
                )
                mail = [_take_messages(exchange, now=now) for exchange in exchanges]
                served = zip(exchanges, settlements, host_requests, works, mail, strict=True)
                replies = {parts[0].place: _compose(*parts, batch) for parts in served}
                _store(exchanges, settlements, host_requests, works, replies, now=now)
    except Exception as error:  # noqa: BLE001  the error is returned or logged
        if len(calls) == 1 or _is_unreachable(error):
            return [error] * len(calls)
        log.warning("batch_undone", extra={"rpcs": len(calls), "error": repr(error)})
        return [reply for call in calls for reply in answer_all([call], config=config, now=now)]
    rpc_counts.count_batch(
        answered=len(replies),
        refusals=[refusal.outcome for refusal in refusals.values()],
        works=works,
        reported=sum(len(settlement.acknowledge) for settlement in settlements),
    )
    replies |= {place: refusal.reply for place, refusal in refusals.items()}
    return [replies[place] for place in range(len(calls))]


def _check_clients(
    calls: Sequence[Call], config: ProjectConfig
) -> tuple[dict[int, translate.CodeSignKey], dict[int, Refusal]]:
    """Return the code-signing keys for accepted clients, and the refusals of the others.

    Both dicts are keyed by the position of the call in the batch.  A client is refused if it is too
    old, or has the code-signing key of another project.
    """
    keys: dict[int, translate.CodeSignKey] = {}
    refusals: dict[int, Refusal] = {}
    for place, call in enumerate(calls):
        if call.request.client_version < config.min_client_version:
            text, outcome = client_messages.too_old(config), RpcOutcome.CLIENT_TOO_OLD
        elif key := translate.code_sign_key(call.request):
            keys[place] = key
            continue
        else:
            log.warning("unknown_code_sign_key", extra={"host_id": call.request.hostid})
            text = "The project has changed its security key.  Please remove and add this project."
            outcome = RpcOutcome.UNKNOWN_CODE_SIGN_KEY
        reply = compose.refusal(config, text, delay=client_messages.DAY)
        refusals[place] = Refusal(reply, outcome)
    return keys, refusals


def _recognize(
    calls: Sequence[Call],
    keys: Mapping[int, translate.CodeSignKey],
    reported: Sequence[report.Reported],
    *,
    config: ProjectConfig,
    now: datetime,
) -> tuple[list[Exchange], dict[int, Refusal]]:
    """Identify the account and host of each call in `keys`.

    Returns the exchanges of recognized hosts, and the refusals of other calls by position in the
    batch.
    """
    requests = [calls[place].request for place in keys]
    descriptions = [translate.description(calls[p].request, calls[p].ip_addr) for p in keys]
    callers = recognition.recognize(
        list(zip(map(translate.credentials, requests), descriptions, strict=True)),
        hosts_per_account=config.hosts_per_account,
        now=now,
    )
    exchanges: list[Exchange] = []
    refusals: dict[int, Refusal] = {}
    for place, request, description, caller, reports in zip(
        keys, requests, descriptions, callers, reported, strict=True
    ):
        if isinstance(caller, identity.CallerRefused):
            text, delay = REFUSALS[type(caller)]
            reply = compose.refusal(config, text, delay=delay)
            refusals[place] = Refusal(reply, rpc_counts.CALLER_OUTCOMES[type(caller)])
            continue
        exchanges.append(
            Exchange(
                place=place,
                request=request,
                code_sign_key=keys[place],
                description=description,
                caller=caller,
                reported=report.without_other_accounts(reports, account_id=caller.account_id),
                barred=barred_hosts.why_barred(
                    description, banned_os=config.banned_os, banned_cpu=config.banned_cpu
                ),
            )
        )
    return exchanges, refusals


def _batch_of(exchanges: Sequence[Exchange], config: ProjectConfig, *, now: datetime) -> _Batch:
    versions = [v for exchange in exchanges for v in translate.own_versions(exchange.request)]
    catalog = catalogs.current(exchanges[0].caller.catalog_sign)
    return _Batch(
        config=config,
        now=now,
        catalog=own_versions.with_rows(catalog, versions, now=now),
        records=catalogs.records([exchange.caller.host_id for exchange in exchanges]),
        end=_end_of_project(),
    )


def _end_of_project() -> str:
    notice = maintenance.current()
    return notice.text if notice and notice.ended else ""


def _take_reports(
    exchanges: Sequence[Exchange], batch: _Batch
) -> tuple[list[report.Settlement], list[Holdings]]:
    """Record the reported results; return the settlement and the holdings of each exchange.

    The holdings result from a comparison of the results listed by the client with the results
    assigned to the host.
    """
    host_ids = [exchange.caller.host_id for exchange in exchanges]
    detached = [exchange.caller.host_id for exchange in exchanges if exchange.caller.detached]
    locked = report.lock([exchange.reported for exchange in exchanges], detached_host_ids=detached)
    identity.detach(host_ids=detached, workunit_ids=locked, now=batch.now)
    listed = [translate.listed_names(exchange.request) for exchange in exchanges]
    all_listed = {name for names in listed for name in names}
    held_results = candidates.known_results(
        reported_ids={r.id for exchange in exchanges for r in exchange.reported.results.values()},
        names=all_listed,
        host_ids=host_ids,
    )
    settlements = report.record(
        [
            report.Reporter(
                reported=exchange.reported,
                account_id=exchange.caller.account_id,
                host_id=exchange.caller.host_id,
                ncpus=exchange.description.p_ncpus,
                daily_quota=batch.config.daily_quota,
            )
            for exchange in exchanges
        ],
        results=held_results,
        records=batch.records,
        apps=batch.catalog.apps,
        now=batch.now,
    )
    reported = [translate.reported_names(exchange.request) for exchange in exchanges]
    return settlements, assign.review_holdings(
        report.as_settled(held_results, settlements, listed=all_listed),
        zip(host_ids, listed, reported, strict=True),
    )


def _host_request(exchange: Exchange, holdings: Holdings, batch: _Batch) -> assign.HostRequest:
    """Return the host's request, without work if the project has ended or the host is barred."""
    request, caller = exchange.request, exchange.caller
    host = translate.host_facts(
        request,
        caller,
        exchange.description,
        held_counts=holdings.held_counts,
        promised_bytes=holdings.promised_bytes,
    )
    no_work = bool(batch.end or exchange.barred)
    return assign.HostRequest(
        host=host,
        holdings=holdings,
        work_requests=() if no_work else translate.work_requests(request, host.taste),
        platforms=translate.platforms(request),
        client_version=request.client_version,
        queued_seconds=translate.queued_seconds(request),
        own_versions=translate.own_versions(request),
        any_sensor=caller.any_sensor and not no_work,
        any_broadcast=caller.any_broadcast,
        any_targeted=caller.any_targeted,
    )


def _take_messages(exchange: Exchange, *, now: datetime) -> tuple[list[PendingTrickle], FileMoves]:
    """Store the trickles in a request; return the trickles and file moves pending for the host."""
    request, caller = exchange.request, exchange.caller
    trickles.keep(translate.trickles(request), host_id=caller.host_id, now=now)
    if not caller.any_for_host:
        return [], FileMoves()
    present = {file.name for file in request.sticky_files if file.status > 0}
    return (
        trickles.pending_down(caller.host_id, now=now),
        file_requests.take_pending(caller.host_id, present, now=now),
    )


def _compose(
    exchange: Exchange,
    settlement: report.Settlement,
    host_request: assign.HostRequest,
    work: Work,
    mail: tuple[list[PendingTrickle], FileMoves],
    batch: _Batch,
) -> SchedulerReply:
    request, config = exchange.request, batch.config
    trickles_down, moves = mail
    notice = batch.end or exchange.barred
    preferences = sent_preferences.select(
        exchange.caller, (request.preferences.mod_time, request.global_preferences_mod_time)
    )
    fields: dict[str, Any] = (
        compose.project_part(config)
        | compose.caller_part(exchange.caller, preferences)
        | compose.feed_part(exchange.caller, config)
        | compose.holdings_part(host_request.holdings)
        | compose.work_part(work, config, kept_files=host_request.host.near_files)
        | client_messages.delay(
            work, batch.catalog, host=host_request.host, is_barred=bool(exchange.barred)
        )
    )
    for field, elements in file_moves_part(
        moves, platform=request.platform_name, config=config, now=batch.now
    ).items():
        fields[field] = fields.get(field, ()) + elements
    return SchedulerReply(
        **fields,
        code_sign_key=exchange.code_sign_key.text,
        code_sign_key_signature=exchange.code_sign_key.signature,
        message_ack=bool(request.trickles),
        trickles=compose.trickles(trickles_down),
        result_acks=settlement.acknowledge,
        messages=(
            *client_messages.about_work(request, work, batch.catalog, config),
            *client_messages.about_preferences(preferences),
            *([Message(text=notice, priority="notice")] if notice else []),
        ),
        ended=bool(batch.end),
        gui_urls=(
            GuiUrl(name="Status", description="What the project does", url=config.master_url),
        ),
    )


def _store(
    exchanges: Sequence[Exchange],
    settlements: Sequence[report.Settlement],
    host_requests: Sequence[assign.HostRequest],
    works: Sequence[Work],
    replies: Mapping[int, SchedulerReply],
    *,
    now: datetime,
) -> None:
    """Store the changes to the hosts, and newer cross-project ids and preferences of accounts."""
    identity.keep(
        [
            identity.HostUpdate(
                caller=exchange.caller,
                description=exchange.description,
                rpc_seqno=exchange.request.rpc_seqno,
                decision=translate.decision(work, replies[exchange.place].messages, now=now),
                record_updates=translate.record_updates(work, settlement.record_updates),
                acknowledged=host_request.holdings.acknowledge,
            )
            for exchange, settlement, host_request, work in zip(
                exchanges, settlements, host_requests, works, strict=True
            )
        ],
        now=now,
    )
    for exchange in sorted(exchanges, key=lambda exchange: exchange.caller.account_id):
        identity.adopt(
            exchange.caller.account_id,
            cross_project_id=translate.new_cpid(exchange.request, exchange.caller),
            global_prefs=translate.new_preferences(exchange.request, exchange.caller),
        )


def _is_unreachable(error: Exception) -> bool:
    """Return True if the database is unreachable, so that an immediate retry would fail as well."""
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    return sqlstate is None or sqlstate[:2] in {"08", "57"}
