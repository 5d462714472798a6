"""Answers scheduler RPCs: the steps of one exchange, from top to bottom.

Read this module first.  `answer_all` takes requests that arrived together through the steps:
look up the reported outputs, recognize the hosts, settle the reports, choose work, compose the
replies, and store what was learned of the hosts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import InterfaceError, OperationalError, transaction

from scheduler.boinc import client_messages, compose, translate
from scheduler.boinc.file_moves import file_moves_part
from scheduler.boinc.wire.messages import GuiUrl, Message, SchedulerReply, SchedulerRequest
from scheduler.config import ProjectConfig
from scheduler.dispatch import assign, candidates, own_versions
from scheduler.dispatch import catalog as catalogs
from scheduler.dispatch.facts import HostFacts, Work
from scheduler.dispatch.rules.lost_results import Holdings
from scheduler.files import file_requests
from scheduler.health import maintenance
from scheduler.hosts import identity, recognition
from scheduler.hosts.facts import HostDescription
from scheduler.messages import trickles
from scheduler.messages.facts import FileMoves, PendingTrickle
from scheduler.results import report

log = logging.getLogger(__name__)

#: The text and the delay in seconds of a refusal, by the exception that causes it (PROTOCOL 2.6;
#: the wording is BOINC's).
REFUSALS: dict[type[Exception], tuple[str, float]] = {
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


def answer(
    request: SchedulerRequest, *, config: ProjectConfig, ip_addr: str, now: datetime
) -> SchedulerReply:
    """Answer one scheduler request alone; raises the exception that `answer_all` returns for it."""
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
    exchanges = [_Exchange(call.request, call.ip_addr) for call in calls]
    try:
        _process(
            [exchange for exchange in exchanges if not _is_refused(exchange, config)],
            config=config,
            now=now,
        )
    except Exception as error:  # noqa: BLE001  it is returned in place of the reply, or logged
        if len(calls) == 1:
            return [error]
        if _is_unreachable(error):
            return [error] * len(calls)
        log.warning("batch_undone", extra={"rpcs": len(calls), "error": repr(error)})
        return [reply for call in calls for reply in answer_all([call], config=config, now=now)]
    return [_build(exchange.reply) for exchange in exchanges]


def refuse(config: ProjectConfig, text: str, *, delay: float, down: bool = False) -> SchedulerReply:
    """Return a reply without work: its text is the reason, `delay` the seconds before a retry."""
    return _build(client_messages.refusal(config, text, delay=delay, down=down))


@dataclass(slots=True)
class _Exchange:
    """The state of one RPC: the steps fill its fields one after the other, `reply` last."""

    request: SchedulerRequest
    ip_addr: str
    reply: dict[str, object] = field(default_factory=dict)
    described: HostDescription = field(init=False)
    caller: identity.Caller = field(init=False)
    reported: report.Reported = field(init=False)
    settlement: report.Settlement = field(init=False)
    holdings: Holdings = field(init=False)
    host: HostFacts = field(init=False)
    no_work: tuple[Message, ...] = ()
    is_over: bool = False
    is_barred: bool = False
    work: Work = field(init=False)
    messages: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchContext:
    """Data shared by all exchanges of a batch."""

    config: ProjectConfig
    now: datetime
    catalog: catalogs.Catalog
    records: catalogs.Records


def _is_refused(exchange: _Exchange, config: ProjectConfig) -> bool:
    """Refuse a client that is too old or holds another project's key; returns whether it did."""
    if exchange.request.client_version < config.min_client_version:
        exchange.reply = client_messages.refusal(
            config, client_messages.too_old(config), delay=client_messages.DAY
        )
        return True
    try:
        key, signature = translate.code_sign_key(exchange.request)
    except KeyError:
        log.warning("unknown_code_sign_key", extra={"host_id": exchange.request.hostid})
        text = "The project has changed its security key.  Please remove and add this project."
        exchange.reply = client_messages.refusal(config, text, delay=client_messages.DAY)
        return True
    exchange.reply = {"code_sign_key": key, "code_sign_key_signature": signature}
    return False


def _process(exchanges: Sequence[_Exchange], *, config: ProjectConfig, now: datetime) -> None:
    """Take the exchanges through all steps; each exchange gets the fields of its reply."""
    # Uploads are looked up before the transaction, so that no lock is held during disk access.
    reports = [translate.reports(exchange.request) for exchange in exchanges]
    looked_up = report.look_up(reports, most=config.max_results_accepted)
    for exchange, reported in zip(exchanges, looked_up, strict=True):
        exchange.reported = reported
    with transaction.atomic():
        exchanges = _recognize(exchanges, config, now=now)
        if not exchanges:
            return
        context = _BatchContext(
            config=config,
            now=now,
            catalog=own_versions.with_rows(
                catalogs.current(exchanges[0].caller.catalog_sign),
                [
                    version
                    for exchange in exchanges
                    for version in translate.own_versions(exchange.request)
                ],
                now=now,
            ),
            records=catalogs.records([exchange.caller.host_id for exchange in exchanges]),
        )
        _settle(exchanges, context)
        _assign_work(exchanges, context)
        for exchange in exchanges:
            _reply(exchange, context)
        _store(exchanges, now=now)


def _recognize(
    exchanges: Sequence[_Exchange], config: ProjectConfig, *, now: datetime
) -> Sequence[_Exchange]:
    """Identify the account and host of each exchange; refused exchanges are left out."""
    for exchange in exchanges:
        exchange.described = translate.description(exchange.request, exchange.ip_addr)
    callers = recognition.recognize(
        [
            recognition.CallerRequest(translate.credentials(exchange.request), exchange.described)
            for exchange in exchanges
        ],
        hosts_per_account=config.hosts_per_account,
        now=now,
    )
    for exchange, caller in zip(exchanges, callers, strict=True):
        if isinstance(caller, identity.Caller):
            exchange.caller = caller
        else:
            text, delay = REFUSALS[type(caller)]
            exchange.reply = client_messages.refusal(config, text, delay=delay)
    served = zip(exchanges, callers, strict=True)
    return [exchange for exchange, caller in served if isinstance(caller, identity.Caller)]


def _settle(exchanges: Sequence[_Exchange], context: _BatchContext) -> None:
    """Record the reported results, and compare the listed results with those that are assigned."""
    config, now = context.config, context.now
    for exchange in exchanges:
        exchange.reported = report.without_other_accounts(
            exchange.reported, account_id=exchange.caller.account_id
        )
    detached = [exchange.caller.host_id for exchange in exchanges if exchange.caller.detached]
    locked = report.lock([exchange.reported for exchange in exchanges], detached_host_ids=detached)
    identity.detach(host_ids=detached, workunit_ids=locked, now=now)
    listed = [translate.listed_names(exchange.request) for exchange in exchanges]
    all_listed = {name for names in listed for name in names}
    held_results = candidates.known_results(
        reported_ids={i for exchange in exchanges for i in exchange.reported.ids.values()},
        names=all_listed,
        host_ids=[exchange.caller.host_id for exchange in exchanges],
    )
    settlements = report.record(
        [
            report.Reporter(
                reported=exchange.reported,
                account_id=exchange.caller.account_id,
                host_id=exchange.caller.host_id,
                ncpus=exchange.described.p_ncpus,
                daily_quota=config.daily_quota,
            )
            for exchange in exchanges
        ],
        results=held_results,
        records=context.records,
        apps=context.catalog.apps,
        now=now,
    )
    holdings = assign.review_holdings(
        report.as_settled(held_results, settlements, listed=all_listed),
        [
            (exchange.caller.host_id, names, _reported(exchange.request))
            for exchange, names in zip(exchanges, listed, strict=True)
        ],
    )
    for exchange, settlement, own_holdings in zip(exchanges, settlements, holdings, strict=True):
        exchange.settlement, exchange.holdings = settlement, own_holdings


class _Everything(frozenset[str]):
    """A set that contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


def _reported(request: SchedulerRequest) -> frozenset[str]:
    """Return the names of the results in a client's report, which must not count as lost.

    Reports beyond `max_results_accepted` are only counted, their names are not read.  Then every
    name counts as reported, and no result as lost.
    """
    if request.further_results:
        return _Everything()
    return frozenset(result.name for result in request.results)


def _assign_work(exchanges: Sequence[_Exchange], context: _BatchContext) -> None:
    """Choose and assign work for the hosts that request it."""
    config = context.config
    end = _end_of_project()
    for exchange in exchanges:
        barred = client_messages.why_barred(exchange.described, config)
        exchange.no_work = end or barred
        exchange.is_over, exchange.is_barred = bool(end), bool(barred)
        exchange.host = translate.host_facts(
            exchange.request,
            exchange.caller,
            exchange.described,
            held_counts=exchange.holdings.held_counts,
            promised_bytes=exchange.holdings.promised_bytes,
        )
    works = assign.assign_work(
        [_host_request(exchange) for exchange in exchanges],
        catalog=context.catalog,
        records=context.records,
        config=config,
        now=context.now,
    )
    for exchange, work in zip(exchanges, works, strict=True):
        exchange.work = work


def _host_request(exchange: _Exchange) -> assign.HostRequest:
    request, caller = exchange.request, exchange.caller
    return assign.HostRequest(
        host=exchange.host,
        holdings=exchange.holdings,
        work_requests=()
        if exchange.no_work
        else translate.work_requests(request, exchange.host.taste),
        platforms=translate.platforms(request),
        client_version=request.client_version,
        queued_seconds=translate.queued_seconds(request),
        own_versions=translate.own_versions(request),
        any_sensor=caller.any_sensor and not exchange.no_work,
        any_broadcast=caller.any_broadcast,
        any_targeted=caller.any_targeted,
    )


def _end_of_project() -> tuple[Message, ...]:
    """Return the notice of a project that has ended, else nothing.

    Results are still accepted after the end.
    """
    notice = maintenance.current()
    if notice is None or not notice.ended:
        return ()
    return (Message(text=notice.text, priority="notice"),)


def _reply(exchange: _Exchange, context: _BatchContext) -> None:
    """Store the client's trickles, and compose the fields of the reply."""
    request, caller, work = exchange.request, exchange.caller, exchange.work
    config, now = context.config, context.now
    trickles.keep(translate.trickles(request), host_id=caller.host_id, now=now)
    trickles_down, moves = _pending_for_host(request, caller, now=now)
    exchange.messages = (
        *client_messages.about_work(request, work, context.catalog, config),
        *exchange.no_work,
    )
    mod_times = (request.preferences.mod_time, request.global_preferences_mod_time)
    exchange.reply |= (
        compose.project_part(config)
        | compose.caller_part(caller, mod_times)
        | compose.holdings_part(exchange.holdings)
        | _joined(
            compose.work_part(work, config, kept_files=exchange.host.near_files),
            file_moves_part(moves, platform=request.platform_name, config=config, now=now),
        )
        | {
            "message_ack": bool(request.trickles),
            "trickles": compose.trickles(trickles_down),
            "result_acks": exchange.settlement.acknowledge,
            "messages": exchange.messages,
            "ended": exchange.is_over,
            "gui_urls": (
                GuiUrl(name="Status", description="What the project does", url=config.master_url),
            ),
        }
        | client_messages.delay(
            work, context.catalog, host=exchange.host, is_barred=exchange.is_barred
        )
    )


def _store(exchanges: Sequence[_Exchange], *, now: datetime) -> None:
    """Store what the RPCs reported of the hosts, and the users' preferences their clients sent."""
    identity.keep(
        [
            identity.HostUpdate(
                caller=exchange.caller,
                description=exchange.described,
                rpc_seqno=exchange.request.rpc_seqno,
                decision=translate.decision(exchange.work, exchange.messages, now=now),
                record_updates=translate.record_updates(
                    exchange.work, exchange.settlement.record_updates
                ),
                acknowledged=exchange.holdings.acknowledge,
            )
            for exchange in exchanges
        ],
        now=now,
    )
    for exchange in sorted(exchanges, key=lambda exchange: exchange.caller.account_id):
        _adopt(exchange.request, exchange.caller)


def _pending_for_host(
    request: SchedulerRequest, caller: identity.Caller, *, now: datetime
) -> tuple[list[PendingTrickle], FileMoves]:
    """Return the trickles and file moves that are pending for this host."""
    if not caller.any_for_host:
        return [], FileMoves()
    present = {file.name for file in request.sticky_files if file.status > 0}
    return (
        trickles.pending_down(caller.host_id, now=now),
        file_requests.take_pending(caller.host_id, present, now=now),
    )


def _joined(
    work: dict[str, tuple[object, ...]], moves: dict[str, tuple[object, ...]]
) -> dict[str, object]:
    """Concatenate the elements of both, field by field."""
    return {field: work.get(field, ()) + moves.get(field, ()) for field in work | moves}


def _adopt(request: SchedulerRequest, caller: identity.Caller) -> None:
    """Store the cross-project id and computing preferences that a client with a strong key sent."""
    cpid = translate.new_cpid(request, caller)
    prefs = request.global_preferences
    mod_time = request.global_preferences_mod_time
    is_newer = (
        caller.is_strong
        and bool(prefs)
        and mod_time > caller.global_prefs_mod_time
        and translate.may_be_from_account(request, caller)
    )
    if cpid or is_newer:
        identity.adopt(
            account_id=caller.account_id,
            cross_project_id=cpid,
            global_prefs=(prefs, mod_time) if is_newer else None,
        )


def _is_unreachable(error: Exception) -> bool:
    """Whether the database is unreachable, so that an immediate retry would fail as well."""
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    return sqlstate is None or sqlstate[:2] in {"08", "57"}


def _build(fields: dict[str, object]) -> SchedulerReply:
    return SchedulerReply(**fields)  # type: ignore[arg-type]  # names are the message's
