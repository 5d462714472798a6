"""Reads hosts, their records and the outcomes of their work requests for staff."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.lifecycle import ServerState
from scheduler.models import Host, HostAppVersion, Result


@dataclass(frozen=True, slots=True)
class HostPage:
    """A host, its number of results in progress, and its record of each app version."""

    host: Host
    in_progress: int
    records: tuple[HostAppVersion, ...]

    @property
    def decisions(self) -> tuple[str, ...]:
        """The outcome of each of the last work requests as a line of text, newest first."""
        return tuple(decision_label(decision) for decision in self.host.last_decisions)


def newest(*, denied: bool = False, email: str = "", limit: int = 50) -> list[Host]:
    """Return at most `limit` hosts, newest first, without merged hosts.

    If `denied` is True, only denied hosts are returned.  If `email` is not empty, only the hosts of
    the account with this address are returned.
    """
    hosts = Host.objects.filter(merged_into=None).select_related("account")
    if denied:
        hosts = hosts.filter(denied=True)
    if email:
        hosts = hosts.filter(account__email=email.lower())
    return list(hosts.order_by("-id")[:limit])


def page(host_id: int) -> HostPage | None:
    """Return a host with its records, or None if there is no such host."""
    host = Host.objects.select_related("account").filter(pk=host_id).first()
    if host is None:
        return None
    records = HostAppVersion.objects.filter(host=host).select_related(
        "app_version__app", "app_version__platform"
    )
    in_progress = Result.objects.filter(host=host, server_state=ServerState.IN_PROGRESS)
    return HostPage(host, in_progress.count(), tuple(records.order_by("app_version_id")))


def decision_label(decision: object) -> str:
    """Return the outcome of one work request as a line of text.

    >>> decision_label({"at": "2026-01-01T12:00:00+00:00", "given": 2, "refused": {"memory": 3}})
    '2026-01-01 12:00:00: 2 sent; refused 3 for memory'
    """
    if not isinstance(decision, Mapping):
        return str(decision)
    assigned, resent = decision.get("given", 0), decision.get("resent", 0)
    parts = [f"{assigned} sent" + (f", {resent} sent again" if resent else "")]
    sentences = decision.get("sentences") or {}
    for reason, count in (decision.get("refused") or {}).items():
        why = f" ({sentences[reason]})" if sentences.get(reason) else ""
        parts.append(f"refused {count} for {str(reason).replace('_', ' ')}{why}")
    if messages := [str(text) for text in decision.get("said") or ()]:
        parts.append("messages: " + " / ".join(messages))
    return f"{str(decision.get('at', '?'))[:19].replace('T', ' ')}: {'; '.join(parts)}"
