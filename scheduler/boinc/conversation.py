"""One scheduler RPC, from top to bottom: the page to read first."""

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
from scheduler.dispatch import candidates, dispatch, own_versions
from scheduler.dispatch import catalog as catalogs
from scheduler.dispatch.facts import Work
from scheduler.dispatch.rules.lost_results import Holdings
from scheduler.files import file_requests
from scheduler.health import maintenance
from scheduler.hosts import identity, recognition
from scheduler.hosts.facts import HostDescription, HostFacts
from scheduler.messages import trickles
from scheduler.messages.facts import FileMoves, TrickleToSay
from scheduler.results import report

log = logging.getLogger(__name__)

#: What a client is told when it cannot be served: text and delay in seconds, by the exception
#: raised where the refusal arises (PROTOCOL 2.6; the wording is BOINC's).
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
    """One request, and from where it came."""

    request: SchedulerRequest
    ip_addr: str


def answer(
    request: SchedulerRequest, *, config: ProjectConfig, ip_addr: str, now: datetime
) -> SchedulerReply:
    """Answer one scheduler request by itself; raises what `answer_all` returns as an exception."""
    (reply,) = answer_all([Call(request, ip_addr)], config=config, now=now)
    if isinstance(reply, Exception):
        raise reply
    return reply


def answer_all(
    calls: Sequence[Call], *, config: ProjectConfig, now: datetime
) -> list[SchedulerReply | Exception]:
    """Answer scheduler requests that came together: one transaction, one set of statements.

    One that goes wrong takes nobody with it: then all is rolled back, and each is answered by
    itself.  What goes wrong with one alone is returned in the place of its reply.
    """
    talks = [_Talk(call.request, call.ip_addr) for call in calls]
    try:
        _converse([talk for talk in talks if not _is_refused(talk, config)], config=config, now=now)
    except Exception as error:  # noqa: BLE001  it is logged or handed on, by whoever caused it
        if len(calls) == 1:
            return [error]
        if _is_away(error):
            return [error] * len(calls)
        log.warning("batch_undone", extra={"rpcs": len(calls), "error": repr(error)})
        return [one for call in calls for one in answer_all([call], config=config, now=now)]
    return [_build(talk.reply) for talk in talks]


def refuse(config: ProjectConfig, text: str, *, delay: float, down: bool = False) -> SchedulerReply:
    """A valid reply that only says why not, and when to ask again."""
    return _build(client_messages.refusal(config, text, delay=delay, down=down))


@dataclass(slots=True)
class _Talk:
    """One conversation: what is known of it by now, and at last the fields of the reply."""

    request: SchedulerRequest
    ip_addr: str
    reply: dict[str, object] = field(default_factory=dict)
    described: HostDescription = field(init=False)
    caller: identity.Caller = field(init=False)
    reported: report.Reported = field(init=False)
    settled: report.Settlement = field(init=False)
    holdings: Holdings = field(init=False)
    host: HostFacts = field(init=False)
    no_work: tuple[Message, ...] = ()
    is_over: bool = False
    is_barred: bool = False
    work: Work = field(init=False)
    said: tuple[Message, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Books:
    """What all conversations of a batch go by."""

    config: ProjectConfig
    now: datetime
    catalog: catalogs.Catalog
    records: catalogs.Records


def _is_refused(talk: _Talk, config: ProjectConfig) -> bool:
    """Whether a client cannot be served whoever it is: too old, or of another project."""
    if talk.request.client_version < config.min_client_version:
        talk.reply = client_messages.refusal(
            config, client_messages.too_old(config), delay=client_messages.DAY
        )
        return True
    try:
        key, signature = translate.code_sign_key(talk.request)
    except KeyError:
        log.warning("unknown_code_sign_key", extra={"host_id": talk.request.hostid})
        text = "The project has changed its security key.  Please remove and add this project."
        talk.reply = client_messages.refusal(config, text, delay=client_messages.DAY)
        return True
    talk.reply = {"code_sign_key": key, "code_sign_key_signature": signature}
    return False


def _converse(talks: Sequence[_Talk], *, config: ProjectConfig, now: datetime) -> None:
    # Which outputs arrived is looked up before the transaction: no lock waits for a disk.
    reports = [translate.reports(talk.request) for talk in talks]
    found = report.look_up(reports, most=config.max_results_accepted)
    for talk, reported in zip(talks, found, strict=True):
        talk.reported = reported
    with transaction.atomic():
        talks = _recognise(talks, config, now=now)
        if not talks:
            return
        books = _Books(
            config=config,
            now=now,
            catalog=own_versions.with_rows(
                catalogs.current(talks[0].caller.catalog_sign),
                [one for talk in talks for one in translate.own_versions(talk.request)],
                now=now,
            ),
            records=catalogs.records([talk.caller.host_id for talk in talks]),
        )
        _settle(talks, books)
        _give(talks, books)
        for talk in talks:
            _reply(talk, books)
        _keep(talks, now=now)


def _recognise(talks: Sequence[_Talk], config: ProjectConfig, *, now: datetime) -> Sequence[_Talk]:
    """Learn who calls; those who cannot be served are told so, the others returned."""
    for talk in talks:
        talk.described = translate.description(talk.request, talk.ip_addr)
    callers = recognition.recognise(
        [recognition.Knock(translate.credentials(talk.request), talk.described) for talk in talks],
        hosts_per_account=config.hosts_per_account,
        now=now,
    )
    for talk, caller in zip(talks, callers, strict=True):
        if isinstance(caller, identity.Caller):
            talk.caller = caller
        else:
            text, delay = REFUSALS[type(caller)]
            talk.reply = client_messages.refusal(config, text, delay=delay)
    served = zip(talks, callers, strict=True)
    return [talk for talk, caller in served if isinstance(caller, identity.Caller)]


def _settle(talks: Sequence[_Talk], books: _Books) -> None:
    """Take what the clients report, and compare what they list with what they should hold."""
    config, now = books.config, books.now
    for talk in talks:
        talk.reported = report.without_strangers(talk.reported, account_id=talk.caller.account_id)
    detached = [talk.caller.host_id for talk in talks if talk.caller.detached]
    locked = report.lock([talk.reported for talk in talks], detached_host_ids=detached)
    identity.detach(host_ids=detached, workunit_ids=locked, now=now)
    listed = [translate.held_names(talk.request) for talk in talks]
    all_listed = {name for names in listed for name in names}
    known = candidates.known_results(
        reported_ids={i for talk in talks for i in talk.reported.ids.values()},
        names=all_listed,
        host_ids=[talk.caller.host_id for talk in talks],
    )
    settled = report.record(
        [
            report.Reporter(
                reported=talk.reported,
                account_id=talk.caller.account_id,
                host_id=talk.caller.host_id,
                ncpus=talk.described.p_ncpus,
                daily_quota=config.daily_quota,
            )
            for talk in talks
        ],
        results=known,
        records=books.records,
        apps=books.catalog.apps,
        now=now,
    )
    holdings = dispatch.review_holdings(
        report.as_settled(known, settled, listed=all_listed),
        [
            (talk.caller.host_id, names, _reported(talk.request))
            for talk, names in zip(talks, listed, strict=True)
        ],
    )
    for talk, one, held in zip(talks, settled, holdings, strict=True):
        talk.settled, talk.holdings = one, held


class _Everything(frozenset[str]):
    """Every name there is."""

    def __contains__(self, name: object) -> bool:
        return True


def _reported(request: SchedulerRequest) -> frozenset[str]:
    """What a client says it has done, also what is too much to be taken now: it is not lost.

    Of very many not all names are read; then nothing is.
    """
    if request.further_results:
        return _Everything()
    return frozenset(one.name for one in request.results)


def _give(talks: Sequence[_Talk], books: _Books) -> None:
    """Give the hosts what they ask for."""
    config = books.config
    end = _end_of_project()
    for talk in talks:
        barred = client_messages.why_barred(talk.described, config)
        talk.no_work, talk.is_over, talk.is_barred = end or barred, bool(end), bool(barred)
        talk.host = translate.host_facts(
            talk.request,
            talk.caller,
            talk.described,
            held=talk.holdings.held,
            promised_bytes=talk.holdings.promised_bytes,
        )
    works = dispatch.give(
        [_asking(talk) for talk in talks],
        catalog=books.catalog,
        records=books.records,
        config=config,
        now=books.now,
    )
    for talk, work in zip(talks, works, strict=True):
        talk.work = work


def _asking(talk: _Talk) -> dispatch.Asking:
    request, caller = talk.request, talk.caller
    return dispatch.Asking(
        host=talk.host,
        holdings=talk.holdings,
        wishes=() if talk.no_work else translate.wishes(request, talk.host.taste),
        platforms=translate.platforms(request),
        client_version=request.client_version,
        queued_seconds=translate.queued_seconds(request),
        own_versions=translate.own_versions(request),
        any_sensor=caller.any_sensor and not talk.no_work,
        any_broadcast=caller.any_broadcast,
        any_targeted=caller.any_targeted,
    )


def _end_of_project() -> tuple[Message, ...]:
    """What is said to the clients of a project that is over; its last results are still taken."""
    notice = maintenance.current()
    if notice is None or not notice.ended:
        return ()
    return (Message(text=notice.text, priority="notice"),)


def _reply(talk: _Talk, books: _Books) -> None:
    """Take what the client says beside, and put together what it is told."""
    request, caller, work = talk.request, talk.caller, talk.work
    config, now = books.config, books.now
    trickles.keep(translate.trickles(request), host_id=caller.host_id, now=now)
    heard, moves = _errands(request, caller, now=now)
    talk.said = (*client_messages.about_work(request, work, books.catalog, config), *talk.no_work)
    mod_times = (request.preferences.mod_time, request.global_preferences_mod_time)
    talk.reply |= (
        compose.project_part(config)
        | compose.caller_part(caller, mod_times)
        | compose.holdings_part(talk.holdings)
        | _together(
            compose.work_part(work, config, kept=talk.host.near_files),
            file_moves_part(moves, platform=request.platform_name, config=config, now=now),
        )
        | {
            "message_ack": bool(request.trickles),
            "trickles": compose.trickles(heard),
            "result_acks": talk.settled.acknowledge,
            "messages": talk.said,
            "ended": talk.is_over,
            "gui_urls": (
                GuiUrl(name="Status", description="What the project does", url=config.master_url),
            ),
        }
        | client_messages.delay(work, books.catalog, host=talk.host, is_barred=talk.is_barred)
    )


def _keep(talks: Sequence[_Talk], *, now: datetime) -> None:
    """Write down what was learned of the hosts, and what their clients brought of their users."""
    identity.keep(
        [
            identity.Learned(
                caller=talk.caller,
                description=talk.described,
                rpc_seqno=talk.request.rpc_seqno,
                decision=translate.decision(talk.work, talk.said, now=now),
                lessons=translate.lessons(talk.work, talk.settled.lessons),
                acknowledged=talk.holdings.acknowledge,
            )
            for talk in talks
        ],
        now=now,
    )
    for talk in sorted(talks, key=lambda talk: talk.caller.account_id):
        _adopt(talk.request, talk.caller)


def _errands(
    request: SchedulerRequest, caller: identity.Caller, *, now: datetime
) -> tuple[list[TrickleToSay], FileMoves]:
    """What waits for this host beside work: messages to its results, moves of its files."""
    if not caller.any_for_host:
        return [], FileMoves()
    present = {file.name for file in request.sticky_files if file.status > 0}
    return (
        trickles.pending_down(caller.host_id, now=now),
        file_requests.take_pending(caller.host_id, present, now=now),
    )


def _together(
    work: dict[str, tuple[object, ...]], moves: dict[str, tuple[object, ...]]
) -> dict[str, object]:
    """The elements of both, field by field."""
    return {field: work.get(field, ()) + moves.get(field, ()) for field in work | moves}


def _adopt(request: SchedulerRequest, caller: identity.Caller) -> None:
    """Take over what a client with a strong key says of its user: identity and preferences."""
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


def _is_away(error: Exception) -> bool:
    """Whether the database itself is away, so that trying again at once would help nobody."""
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    sqlstate = getattr(error.__cause__, "sqlstate", None)
    return sqlstate is None or sqlstate[:2] in {"08", "57"}


def _build(fields: dict[str, object]) -> SchedulerReply:
    return SchedulerReply(**fields)  # type: ignore[arg-type]  # names are the message's
