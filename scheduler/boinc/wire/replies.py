"""Encodes scheduler replies as the XML that clients read, and parses them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire import messages, shapes, xml
from scheduler.boinc.wire.request_parts import USAGE
from scheduler.boinc.wire.shapes import FLAG, INT, LONG, NAME, REAL, TEXT, Kind, Row, Shape, rows

if TYPE_CHECKING:
    from scheduler.boinc.wire.shapes import Write
    from scheduler.boinc.wire.xml import Node

_RAW: Final = frozenset(
    {
        "code_sign_key",
        "code_sign_key_signature",
        "file_signature",
        "global_preferences",
        "project_preferences",
        "trickle_down",
        "xml_signature",
    }
)


def encode_reply(message: messages.SchedulerReply) -> bytes:
    """Return the body of a reply, without an XML prolog.

    Raises CannotEncode if a name is empty or too long for clients, a number is not finite, or a raw
    text contains its own end tag or is unbalanced.
    """
    inside = _REPLY.write(message)
    return f"<scheduler_reply>\n{inside}</scheduler_reply>\n".encode("utf-8", "replace")


def decode_reply(body: bytes) -> messages.SchedulerReply:
    """Parse a reply; raises BadXml if it cannot be read."""
    values = _REPLY.values(xml.read_tree(body, "scheduler_reply", raw=_RAW))
    files = values.pop("uploads", ())  # the last row for <file_info> reads both kinds of files
    values["files"] = tuple(each for each in files if isinstance(each, messages.DownloadFile))
    values["uploads"] = tuple(each for each in files if isinstance(each, messages.UploadFile))
    return messages.SchedulerReply(**values)


# ------------------------------------------------------------------------------------------
# Elements that need their own functions
# ------------------------------------------------------------------------------------------

_MESSAGE_LIMIT: Final = 1023
_TRICKLE_LINE: Final = 255
_UPLOAD_MARK: Final = "file_upload_handler"


def _read_message(node: Node) -> messages.Message:
    text = xml.unescape(node[1].strip()) if isinstance(node[1], str) else ""
    return messages.Message(
        text=xml.cut(text, _MESSAGE_LIMIT),
        priority="notice" if '"notice"' in node[2] else "low",
    )


def _write_message(element: str, message: messages.Message, indent: str) -> str:
    text = xml.escape(xml.cut(message.text, _MESSAGE_LIMIT))
    return f'{indent}<{element} priority="{message.priority}">{text}</{element}>\n'


_TRICKLE: Final = re.compile(
    r"\s*<result_name>([^<]*)</result_name>\s*<time>([^<]*)</time>(.*)\Z", re.DOTALL
)


def _read_trickle(node: Node) -> messages.TrickleDown | None:
    head = _TRICKLE.match(node[1]) if isinstance(node[1], str) else None
    if not head:
        return None
    return messages.TrickleDown(
        result_name=xml.unescape(head[1].strip()),
        time=xml.to_int(head[2], xml.INT64),
        text=head[3].strip(),
    )


def _write_trickle(element: str, message: messages.TrickleDown, _indent: str) -> str:
    # The client reads this element line by line: every tag must be on a line of its own.
    lines = message.text.splitlines()
    if f"</{element}>" in message.text or any(xml.cut(x, _TRICKLE_LINE) != x for x in lines):
        sentence = f"<{element}> contains its end tag or a line over {_TRICKLE_LINE} bytes."
        raise xml.CannotEncode(sentence)
    return (
        f"<{element}>\n<result_name>{xml.escape(message.result_name)}</result_name>\n"
        f"<time>{message.time}</time>\n{message.text}\n</{element}>\n"
    )


def _read_file(node: Node) -> messages.DownloadFile | messages.UploadFile | None:
    nodes = node[1] if isinstance(node[1], list) else []
    is_upload = any(
        each[0] == "upload_url" or (each[0] == "url" and _UPLOAD_MARK in str(each[1]))
        for each in nodes
    ) or any(each[0] == "max_nbytes" for each in nodes)
    return _UPLOAD.read(nodes) if is_upload else _DOWNLOAD.read(nodes)


def _upload_url_writer(_element: str, indent: str) -> Write:
    # Clients use a <url> as an upload URL only if it contains `_UPLOAD_MARK` (trap 8).
    marked, other = NAME.writer("url", indent), NAME.writer("upload_url", indent)
    return lambda url: marked(url) if _UPLOAD_MARK in url else other(url)


def _write_command_line(element: str, value: str, indent: str) -> str:
    if xml.cut(value, shapes.TEXT_LIMIT) != value:
        raise xml.CannotEncode(f"<{element}> is longer than {shapes.TEXT_LIMIT} bytes.")
    return f"{indent}<{element}>\n{xml.escape(value)}\n{indent}</{element}>\n"


_COMMAND_LINE: Final = Kind(
    shapes.text(shapes.TEXT_LIMIT).read, shapes.uncached(_write_command_line)
)

# ------------------------------------------------------------------------------------------
# The shapes, with rows in the order of BOINC's scheduler
# ------------------------------------------------------------------------------------------

#: The maximum number of cached elements: apps, programs and common inputs are sent to many hosts.
_CACHE_SIZE: Final = 1024
_SIGNATURE: Final = shapes.raw(4095)
_APP: Final = Shape(
    messages.ReplyApp,
    [
        Row("name", NAME),
        Row("user_friendly_name", TEXT),
        *rows(FLAG, "non_cpu_intensive fraction_done_exact"),
    ],
)
_DOWNLOAD: Final = Shape(
    messages.DownloadFile,
    [
        Row("name", NAME),
        Row("url", NAME, field="urls", many=True, aliases=("download_url",)),
        Row("executable", FLAG),
        Row("md5_cksum", TEXT),
        Row("file_signature", _SIGNATURE),
        Row("nbytes", LONG),
        Row("sticky", FLAG),
    ],
)
_UPLOAD: Final = Shape(
    messages.UploadFile,
    [
        Row("name", NAME),
        Row("max_nbytes", LONG),
        Row(
            "url",
            Kind(NAME.read, _upload_url_writer),
            field="urls",
            many=True,
            aliases=("upload_url",),
        ),
        Row("xml_signature", _SIGNATURE),
        *rows(FLAG, "gzip_when_done sticky"),
    ],
)
_FILE_REF: Final = shapes.nested(
    Shape(
        messages.FileRef,
        [
            *rows(NAME, "file_name open_name"),
            *rows(FLAG, "main_program copy_file optional"),
        ],
    )
)
_FILE_REFS: Final = Row("file_ref", _FILE_REF, field="file_refs", many=True)
_APP_VERSION: Final = Shape(
    messages.ReplyAppVersion,
    [
        Row("app_name", NAME),
        Row("version_num", INT),
        *rows(TEXT, "platform plan_class"),
        Row("api_version", shapes.text(15)),
        *rows(REAL, "avg_ncpus flops"),
        Row("coproc", shapes.nested(USAGE), field="coprocs", many=True),
        Row("gpu_ram", REAL),
        *rows(TEXT, "cmdline file_prefix"),
        *rows(FLAG, "dont_throttle is_wrapper needs_network"),
        _FILE_REFS,
    ],
)
_WORKUNIT: Final = Shape(
    messages.ReplyWorkunit,
    [
        *rows(NAME, "name app_name"),
        Row("version_num", INT),
        *rows(REAL, "rsc_fpops_est rsc_fpops_bound rsc_memory_bound rsc_disk_bound"),
        Row("max_termination_time", REAL),
        *rows(REAL, "avg_ncpus flops"),
        Row("coproc", shapes.nested(USAGE), field="coprocs", many=True),
        Row("cmdline", TEXT),
        Row("command_line", _COMMAND_LINE),
        _FILE_REFS,
    ],
)
_RESULT: Final = Shape(
    messages.ReplyResult,
    [
        *rows(NAME, "name wu_name"),
        Row("platform", TEXT),
        Row("version_num", INT),
        Row("plan_class", TEXT),
        Row("report_deadline", REAL),
        Row("report_immediately", FLAG),
        *rows(LONG, "bundle bundle_place"),
        _FILE_REFS,
    ],
)
_GUI_URL: Final = Shape(messages.GuiUrl, [Row("name", TEXT), *rows(TEXT, "description url")])
_RSS_FEED: Final = Shape(messages.RssFeed, [Row("url", TEXT), Row("poll_interval", REAL)])
_NAMED: Final = shapes.wrapped("name", NAME)
_REPLY: Final = Shape(
    messages.SchedulerReply,
    [
        Row("scheduler_version", INT),
        Row("dont_use_dcf", FLAG),
        Row("master_url", TEXT),
        *rows(REAL, "request_delay next_rpc_delay"),
        Row(
            "message",
            Kind(_read_message, shapes.uncached(_write_message)),
            field="messages",
            many=True,
        ),
        *rows(FLAG, "project_is_down ended"),
        Row("project_name", TEXT),
        Row("userid", LONG),
        Row("user_name", TEXT),
        *rows(REAL, "user_total_credit user_expavg_credit"),
        Row("user_create_time", LONG),
        *rows(TEXT, "email_hash cross_project_id external_cpid"),
        *rows(shapes.raw(balanced=True), "project_preferences global_preferences"),
        Row("hostid", LONG),
        *rows(REAL, "host_total_credit host_expavg_credit"),
        Row("host_venue", TEXT),
        Row("host_create_time", LONG),
        Row("teamid", LONG),
        Row("team_name", TEXT),
        Row("result_ack", _NAMED, field="result_acks", many=True),
        Row("result_abort", _NAMED, field="result_aborts", many=True),
        Row(
            "result_abort_if_not_started",
            _NAMED,
            field="result_aborts_if_not_started",
            many=True,
        ),
        *rows(_SIGNATURE, "code_sign_key code_sign_key_signature"),
        Row("message_ack", FLAG),
        Row(
            "trickle_down",
            Kind(_read_trickle, shapes.uncached(_write_trickle)),
            field="trickles",
            many=True,
        ),
        Row("app", shapes.nested(_APP, cache_size=_CACHE_SIZE), field="apps", many=True),
        Row(
            "file_info",
            Kind(_read_file, shapes.nested(_DOWNLOAD, cache_size=_CACHE_SIZE).writer),
            field="files",
            many=True,
        ),
        Row("app_version", shapes.nested(_APP_VERSION), field="app_versions", many=True),
        Row("workunit", shapes.nested(_WORKUNIT), field="workunits", many=True),
        Row(
            "file_info", Kind(_read_file, shapes.nested(_UPLOAD).writer), field="uploads", many=True
        ),
        Row("result", shapes.nested(_RESULT), field="results", many=True),
        Row("delete_file_info", NAME, field="delete_file_infos", many=True),
        Row("no_rsc_apps", NAME, many=True),
        Row("send_full_workload", FLAG),
        *rows(LONG, "send_time_stats_log send_job_log"),
        Row("gui_urls", shapes.listed("gui_url", shapes.nested(_GUI_URL))),
        Row("rss_feeds", shapes.listed("rss_feed", shapes.nested(_RSS_FEED))),
    ],
)
