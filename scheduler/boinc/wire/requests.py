"""Converts scheduler requests from XML to messages, and back."""

from __future__ import annotations

from mmap import mmap
from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire import messages, ranges, shapes, spare, xml
from scheduler.boinc.wire import request_parts as parts
from scheduler.boinc.wire.shapes import BIT, FLAG, NAME, TEXT, NumberField, Row, real, rows, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

# The content of these elements is text up to the literal end tag (PROTOCOL 0.2).
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
    body: spare.Body, *, max_results: int | None = None
) -> messages.SchedulerRequest:
    """Parse the body of a scheduler RPC, which may be a mapped file.

    Reports beyond the first `max_results` are only counted.  Raises BadXml, with a message that may
    be sent to the volunteer, if the body cannot be read.
    """
    further = 0
    if max_results is not None:
        body, further = spare.take_out(body, max_results)
    if isinstance(body, mmap):
        body = body[:]
    nodes = xml.read_tree(body, "scheduler_request", raw=_RAW)
    # If the caller has no reference to the body, it is freed before the decoded text is parsed.
    del body
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
    for name, allowed in ranges.PREFERENCES.items():
        yield NumberField(f"working_global_preferences/{name}", messages.Preferences, name, allowed)
    name = "global_preferences_mod_time"
    allowed = ranges.PREFERENCES["mod_time"]
    yield NumberField("global_preferences/mod_time", messages.SchedulerRequest, name, allowed)


def encode_request(message: messages.SchedulerRequest) -> bytes:
    """Return the body of a scheduler RPC, which decodes to `message` if a client can send it.

    `preferences` and `global_preferences_mod_time` are not written: the decoder reads them from the
    raw preferences.
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
        *rows(BIT, "allow_multiple_clients sandbox dont_send_work"),
        Row("dont_use_docker", FLAG),
        *rows(real(ranges.SECONDS), "work_req_seconds cpu_req_secs"),
        Row("cpu_req_instances", real(ranges.INSTANCES)),
        Row("estimated_delay", real(ranges.SECONDS)),
        Row("platform_name", parts.STORED),
        Row("alt_platform", shapes.wrapped("name", NAME), field="alt_platforms", many=True),
        Row("code_sign_key", shapes.raw(4095)),
        *rows(shapes.raw(), "working_global_preferences global_preferences"),
        *rows(TEXT, "global_prefs_source_email_hash cross_project_id"),
        Row("time_stats", shapes.nested(parts.TIME_STATS)),
        Row("net_stats", shapes.nested(parts.NET_STATS)),
        Row("host_info", shapes.nested(parts.HOST_INFO)),
        Row("disk_usage", shapes.nested(parts.DISK_USAGE)),
        Row("coprocs", parts.COPROCS),
        Row("result", parts.RESULT, field="results", many=True),
        Row("msg_from_host", parts.TRICKLE, field="trickles", many=True),
        Row("file_info", shapes.nested(parts.STICKY), field="sticky_files", many=True),
        *rows(shapes.raw(1 << 20), "time_stats_log job_log"),
        Row("app_versions", shapes.listed("app_version", shapes.nested(parts.APP_VERSION))),
        Row("other_results", shapes.listed("other_result", shapes.nested(parts.OTHER))),
        Row("in_progress_results", shapes.listed("ip_result", shapes.nested(parts.IN_PROGRESS))),
        Row("client_opaque", parts.OPAQUE),
        Row("client_brand", TEXT),
        Row("user_keywords", shapes.nested(parts.KEYWORDS)),
        # Not of BOINC: the queues of Manyhands' own client.
        Row("active_queue", NAME, field="active_queues", many=True),
        Row("ignored_queue", NAME, field="ignored_queues", many=True),
    ],
)
