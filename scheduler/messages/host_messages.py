"""Reads what hosts and the server told each other: trickles, requests for files."""

from __future__ import annotations

from typing import Any

from scheduler.models import FileRequest, Result, TrickleDown, TrickleUp


def trickles(*, result: str | None = None, at_most: int = 50) -> list[dict[str, Any]]:
    """The newest trickles in both directions, of one result if named; the newest first."""
    ups = TrickleUp.objects.order_by("-id")
    downs = TrickleDown.objects.order_by("-id")
    if result is not None:
        ups = ups.filter(result_id__in=Result.objects.filter(name=result).values("id"))
        downs = downs.filter(result_name=result)
    kept = list(ups[:at_most])
    names = dict(
        Result.objects.filter(pk__in={one.result_id for one in kept}).values_list("id", "name")
    )
    found: list[dict[str, Any]] = [
        {
            "way": "up",
            "result": names.get(one.result_id, str(one.result_id)),
            "host": one.host_id,
            "at": one.received_at,
            "variety": one.variety,
            "text": one.text,
            "done_at": one.handled_at,
        }
        for one in kept
    ]
    found += [
        {
            "way": "down",
            "result": one.result_name,
            "host": one.host_id,
            "at": one.created_at,
            "variety": "",
            "text": one.text,
            "done_at": one.sent_at,
        }
        for one in downs[:at_most]
    ]
    return sorted(found, key=lambda one: one["at"], reverse=True)[:at_most]


def file_requests(*, host_id: int | None = None, at_most: int = 100) -> list[FileRequest]:
    """The newest requests for files, of one host if named; the newest first."""
    requests = FileRequest.objects.order_by("-id")
    if host_id is not None:
        requests = requests.filter(host_id=host_id)
    return list(requests[:at_most])
