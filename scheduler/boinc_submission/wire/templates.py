"""Parses BOINC's input and output templates.

Templates may have a wrapper (``<input_template>``, ``<output_template>``) and an XML prolog.  Input
files and their references are matched by position, because BOINC ignores the numbers in them.
Output files and their references are matched by name (``<OUTFILE_0/>``).

This module uses no database, files or clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from scheduler.boinc.wire import xml
from scheduler.boinc_submission.facts import InputTemplate, OutputTemplate, TemplateInput
from scheduler.boinc_submission.wire.template_elements import (
    BadTemplate,
    Element,
    blanked,
    unwrapped,
)
from scheduler.work.submission.facts import NewOutput

#: The elements of a workunit that contain real numbers, and those that contain whole numbers.
_REALS: Final = frozenset(
    {
        "rsc_fpops_est",
        "rsc_fpops_bound",
        "rsc_memory_bound",
        "rsc_disk_bound",
        "rsc_bandwidth_bound",
    }
)
_WHOLES: Final = frozenset(
    {
        "delay_bound",
        "min_quorum",
        "target_nresults",
        "max_error_results",
        "max_total_results",
        "max_success_results",
        "size_class",
    }
)
_POSITIVE: Final = frozenset({"rsc_fpops_est", "rsc_fpops_bound", "rsc_disk_bound"})
_HOLDER: Final = re.compile(r"OUTFILE_[0-9]{1,4}")
MD5: Final = re.compile(r"[0-9a-fA-F]{32}")
URL: Final = re.compile(r"https?://[^\s<>\"'\\]{1,900}")
_PROLOG: Final = re.compile(r"^\s*<\?xml\b[^>]*\?>\s*")


def read_input_template(text: str) -> InputTemplate:
    """Parse an input template; raises `BadTemplate`."""
    top = unwrapped(text, "input_template")
    workunit = _only(top, "workunit", "An input", "an output template has a <result> instead.")
    files = [each for each in top if each.name == "file_info"]
    references = workunit.all_of("file_ref")
    if len(files) != len(references):
        raise workunit.fault(
            f"There are {len(files)} <file_info> and {len(references)} <file_ref>.",
            "add one <file_ref> for each <file_info>, in the same order.",
        )
    command_line = workunit.first("command_line")
    queue = workunit.first("queue")
    if queue is not None and not queue.words:
        raise queue.fault("It is empty.", "name a queue, or remove the element.")
    return InputTemplate(
        inputs=tuple(_input(info, ref) for info, ref in zip(files, references, strict=True)),
        command_line=command_line.words if command_line else "",
        numbers=dict(_numbers(workunit)),
        queue=queue.words if queue else None,
    )


def read_output_template(text: str) -> OutputTemplate:
    """Parse an output template; raises `BadTemplate`."""
    top = unwrapped(text, "output_template")
    result = _only(top, "result", "An output", "an input template has a <workunit> instead.")
    files = [each for each in top if each.name == "file_info"]
    by_name = {_holder(each, "name"): each for each in files}
    references = result.all_of("file_ref")
    named = [_holder(each, "file_name") for each in references]
    for name, reference in zip(named, references, strict=True):
        if name not in by_name or named.count(name) > 1:
            what = "is named twice" if name in by_name else "has no <file_info>"
            raise reference.fault(
                f"The file <{name}/> {what}.",
                "write one <file_info> and one <file_ref> for each file, both with <OUTFILE_n/>.",
            )
    if unused := [each for name, each in by_name.items() if name not in named]:
        raise unused[0].fault(
            "No <file_ref> of the <result> names this file.",
            "add one with its <file_name> and <open_name>, or remove the <file_info>.",
        )
    if len(by_name) < len(files):
        raise files[-1].fault(
            "Two <file_info> have the same <name>.",
            "number the outputs: <OUTFILE_0/>, <OUTFILE_1/> and so on.",
        )
    return OutputTemplate(
        outputs=tuple(
            _output(by_name[name], reference)
            for name, reference in zip(named, references, strict=True)
        ),
        report_immediately=result.flag("report_immediately"),
    )


def _only(top: Iterable[Element], name: str, kind: str, hint: str) -> Element:
    """Return the only element of this name; raises `BadTemplate`."""
    named = [each for each in top if each.name == name]
    if len(named) != 1:
        raise BadTemplate(
            named[1].line if named else 0,
            name,
            f"{kind} template has {len(named) or 'no'} <{name}>.",
            f"add one after the <file_info>; {hint}",
        )
    return named[0]


def wrapped(text: str, wrapper: str) -> str:
    """Return a template without the XML prolog, inside the wrapper element."""
    bare = _PROLOG.sub("", text).strip()
    if f"<{wrapper}" in blanked(bare):
        return bare
    return f"<{wrapper}>\n{bare}\n</{wrapper}>"


# Inputs


def _input(info: Element, reference: Element) -> TemplateInput:
    open_name = reference.first("open_name")
    copy_file = reference.flag("copy_file")
    if (open_name is None or not open_name.words) and not copy_file:
        raise reference.fault(
            "It has neither an <open_name> nor <copy_file/>.",
            "add the name by which the program opens the file.",
        )
    constant = info.first("physical_name")
    if constant is not None and not constant.words:
        raise constant.fault("It is empty.", "name the constant file, or remove the element.")
    urls, md5, nbytes = _remote_file(info) if constant is None else ((), "", 0)
    return TemplateInput(
        open_name=open_name.words if open_name and open_name.words else None,
        physical_name=constant.words if constant else None,
        urls=urls,
        md5=md5,
        nbytes=nbytes,
        copy_file=copy_file,
        sticky=info.flag("sticky"),
        no_delete=info.flag("no_delete"),
    )


def _remote_file(info: Element) -> tuple[tuple[str, ...], str, int]:
    """Return URLs, MD5 and size of a remote file; empty values for a file on this server."""
    urls = tuple(each.words for each in info.all_of("url"))
    md5, size = info.first("md5_cksum"), info.first("nbytes")
    if not urls and md5 is None and size is None:
        return (), "", 0
    if not urls or md5 is None or size is None:
        raise info.fault(
            "It has some of <url>, <md5_cksum> and <nbytes>, but not all three.",
            "write all three for a file that hosts download from another server, otherwise none.",
        )
    for each in info.all_of("url"):
        if not URL.fullmatch(each.words):
            raise each.fault(
                f"{each.words[:60]!r} is not a URL that hosts can fetch.",
                "begin it with http:// or https://.",
            )
    if not MD5.fullmatch(md5.words):
        raise md5.fault(f"{md5.words[:60]!r} is not an MD5 digest.", "write 32 hexadecimal digits.")
    return urls, md5.words.lower(), int(_number(size, least=1))


def _numbers(workunit: Element) -> Iterator[tuple[str, float]]:
    for each in workunit.inside:
        if each.name in _REALS:
            value = _number(each)
            if value == 0 and each.name in _POSITIVE:
                hint = "write a number above zero, or remove the element."
                raise each.fault("It is zero.", hint)
            yield each.name, value
        elif each.name in _WHOLES:
            least = -1 if each.name == "size_class" else 0
            yield each.name, float(int(_number(each, least=least)))


def _number(element: Element, *, least: float = 0) -> float:
    words = element.words
    try:
        value = float(words)
    except ValueError:
        value = float("nan")
    if not least <= value <= xml.MAX_REAL or "_" in words:
        raise element.fault(
            f"{words[:60]!r} is not a number of at least {least:g}.",
            "write digits, or a power of ten such as 1e12.",
        )
    return value


# Outputs


def _holder(element: Element, name: str) -> str:
    """Return the name of the output that an element refers to, such as ``OUTFILE_0``.

    Raises `BadTemplate`.
    """
    child = element.first(name)
    inside = [each.name for each in child.inside if _HOLDER.fullmatch(each.name)] if child else []
    if child is None or len(inside) != 1:
        raise BadTemplate(
            child.line if child else element.line,
            name,
            f"<{element.name}> does not name its output.",
            f"write <{name}><OUTFILE_0/></{name}>, with the number of the output.",
        )
    return inside[0]


def _output(info: Element, reference: Element) -> NewOutput:
    open_name = reference.first("open_name")
    if open_name is None or not open_name.words:
        hint = "add the name by which the program writes the file."
        raise reference.fault("It has no <open_name>.", hint)
    size = info.first("max_nbytes")
    if size is None:
        hint = "add the largest size of the file, in bytes."
        raise info.fault("It has no <max_nbytes>.", hint)
    for url in info.all_of("url"):
        if not any(each.name == "UPLOAD_URL" for each in url.inside):
            raise url.fault(
                f"Outputs are sent to the project, not to {url.words[:60]!r}.",
                "write <url><UPLOAD_URL/></url>.",
            )
    return NewOutput(
        open_name=open_name.words,
        max_nbytes=int(_number(size, least=1)),
        copy_file=reference.flag("copy_file"),
        optional=reference.flag("optional") or info.flag("optional"),
        no_validate=reference.flag("no_validate"),
        sticky=info.flag("sticky"),
        no_delete=info.flag("no_delete"),
        gzip_when_done=info.flag("gzip_when_done"),
    )
