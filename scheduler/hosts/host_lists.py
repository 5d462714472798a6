"""Reads: hosts as staff asks for them, with their records and last decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.lifecycle import ServerState
from scheduler.models import Host, HostAppVersion, Result


@dataclass(frozen=True, slots=True)
class HostPage:
    """A host, how many results it holds, what is known of it by app version."""

    host: Host
    in_progress: int
    records: tuple[HostAppVersion, ...]

    @property
    def decisions(self) -> tuple[str, ...]:
        """The last requests for work and what they came to, a line each, newest first."""
        return tuple(decision_label(decision) for decision in self.host.last_decisions)


def newest(*, denied: bool = False, email: str = "", limit: int = 50) -> list[Host]:
    """The hosts that attached last: all, those denied, or those of one account."""
    found = Host.objects.filter(merged_into=None).select_related("account")
    if denied:
        found = found.filter(denied=True)
    if email:
        found = found.filter(account__email=email.lower())
    return list(found.order_by("-id")[:limit])


def page(host_id: int) -> HostPage | None:
    """Everything about one host, or None."""
    host = Host.objects.select_related("account").filter(pk=host_id).first()
    if host is None:
        return None
    records = HostAppVersion.objects.filter(host=host).select_related(
        "app_version__app", "app_version__platform"
    )
    held = Result.objects.filter(host=host, server_state=ServerState.IN_PROGRESS)
    return HostPage(host, held.count(), tuple(records.order_by("app_version_id")))


def decision_label(decision: object) -> str:
    """Say what one request for work came to, as far as it was kept.

    >>> decision_label({"at": "2026-01-01T12:00:00+00:00", "given": 2, "refused": {"memory": 3}})
    '2026-01-01 12:00:00: 2 given; refused 3 for memory'
    """
    if not isinstance(decision, Mapping):
        return str(decision)
    given, resent = decision.get("given", 0), decision.get("resent", 0)
    parts = [f"{given} given" + (f", {resent} sent again" if resent else "")]
    sentences = decision.get("sentences") or {}
    for reason, count in (decision.get("refused") or {}).items():
        why = f" ({sentences[reason]})" if sentences.get(reason) else ""
        parts.append(f"refused {count} for {str(reason).replace('_', ' ')}{why}")
    if said := [str(text) for text in decision.get("said") or ()]:
        parts.append("told: " + " / ".join(said))
    return f"{str(decision.get('at', '?'))[:19].replace('T', ' ')}: {'; '.join(parts)}"
