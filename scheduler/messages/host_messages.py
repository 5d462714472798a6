"""Reads trickles and file requests for management commands."""

from __future__ import annotations

from typing import Any

from scheduler.models import FileRequest, Result, TrickleDown, TrickleUp


def trickles(*, result: str | None = None, limit: int = 50) -> list[dict[str, Any]]:
    """Return at most `limit` trickles in both directions, newest first.

    If `result` is not None, only trickles of the result with this name are returned.  Each is a
    dict: `way` ("up" or "down"), `result` (its name, or its id as text if it was purged), `host`
    (id), `at` (received or queued), `variety`, `text`, and `done_at` (handled or sent, or None).
    """
    ups = TrickleUp.objects.order_by("-id")
    downs = TrickleDown.objects.order_by("-id")
    if result is not None:
        ups = ups.filter(result_id__in=Result.objects.filter(name=result).values("id"))
        downs = downs.filter(result_name=result)
    newest_ups = list(ups[:limit])
    names = dict(
        Result.objects.filter(pk__in={up.result_id for up in newest_ups}).values_list("id", "name")
    )
    rows: list[dict[str, Any]] = [
        {
            "way": "up",
            "result": names.get(up.result_id, str(up.result_id)),
            "host": up.host_id,
            "at": up.received_at,
            "variety": up.variety,
            "text": up.text,
            "done_at": up.handled_at,
        }
        for up in newest_ups
    ]
    rows += [
        {
            "way": "down",
            "result": down.result_name,
            "host": down.host_id,
            "at": down.created_at,
            "variety": "",
            "text": down.text,
            "done_at": down.sent_at,
        }
        for down in downs[:limit]
    ]
    return sorted(rows, key=lambda row: row["at"], reverse=True)[:limit]


def file_requests(*, host_id: int | None = None, limit: int = 100) -> list[FileRequest]:
    """Return at most `limit` file requests of one host or of all hosts, newest first."""
    requests = FileRequest.objects.order_by("-id")
    if host_id is not None:
        requests = requests.filter(host_id=host_id)
    return list(requests[:limit])
