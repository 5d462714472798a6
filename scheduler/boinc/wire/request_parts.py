"""Parts of a scheduler request: host, coprocessors, reported results, trickles."""

from __future__ import annotations

import re
from dataclasses import fields
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from scheduler.boinc.wire import messages, ranges, shapes, xml
from scheduler.boinc.wire.shapes import (
    BIT,
    EXIT_STATUS,
    NAME,
    TEXT,
    Kind,
    Row,
    Shape,
    real,
    rows,
    uncached,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.boinc.wire.xml import Node

STDERR_LIMIT: Final = 64 * 1024
"""The maximum number of bytes kept from the end of stderr; clients truncate it to 63 KB."""

STORED: Final = shapes.text(254)
"""A text that is stored in a column of the host."""

_SETTING: Final = re.compile(r"<([a-z_]+)>([^<]*)</\1>")
_USUAL_LENGTH: Final = 4096
MAX_COPROCS: Final = 64
"""The maximum number of kinds of coprocessors that are read from one request."""


def read_preferences(raw: str) -> messages.Preferences:
    """Return the numbers in raw preferences; preferences of venues are ignored."""
    general = raw.partition("<venue")[0]
    return _numbers(general) if len(general) <= _USUAL_LENGTH else _numbers.__wrapped__(general)


@lru_cache(maxsize=256)  # many hosts send the same text: the defaults
def _numbers(general: str) -> messages.Preferences:
    values = dict(_SETTING.findall(general))
    return messages.Preferences(
        **{
            name: float(allowed.clamp(xml.to_real(values[name])))
            for name, allowed in ranges.PREFERENCES.items()
            if name in values
        }
    )


_STDERR: Final = re.compile(
    r"\s*(?:<core_client_version>([^<]*)</core_client_version>)?\s*(?:<!\[CDATA\[\n?)?"
)


_STDERR_ENDS: Final = re.compile(r"\]\]>\s*</stderr_out>")


def _read_stderr(raw: str) -> dict[str, str]:
    """Return the client's version and the text of the CDATA section of a `<stderr_out>`."""
    head = _STDERR.match(raw)
    version, start = (head[1] or "", head.end()) if head else ("", 0)
    if raw.find("<![CDATA[", 0, start) >= 0:
        text = raw[start:].removesuffix("]]>").removesuffix("\n")
    else:
        text = xml.unescape(raw[start:].strip())
    if len(text) > STDERR_LIMIT // 4:
        text = text.encode()[-STDERR_LIMIT:].decode("utf-8", "ignore")
    return {"core_client_version": xml.cut(xml.unescape(version.strip()), 255), "stderr_out": text}


def _write_stderr(message: messages.ReportedResult) -> str:
    version = xml.escape(message.core_client_version)
    if _STDERR_ENDS.search(message.stderr_out):
        raise xml.CannotEncode("The text of <stderr_out> contains the end of its CDATA section.")
    text = f"<![CDATA[\n{message.stderr_out}\n]]>\n" if message.stderr_out else ""
    return (
        f"<stderr_out>\n<core_client_version>{version}</core_client_version>\n{text}</stderr_out>\n"
    )


def _read_result(node: Node) -> messages.ReportedResult | None:
    if not isinstance(node[1], list):
        return None
    values = _RESULT.values(node[1])
    if "name" not in values:
        return None
    values.update(_read_stderr(values.get("stderr_out", "")))
    return messages.ReportedResult(**values)


def _write_result(element: str, message: messages.ReportedResult, indent: str) -> str:
    inside = _RESULT.write(message, indent + "    ") + _write_stderr(message)
    files = "".join(_FILE.write("file_info", each, indent) for each in message.file_infos)
    return f"{indent}<{element}>\n{inside}{files}{indent}</{element}>\n"


_TRICKLE: Final = re.compile(
    r"\s*<result_name>([^<]*)</result_name>\s*(?:<time>([^<]*)</time>)?(.*)\Z", re.DOTALL
)
_VARIETY: Final = re.compile(r"<variety>([^<]*)</variety>")


def _read_trickle(node: Node) -> messages.TrickleUp:
    content = node[1] if isinstance(node[1], str) else ""
    head = _TRICKLE.match(content)
    name, time, text = head.groups() if head else ("", "", content)
    variety = _VARIETY.search(text)
    return messages.TrickleUp(
        result_name=xml.cut(xml.unescape(name.strip()), 255),
        time=int(ranges.UNIX_TIME.clamp(xml.to_int(time or "", xml.INT64))),
        variety=xml.cut(xml.unescape(variety[1].strip()), 255) if variety else "",
        text=text.strip(),
    )


def _write_trickle(element: str, message: messages.TrickleUp, indent: str) -> str:
    if f"</{element}>" in message.text:
        raise xml.CannotEncode(f"The text of <{element}> contains its end tag.")
    return (
        f"{indent}  <{element}>\n{indent}      <result_name>{xml.escape(message.result_name)}"
        f"</result_name>\n{indent}      <time>{message.time}</time>\n"
        f"{message.text}\n{indent}  </{element}>\n"
    )


_COPROC_TYPES: Final = {
    "coproc_cuda": "NVIDIA",
    "coproc_ati": "ATI",
    "coproc_intel_gpu": "intel_gpu",
    "coproc_apple_gpu": "apple_gpu",
}
_COPROC_ELEMENTS: Final = {type_: element for element, type_ in _COPROC_TYPES.items()}


def _read_coprocs(node: Node) -> tuple[messages.Coproc, ...]:
    coprocs: list[messages.Coproc] = []
    for each in node[1] if isinstance(node[1], list) else ():
        if isinstance(each[1], list) and (each[0] == "coproc" or each[0] in _COPROC_TYPES):
            values = _COPROC.values(each[1])
            if vendor_type := _COPROC_TYPES.get(each[0]):
                values["type"] = vendor_type
            coprocs.append(messages.Coproc(**values))
    return tuple(coprocs[:MAX_COPROCS])


def _write_coprocs(element: str, coprocs: Iterable[messages.Coproc], indent: str) -> str:
    inside = "".join(
        _COPROC_KIND.write(_COPROC_ELEMENTS.get(each.type, "coproc"), each, indent)
        for each in coprocs
    )
    return f"{indent}<{element}>\n{inside}{indent}</{element}>\n"


_CDATA: Final = re.compile(r"\s*<!\[CDATA\[\n?(.*?)\n?\]\]>\s*\Z", re.DOTALL)


def _read_opaque(node: Node) -> str:
    content = node[1] if isinstance(node[1], str) else ""
    section = _CDATA.match(content)
    return xml.cut(section[1] if section else xml.unescape(content.strip()), 65535)


def _write_opaque(element: str, value: str, indent: str) -> str:
    return f"{indent}<{element}>\n<![CDATA[\n{value}\n]]>\n</{element}>\n"


TIME_STATS: Final = Shape(
    messages.TimeStats,
    [
        Row("on_frac", real(ranges.FRACTION)),
        Row("connected_frac", real(ranges.FRACTION_OR_UNKNOWN)),
        *rows(real(ranges.FRACTION), "active_frac gpu_active_frac"),
        Row("now", real(ranges.UNIX_TIME)),
    ],
)
NET_STATS: Final = Shape(
    messages.NetStats,
    [
        *rows(real(ranges.BANDWIDTH), "bwup avg_up bwdown"),
        Row("avg_time_down", real(ranges.UNIX_TIME)),
    ],
)
DISK_USAGE: Final = Shape(
    messages.DiskUsage, [Row(each.name, real(ranges.BYTES)) for each in fields(messages.DiskUsage)]
)
HOST_INFO: Final = Shape(
    messages.HostInfo,
    [
        Row("timezone", whole(ranges.TIMEZONE)),
        Row("domain_name", STORED),
        Row("ip_addr", shapes.text(64)),
        Row("host_cpid", TEXT),
        Row("p_ncpus", whole(ranges.CPUS)),
        *rows(STORED, "p_vendor p_model"),
        Row("p_features", shapes.text(8192)),
        *rows(real(ranges.SPEED), "p_fpops p_iops p_membw"),
        Row("p_vm_extensions_disabled", BIT),
        *rows(real(ranges.BYTES), "m_nbytes m_cache m_swap d_total d_free"),
        *rows(STORED, "os_name os_version"),
        Row("n_usable_coprocs", whole(ranges.DEVICES)),
        Row("wsl_available", BIT),
        *rows(TEXT, "docker_version virtualbox_version"),
    ],
)
_OPENCL: Final = Shape(
    messages.OpenclDevice,
    [
        Row("vendor_id", whole(ranges.ID)),
        Row("global_mem_size", real(ranges.BYTES)),
        *rows(TEXT, "opencl_device_version opencl_driver_version"),
    ],
)
_COPROC: Final = Shape(
    messages.Coproc,
    [
        Row("type", TEXT),
        Row("count", whole(ranges.DEVICES)),
        Row("name", TEXT),
        Row("available_ram", real(ranges.BYTES)),
        Row("peak_flops", real(ranges.DEVICE_SPEED)),
        Row("req_secs", real(ranges.SECONDS)),
        Row("req_instances", real(ranges.INSTANCES)),
        Row("estimated_delay", real(ranges.SECONDS)),
        Row("have_cuda", BIT),
        Row("drvVersion", whole(ranges.COUNT), field="driver_version"),
        Row("cudaVersion", whole(ranges.COUNT), field="cuda_version"),
        Row("major", whole(ranges.COUNT), field="compute_capability_major"),
        Row("minor", whole(ranges.COUNT), field="compute_capability_minor"),
        Row("totalGlobalMem", real(ranges.BYTES), field="total_memory"),
        Row("localRAM", whole(ranges.MEGABYTES), field="local_ram"),
        Row("coproc_opencl", shapes.nested(_OPENCL), field="opencl"),
    ],
)
_COPROC_KIND: Final = shapes.nested(_COPROC)
_FILE_SHAPE: Final = Shape(
    messages.ReportedFile,
    [
        Row("name", NAME),
        Row("nbytes", whole(ranges.BYTES)),
        Row("md5_cksum", TEXT),
        Row("error_msg", shapes.raw(4096)),
    ],
)
_FILE: Final = shapes.nested(_FILE_SHAPE)


def _unwritten(_element: str, _value: object, _indent: str) -> str:
    return ""


_RESULT: Final = Shape(
    messages.ReportedResult,
    [
        Row("name", NAME),
        *rows(real(ranges.SECONDS), "final_cpu_time final_elapsed_time"),
        Row("exit_status", EXIT_STATUS, always=True),
        Row("terminated_status", EXIT_STATUS),
        Row("state", whole(ranges.CLIENT_STATE), always=True),
        Row("platform", TEXT),
        Row("version_num", whole(ranges.COUNT)),
        Row("plan_class", TEXT),
        *rows(real(ranges.BYTES), "final_peak_working_set_size final_peak_swap_size"),
        Row("final_peak_disk_usage", real(ranges.BYTES)),
        Row("app_version_num", whole(ranges.COUNT)),
        # `_write_result` writes these two elements after the elements of the other rows.
        Row(
            "stderr_out",
            Kind(lambda node: node[1] if isinstance(node[1], str) else "", uncached(_unwritten)),
        ),
        Row(
            "file_info",
            Kind(_FILE.read, uncached(_unwritten), shape=_FILE_SHAPE),
            field="file_infos",
            many=True,
        ),
    ],
)
STICKY: Final = Shape(
    messages.StickyFile,
    [Row("name", NAME), Row("nbytes", whole(ranges.BYTES)), Row("status", whole(ranges.INT32))],
)
USAGE: Final = Shape(
    messages.CoprocUsage, [Row("type", NAME), Row("count", real(ranges.DEVICES), always=True)]
)
APP_VERSION: Final = Shape(
    messages.ClientAppVersion,
    [
        Row("app_name", TEXT),
        Row("version_num", whole(ranges.COUNT)),
        Row("platform", TEXT),
        Row("plan_class", TEXT),
        Row("avg_ncpus", real(ranges.CPUS)),
        Row("flops", real(ranges.DEVICE_SPEED)),
        Row("coproc", shapes.nested(USAGE), field="coprocs", many=True),
    ],
)
OTHER: Final = Shape(
    messages.OtherResult,
    [Row("name", NAME), Row("app_version", whole(ranges.INDEX)), Row("plan_class", TEXT)],
)
IN_PROGRESS: Final = Shape(
    messages.InProgressResult,
    [
        Row("name", NAME),
        Row("time_remaining", real(ranges.SECONDS), aliases=("cpu_time_remaining",)),
    ],
)
KEYWORDS: Final = Shape(
    messages.UserKeywords,
    [Row("yes", whole(ranges.COUNT), many=True), Row("no", whole(ranges.COUNT), many=True)],
)
COPROCS: Final = Kind(_read_coprocs, uncached(_write_coprocs), shape=_COPROC, within="coproc")
RESULT: Final = Kind(_read_result, uncached(_write_result), shape=_RESULT)
TRICKLE: Final = Kind(_read_trickle, uncached(_write_trickle))
OPAQUE: Final = Kind(_read_opaque, uncached(_write_opaque))
