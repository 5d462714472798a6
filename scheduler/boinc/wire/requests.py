"""Scheduler requests: from the XML that clients send to messages, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire import messages, ranges, shapes, spare, xml
from scheduler.boinc.wire import request_parts as parts
from scheduler.boinc.wire.shapes import BIT, FLAG, NAME, TEXT, NumberField, Row, real, rows, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

# Everything in these is text up to the literal end tag (PROTOCOL 0.2).
_RAW: Final = frozenset(
    {
        "client_opaque",
        "error_msg",
        "code_sign_key",
        "global_preferences",
        "job_log",
        "msg_from_host",
        "stderr_out",
        "time_stats_log",
        "working_global_preferences",
    }
)


def decode_request(
    body: bytes | bytearray, *, most_results: int | None = None
) -> messages.SchedulerRequest:
    """Return what a client says in the body of a scheduler RPC.

    Of more than `most_results` reports the others are only counted.  Raises BadXml, with a sentence
    that may be sent to the volunteer, if it cannot be read.
    """
    further = 0
    if most_results is not None:
        body, further = spare.take_out(body, most_results)
    nodes = xml.read_tree(body, "scheduler_request", raw=_RAW)
    del body  # if the caller keeps it neither, a large request is in memory once, not twice
    values = _REQUEST.values(nodes)
    if working := values.get("working_global_preferences"):
        values["preferences"] = parts.read_preferences(working)
    if master := values.get("global_preferences"):
        values["global_preferences_mod_time"] = parts.read_preferences(master).mod_time
    return messages.SchedulerRequest(**values, further_results=further)


def number_fields() -> Iterator[NumberField]:
    """Yield every number that a scheduler request may contain, with its range."""
    for path, message_class, row in _REQUEST.leaves():
        if row.kind.range is not None:
            name = row.field or row.element
            yield NumberField(path, message_class, name, row.kind.range)
    yield NumberField("msg_from_host/time", messages.TrickleUp, "time", ranges.UNIX_TIME)
    for name, kept in ranges.PREFERENCES.items():
        yield NumberField(f"working_global_preferences/{name}", messages.Preferences, name, kept)
    name = "global_preferences_mod_time"
    kept = ranges.PREFERENCES["mod_time"]
    yield NumberField("global_preferences/mod_time", messages.SchedulerRequest, name, kept)


def text_paths() -> Iterator[str]:
    """Yield the path of every element of a request that holds a text or a flag."""
    for path, _message_class, row in _REQUEST.leaves():
        if row.kind.range is None:
            yield path


def encode_request(message: messages.SchedulerRequest) -> bytes:
    """Return a body that decodes to `message`, as far as a client could have said it.

    `preferences` and `global_preferences_mod_time` are not written: they are read from the raw
    preferences beside them.
    """
    inside = _REQUEST.write(message)
    return f"<scheduler_request>\n{inside}</scheduler_request>\n".encode("utf-8", "replace")


_REQUEST: Final = shapes.Shape(
    messages.SchedulerRequest,
    [
        Row("authenticator", TEXT),
        Row("hostid", whole(ranges.ID), always=True),
        Row("rpc_seqno", whole(ranges.COUNT), always=True),
        Row("core_client_major_version", whole(ranges.MAJOR_VERSION)),
        *rows(whole(ranges.MINOR_VERSION), "core_client_minor_version core_client_release"),
        *rows(real(ranges.FRACTION), "resource_share_fraction rrs_fraction prrs_fraction"),
        Row("duration_correction_factor", real(ranges.RATIO)),
        *rows(BIT, "allow_multiple_clients sandbox dont_send_work"),
        Row("dont_use_docker", FLAG),
        *rows(real(ranges.SECONDS), "work_req_seconds cpu_req_secs"),
        Row("cpu_req_instances", real(ranges.INSTANCES)),
        Row("estimated_delay", real(ranges.SECONDS)),
        Row("client_cap_plan_class", BIT),
        Row("platform_name", parts.STORED),
        Row("alt_platform", shapes.wrapped("name", NAME), field="alt_platforms", many=True),
        Row("code_sign_key", shapes.raw(4095)),
        *rows(shapes.raw(), "working_global_preferences global_preferences"),
        *rows(TEXT, "global_prefs_source_email_hash cross_project_id"),
        Row("time_stats", shapes.one(parts.TIME_STATS)),
        Row("net_stats", shapes.one(parts.NET_STATS)),
        Row("host_info", shapes.one(parts.HOST_INFO)),
        Row("disk_usage", shapes.one(parts.DISK_USAGE)),
        Row("coprocs", parts.COPROCS),
        Row("result", parts.RESULT, field="results", many=True),
        Row("msg_from_host", parts.TRICKLE, field="trickles", many=True),
        Row("file_info", shapes.one(parts.STICKY), field="sticky_files", many=True),
        *rows(shapes.raw(1 << 20), "time_stats_log job_log"),
        Row("app_versions", shapes.listed("app_version", shapes.one(parts.APP_VERSION))),
        Row("other_results", shapes.listed("other_result", shapes.one(parts.OTHER))),
        Row("in_progress_results", shapes.listed("ip_result", shapes.one(parts.IN_PROGRESS))),
        Row("client_opaque", parts.OPAQUE),
        Row("client_brand", TEXT),
        Row("user_keywords", shapes.one(parts.KEYWORDS)),
    ],
)
