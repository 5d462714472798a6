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
    """Say one decision, whatever it holds: facts by name, in the order in which they were kept.

    >>> decision_label({"at": "12:00", "sent": 2, "refused": {"memory": 3}})
    'at 12:00, sent 2, refused memory 3'
    """
    if not isinstance(decision, Mapping):
        return str(decision)
    return ", ".join(f"{str(name).replace('_', ' ')} {_said(v)}" for name, v in decision.items())


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_said(inner)}" for name, inner in value.items()) or "nothing"
    if isinstance(value, list):
        return "; ".join(_said(inner) for inner in value) or "nothing"
    return str(value)
