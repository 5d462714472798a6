"""One scheduler RPC, from top to bottom: the page to read first."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from scheduler.config import ProjectConfig
from scheduler.facts.handout import Work
from scheduler.facts.hosts import HostDescription
from scheduler.facts.messages import FileMoves, TrickleToSay
from scheduler.operations import dispatch, file_requests, hosts, maintenance, report, trickles
from scheduler.policy import gates
from scheduler.queries import handout
from scheduler.rpc import compose, translate
from scheduler.rpc.file_moves import file_moves_part
from scheduler.wire.messages import GuiUrl, Message, SchedulerReply, SchedulerRequest

log = logging.getLogger(__name__)

HOUR = 3600.0
DAY = 86400.0

#: What a client is told when it cannot be served: text and delay in seconds, by the exception
#: raised where the refusal arises (PROTOCOL 2.6; the wording is BOINC's).
REFUSALS: dict[type[Exception], tuple[str, float]] = {
    hosts.UnknownKey: (
        "Invalid or missing account key.  To fix, remove and add this project.",
        HOUR,
    ),
    hosts.HostDenied: ("Not accepting requests from this host", DAY),
    hosts.HostBusy: ("Another scheduler instance is running for this host", 60.0),
}


def answer(
    request: SchedulerRequest, *, config: ProjectConfig, ip_addr: str, now: datetime
) -> SchedulerReply:
    """Answer one scheduler request; one transaction, a constant number of statements."""
    if request.client_version < config.min_client_version:
        return refuse(config, _too_old(config), delay=DAY)
    try:
        key, key_signature = translate.code_sign_key(request)
    except KeyError:
        log.warning("unknown_code_sign_key", extra={"host_id": request.hostid})
        text = "The project has changed its security key.  Please remove and add this project."
        return refuse(config, text, delay=DAY)
    # Which outputs arrived is looked up before the transaction: no lock waits for a disk.
    reported = report.look_up(translate.reports(request), most=config.max_results_accepted)
    try:
        with transaction.atomic():
            fields = _converse(request, reported, config=config, ip_addr=ip_addr, now=now)
    except tuple(REFUSALS) as refusal:
        text, delay = REFUSALS[type(refusal)]
        return refuse(config, text, delay=delay)
    return _build(fields, code_sign_key=key, code_sign_key_signature=key_signature)


def refuse(config: ProjectConfig, text: str, *, delay: float, down: bool = False) -> SchedulerReply:
    """A valid reply that only says why not, and when to ask again."""
    return _build(
        compose.project_part(config),
        messages=(Message(text=text, priority="notice"),),
        request_delay=delay,
        project_is_down=down,
    )


def _converse(
    request: SchedulerRequest,
    reported: report.Reported,
    *,
    config: ProjectConfig,
    ip_addr: str,
    now: datetime,
) -> dict[str, object]:
    described = translate.description(request, ip_addr)
    caller = hosts.recognise(translate.credentials(request), described, now=now)
    locked = report.lock(reported, detached_host_id=caller.host_id if caller.detached else None)
    if caller.detached:
        hosts.detach(host_id=caller.host_id, workunit_ids=locked, now=now)
    settled = report.record(
        reported,
        account_id=caller.account_id,
        host_id=caller.host_id,
        ncpus=described.p_ncpus,
        daily_quota=config.daily_quota,
        now=now,
    )
    holdings = dispatch.review_holdings(
        host_id=caller.host_id,
        listed=translate.held_names(request),
        # Also those that are too many to be taken now: their client still has them.
        reported=[result.name for result in request.results],
    )
    host = translate.host_facts(request, caller, described, held=holdings.held)
    end = _end_of_project()
    barred = _barred(described, config)
    no_work = end or barred
    asking = dispatch.Asking(
        wishes=() if no_work else translate.wishes(request, host.taste),
        platforms=translate.platforms(request),
        client_version=request.client_version,
        any_sensor=caller.any_sensor and not no_work,
        any_broadcast=caller.any_broadcast,
    )
    work = dispatch.give(host, asking, holdings=holdings, config=config, now=now)
    trickles.keep(translate.trickles(request), host_id=caller.host_id, now=now)
    heard, moves = _errands(request, caller, now=now)
    said = (*_messages(request, work, config), *no_work)
    hosts.keep(
        caller,
        described,
        rpc_seqno=request.rpc_seqno,
        decision=translate.decision(work, said, now=now),
        lessons=translate.lessons(work, settled.lessons),
        acknowledged=holdings.acknowledge,
        now=now,
    )
    _adopt(request, caller)
    mod_times = (request.preferences.mod_time, request.global_preferences_mod_time)
    return (
        compose.project_part(config)
        | compose.caller_part(caller, mod_times)
        | compose.holdings_part(holdings)
        | _together(
            compose.work_part(work, config, kept=host.near_files),
            file_moves_part(moves, platform=request.platform_name, config=config, now=now),
        )
        | {
            "message_ack": bool(request.trickles),
            "trickles": compose.trickles(heard),
            "result_acks": settled.acknowledge,
            "messages": said,
            "ended": bool(end),
            "gui_urls": (
                GuiUrl(name="Status", description="What the project does", url=config.master_url),
            ),
        }
        | _delay(work, is_barred=bool(barred))
    )


def _end_of_project() -> tuple[Message, ...]:
    """What is said to the clients of a project that is over; its last results are still taken."""
    notice = maintenance.current()
    if notice is None or not notice.ended:
        return ()
    return (Message(text=notice.text, priority="notice"),)


def _barred(described: HostDescription, config: ProjectConfig) -> tuple[Message, ...]:
    """What is said to a computer that gets no work; what it reports is still taken."""
    text = gates.why_barred(described, banned_os=config.banned_os, banned_cpu=config.banned_cpu)
    return (Message(text=text, priority="notice"),) if text else ()


def _errands(
    request: SchedulerRequest, caller: hosts.Caller, *, now: datetime
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


def _adopt(request: SchedulerRequest, caller: hosts.Caller) -> None:
    """Take over what a client with a strong key says of its user: identity and preferences."""
    cpid = translate.new_cpid(request, caller)
    prefs = request.global_preferences
    mod_time = request.global_preferences_mod_time
    is_newer = caller.is_strong and bool(prefs) and mod_time > caller.global_prefs_mod_time
    if cpid or is_newer:
        hosts.adopt(
            account_id=caller.account_id,
            cross_project_id=cpid,
            global_prefs=(prefs, mod_time) if is_newer else None,
        )


def _messages(request: SchedulerRequest, work: Work, config: ProjectConfig) -> Iterable[Message]:
    for given in work.resent:
        yield Message(text=f"Resent lost task {given.result_name}")
    for name in work.given_up:
        yield Message(text=f"Didn't resend lost task {name} (expired)")
    if not work.asked or work.sent:
        return
    if work.come_again:
        # "too recent" tells a stock client not to count this as "no work" (PROTOCOL 2.4).
        yield Message(text="Tasks are being handed out; this request is too recent, ask again soon")
        return
    if not work.versions and work.apps and handout.any_app_version():
        yield Message(
            text=f"{config.name} doesn't support computers of type {request.platform_name}",
            priority="notice",
        )
        return
    yield Message(text="No tasks sent")
    yield Message(text=work.primary_reason() or "Project has no tasks available")


def _delay(work: Work, *, is_barred: bool) -> dict[str, object]:
    if is_barred:
        return {"request_delay": DAY}
    if work.asked and not work.sent and work.come_again:
        return {"request_delay": 2.0}
    return {}


def _too_old(config: ProjectConfig) -> str:
    major, minor = divmod(config.min_client_version // 100, 100)
    return f"This project needs BOINC {major}.{minor} or later. Please update your BOINC client."


def _build(fields: dict[str, object], **more: object) -> SchedulerReply:
    return SchedulerReply(**(fields | more))  # type: ignore[arg-type]  # names are the message's
