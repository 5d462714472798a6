"""Builds the messages and delays in scheduler replies.

Where BOINC has a message for the case, its wording is used.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.boinc.sent_preferences import SentPreferences
from scheduler.boinc.wire.messages import Message, SchedulerRequest
from scheduler.config import ProjectConfig
from scheduler.dispatch.catalog import Catalog
from scheduler.dispatch.facts import HostFacts, Work

TEN_MINUTES = 600.0
HOUR = 3600.0
DAY = 86400.0


def about_work(
    request: SchedulerRequest, work: Work, catalog: Catalog, config: ProjectConfig
) -> Iterable[Message]:
    """Yield messages about resent results, and the reason if no work is sent."""
    for result in work.resent:
        yield Message(text=f"Resent lost task {result.result_name}")
    for name in work.given_up:
        yield Message(text=f"Didn't resend lost task {name} (expired)")
    if not work.asked_for_work or work.sent:
        return
    if work.retry_soon:
        # Account managers that look for projects without work ignore replies with "too recent".
        # Stock clients back off after such a reply, too (client/work_fetch.cpp, handle_reply).
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


def about_preferences(preferences: SentPreferences) -> Iterable[Message]:
    """Yield a message for each text of stored preferences that cannot be sent to clients."""
    for kind in preferences.unreadable:
        yield Message(
            text=f"The {kind} preferences stored in your account cannot be read. "
            "Save new ones on the project's web site.",
            priority="notice",
        )


def _is_unsupported(work: Work, catalog: Catalog) -> bool:
    """Return True if the project has app versions, but no app version for this computer."""
    return not work.versions and bool(work.apps) and catalog.any_version


def delay(work: Work, catalog: Catalog, *, host: HostFacts, is_barred: bool) -> dict[str, object]:
    """Return `request_delay` in seconds as a field of the reply.

    The delay is a day if the computer is barred or no app version supports it (PROTOCOL 2.6).  It
    is 2 seconds if `work.retry_soon` is set.  It is ten minutes if the project has no app version,
    because the first version may be published soon.  In all other cases the returned dict is empty,
    and the client uses the project's usual delay.
    """
    if is_barred:
        return {"request_delay": DAY}
    if not work.asked_for_work or work.sent:
        return {}
    if work.retry_soon:
        return {"request_delay": 2.0}
    if _is_unsupported(work, catalog) and not host.is_anonymous:
        return {"request_delay": DAY}
    if not work.versions and not catalog.any_version:
        return {"request_delay": TEN_MINUTES}
    return {}


def too_old(config: ProjectConfig) -> str:
    """Return the message for a client that is older than `min_client_version`."""
    major, minor = divmod(config.min_client_version // 100, 100)
    return f"This project needs BOINC {major}.{minor} or later. Please update your BOINC client."
