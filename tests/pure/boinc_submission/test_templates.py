"""Reading BOINC's templates; faults are reported with line and element."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.boinc_submission.facts import InputTemplate, OutputTemplate, TemplateInput
from scheduler.boinc_submission.wire.template_elements import BadTemplate
from scheduler.boinc_submission.wire.templates import (
    read_input_template,
    read_output_template,
    wrapped,
)
from scheduler.work.submission.facts import NewOutput

INPUT = """<?xml version="1.0"?>
<!-- of a real project:
     two files of the submission, one constant -->
<input_template>
    <file_info>
        <number>0</number>
        <sticky/>
        <no_delete/>
    </file_info>
    <file_info>
        <physical_name>genome_2.dat</physical_name>
    </file_info>
    <file_info>
        <gzip/>
    </file_info>
    <workunit>
        <file_ref>
            <file_number>0</file_number>
            <open_name>in</open_name>
        </file_ref>
        <file_ref>
            <open_name>genome</open_name>
            <copy_file/>
        </file_ref>
        <file_ref>
            <copy_file/>
        </file_ref>
        <command_line>--fast &lt;x&gt;</command_line>
        <rsc_fpops_est>1e12</rsc_fpops_est>
        <rsc_fpops_bound>1e14</rsc_fpops_bound>
        <rsc_memory_bound>268435456</rsc_memory_bound>
        <rsc_disk_bound>1e8</rsc_disk_bound>
        <delay_bound>864000</delay_bound>
        <min_quorum>2</min_quorum>
        <target_nresults>3</target_nresults>
        <max_error_results>4</max_error_results>
        <max_total_results>8</max_total_results>
        <max_success_results>6</max_success_results>
        <size_class>-1</size_class>
    </workunit>
</input_template>
"""

OUTPUT = """<output_template>
    <file_info>
        <name><OUTFILE_0/></name>
        <generated_locally/>
        <upload_when_present/>
        <max_nbytes>32768</max_nbytes>
        <url><UPLOAD_URL/></url>
    </file_info>
    <file_info>
        <name><OUTFILE_1/></name>
        <generated_locally/>
        <upload_when_present/>
        <max_nbytes>1e6</max_nbytes>
        <url><UPLOAD_URL/></url>
        <gzip_when_done/>
        <sticky/>
        <no_delete/>
    </file_info>
    <result>
        <file_ref>
            <file_name><OUTFILE_1/></file_name>
            <open_name>log</open_name>
            <optional/>
            <no_validate/>
        </file_ref>
        <file_ref>
            <file_name><OUTFILE_0/></file_name>
            <open_name>out</open_name>
            <copy_file/>
        </file_ref>
        <report_immediately/>
    </result>
</output_template>
"""


def test_input_template_contains_files_command_line_and_numbers() -> None:
    said = read_input_template(INPUT)
    assert said == InputTemplate(
        inputs=(
            TemplateInput(open_name="in", sticky=True, no_delete=True),
            TemplateInput(open_name="genome", physical_name="genome_2.dat", copy_file=True),
            TemplateInput(copy_file=True),
        ),
        command_line="--fast <x>",
        numbers={
            "rsc_fpops_est": 1e12,
            "rsc_fpops_bound": 1e14,
            "rsc_memory_bound": 268435456.0,
            "rsc_disk_bound": 1e8,
            "delay_bound": 864000.0,
            "min_quorum": 2.0,
            "target_nresults": 3.0,
            "max_error_results": 4.0,
            "max_total_results": 8.0,
            "max_success_results": 6.0,
            "size_class": -1.0,
        },
    )
    assert said.wanted == 2


def test_input_template_names_a_queue() -> None:
    assert read_input_template("<workunit><queue>lab</queue></workunit>").queue == "lab"
    with pytest.raises(BadTemplate, match="<queue>: It is empty"):
        read_input_template("<workunit><queue></queue></workunit>")


def test_output_template_lists_files_in_the_order_of_references() -> None:
    said = read_output_template(OUTPUT)
    assert said == OutputTemplate(
        outputs=(
            NewOutput(
                open_name="log",
                max_nbytes=1_000_000,
                optional=True,
                no_validate=True,
                gzip_when_done=True,
                sticky=True,
                no_delete=True,
            ),
            NewOutput(open_name="out", max_nbytes=32768, copy_file=True),
        ),
        report_immediately=True,
    )


def test_wrapper_and_prolog_are_optional() -> None:
    bare = INPUT.partition("<input_template>")[2].replace("</input_template>", "")
    assert read_input_template(bare) == read_input_template(INPUT)
    bare = OUTPUT.replace("<output_template>", "").replace("</output_template>", "")
    assert read_output_template(bare) == read_output_template(OUTPUT)


def test_input_file_can_be_remote() -> None:
    said = read_input_template(
        "<file_info><url>https://a.example/d/</url><url>https://b.example/</url>"
        f"<md5_cksum>{'AB' * 16}</md5_cksum><nbytes>12345</nbytes></file_info>"
        "<workunit><file_ref><open_name>in</open_name></file_ref></workunit>"
    )
    assert said.inputs == (
        TemplateInput(
            open_name="in",
            urls=("https://a.example/d/", "https://b.example/"),
            md5="ab" * 16,
            nbytes=12345,
        ),
    )
    assert said.wanted == 1


ONE = (
    "<file_info/>\n<workunit>\n<file_ref>\n<open_name>in</open_name>\n</file_ref>\n{}\n</workunit>"
)


@pytest.mark.parametrize(
    ("text", "line", "element", "part"),
    [
        ("", 0, "input_template", "It is empty."),
        ("<file_info/>", 0, "workunit", "has no <workunit>"),
        (ONE.format("") + "\n<workunit/>", 8, "workunit", "has 2 <workunit>"),
        ("<file_info/>\n" + ONE.format(""), 3, "workunit", "2 <file_info> and 1 <file_ref>"),
        (
            ONE.format("").replace("<open_name>in</open_name>", ""),
            3,
            "file_ref",
            "neither an <open_name> nor",
        ),
        (ONE.format("<delay_bound>soon</delay_bound>"), 6, "delay_bound", "'soon' is not a number"),
        (ONE.format("<min_quorum>-1</min_quorum>"), 6, "min_quorum", "not a number of at least 0"),
        (ONE.format("<rsc_disk_bound>nan</rsc_disk_bound>"), 6, "rsc_disk_bound", "not a number"),
        (ONE.format("<rsc_fpops_est>0</rsc_fpops_est>"), 6, "rsc_fpops_est", "It is zero."),
        ("<workunit>\n<file_ref>\n</workunit>", 2, "file_ref", "is not closed"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]>\n" + ONE.format(""), 0, "input_template", "document type"),
        (
            "<input_template>" + ONE.format("") + "</input_template>\n<a/>",
            8,
            "a",
            "is outside <input_template>",
        ),
        (
            ONE.format("").replace("<file_info/>", "<file_info><url>x</url></file_info>"),
            1,
            "file_info",
            "not all three",
        ),
        (
            ONE.format("").replace(
                "<file_info/>",
                "<file_info><url>file:///etc/passwd</url><md5_cksum/><nbytes/></file_info>",
            ),
            1,
            "url",
            "not a URL that hosts can fetch",
        ),
        (
            ONE.format("").replace(
                "<file_info/>",
                "<file_info><url>http://a/</url><md5_cksum>x</md5_cksum><nbytes>1</nbytes>"
                "</file_info>",
            ),
            1,
            "md5_cksum",
            "is not an MD5 digest",
        ),
        (
            ONE.format("").replace("<file_info/>", "<file_info><physical_name/></file_info>"),
            1,
            "physical_name",
            "It is empty.",
        ),
        ("x" * 300_000, 0, "input_template", "300000 bytes"),
    ],
)
def test_input_template_fault_has_line_element_and_hint(text, line, element, part) -> None:
    with pytest.raises(BadTemplate, match="Hint: ") as fault:
        read_input_template(text)
    assert (fault.value.line, fault.value.element) == (line, element)
    assert part in str(fault.value)


@pytest.mark.parametrize(
    ("old", "new", "line", "part"),
    [
        ("<OUTFILE_0/></name>", "out</name>", 3, "does not name its output"),
        ("<open_name>out</open_name>", "", 26, "has no <open_name>"),
        ("<max_nbytes>32768</max_nbytes>", "", 2, "has no <max_nbytes>"),
        ("<max_nbytes>32768</max_nbytes>", "<max_nbytes>0</max_nbytes>", 6, "of at least 1"),
        ("<UPLOAD_URL/>", "http://elsewhere/", 7, "not to 'http://elsewhere/'"),
        ("<OUTFILE_1/></file_name>", "<OUTFILE_7/></file_name>", 20, "has no <file_info>"),
        ("<OUTFILE_1/></file_name>", "<OUTFILE_0/></file_name>", 20, "is named twice"),
        ("<OUTFILE_1/></name>", "<OUTFILE_0/></name>", 20, "has no <file_info>"),
        ("<result>", "<workunit>", 0, "is not closed"),
    ],
)
def test_output_template_fault_has_line_and_hint(old, new, line, part) -> None:
    with pytest.raises(BadTemplate, match="Hint: ") as fault:
        read_output_template(OUTPUT.replace(old, new, 1))
    assert part in str(fault.value)
    assert fault.value.line == line or not line


def test_output_without_a_reference_is_refused() -> None:
    text = OUTPUT.replace(
        OUTPUT[OUTPUT.index("        <file_ref>") : OUTPUT.index("</file_ref>") + 12], "", 1
    )
    with pytest.raises(BadTemplate, match=r"Line 9, <file_info>: No <file_ref> of the <result>"):
        read_output_template(text)


def test_duplicate_description_of_an_output_is_refused() -> None:
    info = OUTPUT[OUTPUT.index("    <file_info>") : OUTPUT.index("</file_info>") + 13]
    with pytest.raises(BadTemplate, match="Two <file_info> have the same <name>"):
        read_output_template(OUTPUT.replace(info, info + info, 1))


def test_template_is_wrapped_once_and_its_prolog_removed() -> None:
    assert wrapped('<?xml version="1.0"?>\n<file_info/>', "input_template") == (
        "<input_template>\n<file_info/>\n</input_template>"
    )
    assert wrapped(OUTPUT, "output_template") == OUTPUT.strip()


@pytest.mark.parametrize(
    "part", ["<!--", "<![CDATA[", "<?", "<a>", "</a>", "<a", "&#", "<file_info>"]
)
def test_malicious_template_is_refused_within_two_seconds(part: str) -> None:
    began = time.perf_counter()
    with pytest.raises(BadTemplate):
        read_input_template(part * (200_000 // len(part)))
    assert time.perf_counter() - began < 2


# Round trips: templates in the form that BOINC's tools write

names = st.text("abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=1, max_size=20)
urls = names.map(lambda name: f"https://{name}.example/")
flags = st.booleans()
inputs = st.one_of(
    st.builds(TemplateInput, open_name=names, copy_file=flags, sticky=flags, no_delete=flags),
    st.builds(TemplateInput, open_name=names, physical_name=names, copy_file=flags),
    st.builds(
        TemplateInput,
        open_name=names,
        urls=st.lists(urls, min_size=1, max_size=3).map(tuple),
        md5=st.text("0123456789abcdef", min_size=32, max_size=32),
        nbytes=st.integers(1, 2**50),
        sticky=flags,
    ),
)
input_templates = st.builds(
    InputTemplate,
    inputs=st.lists(inputs, max_size=4).map(tuple),
    command_line=st.text("abc <>&-\"'ë", max_size=30).map(str.strip),
    numbers=st.fixed_dictionaries(
        {},
        optional={
            "rsc_fpops_est": st.floats(1, 1e20),
            "rsc_memory_bound": st.floats(0, 1e15),
            "delay_bound": st.integers(1, 10**8).map(float),
            "min_quorum": st.integers(1, 9).map(float),
            "max_total_results": st.integers(1, 99).map(float),
        },
    ),
)
output_templates = st.builds(
    OutputTemplate,
    outputs=st.lists(
        st.builds(
            NewOutput,
            open_name=names,
            max_nbytes=st.integers(1, 2**50),
            copy_file=flags,
            optional=flags,
            no_validate=flags,
            sticky=flags,
            no_delete=flags,
            gzip_when_done=flags,
        ),
        max_size=4,
    ).map(tuple),
    report_immediately=flags,
)


def said(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def flagged(one: object, *names: str) -> str:
    return "".join(f"<{name}/>\n" for name in names if getattr(one, name))


def written_input(one: TemplateInput) -> tuple[str, str]:
    info = flagged(one, "sticky", "no_delete")
    if one.physical_name:
        info += f"<physical_name>{one.physical_name}</physical_name>\n"
    info += "".join(f"<url>{url}</url>\n" for url in one.urls)
    if one.urls:
        info += f"<md5_cksum>{one.md5}</md5_cksum>\n<nbytes>{one.nbytes}</nbytes>\n"
    ref = f"<open_name>{one.open_name}</open_name>\n{flagged(one, 'copy_file')}"
    return f"<file_info>\n{info}</file_info>\n", f"<file_ref>\n{ref}</file_ref>\n"


def written_output(number: int, one: NewOutput) -> tuple[str, str]:
    holder = f"<OUTFILE_{number}/>"
    info = (
        f"<name>{holder}</name>\n<upload_when_present/>\n<max_nbytes>{one.max_nbytes}</max_nbytes>"
    )
    info += "<url><UPLOAD_URL/></url>\n" + flagged(one, "gzip_when_done", "sticky", "no_delete")
    ref = f"<file_name>{holder}</file_name>\n<open_name>{one.open_name}</open_name>\n"
    ref += flagged(one, "copy_file", "optional", "no_validate")
    return f"<file_info>\n{info}</file_info>\n", f"<file_ref>\n{ref}</file_ref>\n"


@given(input_templates, flags)
def test_input_template_is_unchanged_by_a_round_trip(template: InputTemplate, bare: bool) -> None:
    pairs = [written_input(one) for one in template.inputs]
    numbers = "".join(f"<{name}>{value!r}</{name}>\n" for name, value in template.numbers.items())
    text = "".join(info for info, _ in pairs) + "<workunit>\n" + "".join(ref for _, ref in pairs)
    if template.command_line:
        text += f"<command_line>{said(template.command_line)}</command_line>\n"
    text += numbers + "</workunit>\n"
    found = read_input_template(text if bare else wrapped(text, "input_template"))
    assert found == template


@given(output_templates, flags, st.randoms(use_true_random=False))
def test_output_template_is_unchanged_by_a_round_trip(
    template: OutputTemplate, bare: bool, chance
) -> None:
    pairs = [written_output(number, one) for number, one in enumerate(template.outputs)]
    infos = [info for info, _ in pairs]
    chance.shuffle(infos)  # outputs are matched by name
    text = "".join(infos) + "<result>\n" + "".join(ref for _, ref in pairs)
    text += flagged(template, "report_immediately") + "</result>\n"
    found = read_output_template(text if bare else wrapped(text, "output_template"))
    assert found == template


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused_with_a_hint(text: str) -> None:
    for read in (read_input_template, read_output_template):
        try:
            read(text)
        except BadTemplate as refused:
            fault = refused
        else:
            continue
        assert " Hint: " in str(fault)
