"""What clients are told in words, in BOINC's where it has any."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.boinc import compose
from scheduler.boinc.wire.messages import Message, SchedulerRequest
from scheduler.config import ProjectConfig
from scheduler.dispatch.catalog import Catalog
from scheduler.dispatch.facts import Work
from scheduler.dispatch.rules import barred_hosts
from scheduler.hosts.facts import HostDescription, HostFacts

TEN_MINUTES = 600.0
HOUR = 3600.0
DAY = 86400.0


def why_barred(described: HostDescription, config: ProjectConfig) -> tuple[Message, ...]:
    """What is said to a computer that gets no work; what it reports is still taken."""
    text = barred_hosts.why_barred(
        described, banned_os=config.banned_os, banned_cpu=config.banned_cpu
    )
    return (Message(text=text, priority="notice"),) if text else ()


def about_work(
    request: SchedulerRequest, work: Work, catalog: Catalog, config: ProjectConfig
) -> Iterable[Message]:
    """What became of a request for work, and why it came to nothing."""
    for given in work.resent:
        yield Message(text=f"Resent lost task {given.result_name}")
    for name in work.given_up:
        yield Message(text=f"Didn't resend lost task {name} (expired)")
    if not work.asked or work.sent:
        return
    if work.come_again:
        # "too recent": not counted as "no work" where an account manager looks for idle projects.
        # Stock clients back off all the same (client/work_fetch.cpp, handle_reply).
        yield Message(text="Tasks are being handed out; this request is too recent, ask again soon")
        return
    if _is_unsupported(work, catalog) and not request.is_anonymous:
        yield Message(
            text=f"{config.name} doesn't support computers of type {request.platform_name}",
            priority="notice",
        )
        return
    yield Message(text="No tasks sent")
    yield Message(text=work.primary_reason() or "Project has no tasks available")


def _is_unsupported(work: Work, catalog: Catalog) -> bool:
    """Whether there are versions, and none for this computer."""
    return not work.versions and bool(work.apps) and catalog.any_version


def delay(work: Work, catalog: Catalog, *, host: HostFacts, is_barred: bool) -> dict[str, object]:
    """When to ask again, where that is not the project's usual delay.

    A computer that no version is for waits a day (PROTOCOL 2.6); one that asks a project without
    any version waits until its first one may have been published.
    """
    if is_barred:
        return {"request_delay": DAY}
    if not work.asked or work.sent:
        return {}
    if work.come_again:
        return {"request_delay": 2.0}
    if _is_unsupported(work, catalog) and not host.is_anonymous:
        return {"request_delay": DAY}
    if not work.versions and not catalog.any_version:
        return {"request_delay": TEN_MINUTES}
    return {}


def too_old(config: ProjectConfig) -> str:
    """What an old client reads."""
    major, minor = divmod(config.min_client_version // 100, 100)
    return f"This project needs BOINC {major}.{minor} or later. Please update your BOINC client."


def refusal(
    config: ProjectConfig, text: str, *, delay: float, down: bool = False
) -> dict[str, object]:
    """The fields of a reply that only says why not, and when to ask again, in seconds."""
    return compose.project_part(config) | {
        "messages": (Message(text=text, priority="notice"),),
        "request_delay": delay,
        "project_is_down": down,
    }
