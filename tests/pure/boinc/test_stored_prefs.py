"""Editing stored preferences keeps what is not edited."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.boinc.wire import computing_prefs, project_prefs, shapes, xml
from scheduler.boinc.wire.project_prefs import ProjectPreferences
from scheduler.boinc.wire.stored_prefs import (
    Format,
    Unreadable,
    digest,
    has_settings,
    locations,
    others,
    parse,
    section,
    sendable,
    settings,
    text_of,
    with_section,
    without_location,
)

FLAT = Format("p", setting_names=frozenset({"a", "b"}), metadata=frozenset({"mod_time"}))
NESTED = Format("p", setting_names=frozenset({"a", "b"}), nested=True)
STORED = """\
<mod_time>17</mod_time>
<a>1</a>
<day_prefs><day_of_week>3</day_of_week><a>9</a></day_prefs>
<note kind="x">R&amp;D</note>
<empty/>
<venue name="home"><b>2</b><x>3</x></venue>
<venue name="work"></venue>
"""


def edited(text: str, location: str, *values: tuple[str, str], form: Format = FLAT) -> str:
    return text_of(with_section(parse(text, form), location, form, values), [], form)


# Sections


def test_general_settings_are_replaced_and_everything_else_is_kept():
    assert edited(STORED, "", ("a", "5"), ("b", "6")).splitlines() == [
        "<a>5</a>",
        "<b>6</b>",
        "<day_prefs>",
        "<day_of_week>3</day_of_week>",
        "<a>9</a>",
        "</day_prefs>",
        '<note kind="x">R&amp;D</note>',
        "<empty/>",
        '<venue name="home">',
        "<b>2</b>",
        "<x>3</x>",
        "</venue>",
        '<venue name="work"></venue>',
    ]


def test_settings_of_a_location_are_replaced_and_the_others_are_kept():
    nodes = parse(edited(STORED, "home", ("a", "5")), FLAT)
    assert section(nodes, "home", FLAT) == [("a", "5", ""), ("x", "3", "")]
    assert section(nodes, "", FLAT) == section(parse(STORED, FLAT), "", FLAT)
    assert section(nodes, "work", FLAT) == []


def test_location_is_added_and_removed():
    nodes = parse(edited(STORED, "school", ("a", "5")), FLAT)
    assert locations(nodes) == ("home", "work", "school")
    assert section(nodes, "school", FLAT) == [("a", "5", "")]
    assert locations(without_location(nodes, "home")) == ("work", "school")
    assert section(without_location(nodes, "home"), "home", FLAT) is None


def test_other_elements_of_a_section_are_dropped_on_request():
    nodes = with_section(parse(STORED, FLAT), "", FLAT, [("a", "5")], keep=False)
    assert others(section(nodes, "", FLAT), FLAT) == ()
    assert locations(nodes) == ("home", "work")


def test_metadata_are_replaced_and_are_not_settings():
    nodes = parse(STORED, FLAT)
    assert text_of(nodes, [("mod_time", "18")], FLAT).startswith("<mod_time>18</mod_time>\n<a>")
    assert text_of(nodes, [("mod_time", "18")], FLAT).count("mod_time>") == 2
    assert others(section(nodes, "", FLAT), FLAT) == ("day_prefs", "note", "empty")


def test_nested_settings_are_replaced_with_the_elements_that_had_only_these():
    text = "<list><a>1</a><a>2</a></list><more><b>3</b><c>4</c></more>"
    assert edited(text, "", ("a", "7"), form=NESTED).splitlines() == [
        "<a>7</a>",
        "<more>",
        "<c>4</c>",
        "</more>",
    ]
    assert settings(parse(text, NESTED), NESTED)["a"] == ["1", "2"]
    assert "a" not in settings(parse("<list><a>1</a></list>", FLAT), FLAT)


def test_tag_around_the_whole_text_is_removed():
    assert parse("<p><a>1</a><b>2</b></p>", FLAT) == parse("<a>1</a><b>2</b>", FLAT)


@pytest.mark.parametrize("text", ["<a>", "</a>", "<a><b></a></b>", "<!DOCTYPE x>", "<a>" * 50])
def test_unbalanced_text_is_unreadable(text):
    with pytest.raises(Unreadable):
        parse(text, FLAT)


def test_digest_differs_between_sections_and_their_absence():
    nodes = parse(STORED, FLAT)
    sections = [section(nodes, name, FLAT) for name in ("", "home", "work", "school")]
    assert len({digest(each) for each in sections}) == 4
    assert digest(sections[1]) == digest(section(parse(edited(STORED, ""), FLAT), "home", FLAT))


@given(st.text(max_size=200))
def test_readable_text_stays_readable_after_an_edit(text):
    try:
        nodes = parse(text, FLAT)
    except Unreadable:
        return
    again = parse(edited(text, "home", ("a", "5")), FLAT)
    assert settings(section(again, "home", FLAT), FLAT)["a"] == ["5"]
    assert others(section(again, "", FLAT), FLAT) == others(section(nodes, "", FLAT), FLAT)


# Texts for clients


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("", ""),
        (STORED, STORED),
        ("<a>R&D &nbsp; ]]></a>", "<a>R&D &nbsp; ]]></a>"),
        ("<a><![CDATA[ <x ]]></a>", "<a> &lt;x </a>"),
        ("<a><![CDATA[</a><b>&lt;]]></a>", "<a>&lt;/a&gt;&lt;b&gt;&amp;lt;</a>"),
        ("<a>1 < 2</a>", "<a>1 &lt; 2</a>"),
        ("<a>1</a><!-- <b> --><b/>", "<a>1</a>\n<b/>"),
        ("<p><p><a>1</a></p></p>", "<a>1</a>"),
        ("<p/>", ""),
        ("</p><p>", None),
        ("<a><p>1</p></a>", None),
        ("<a>", None),
        ("<!DOCTYPE x>", None),
        ("<a><![CDATA[", None),
        (f"<a>{'x' * 65_535}</a>", None),
    ],
)
def test_text_is_sent_as_clients_read_it(text, sent):
    assert sendable(text, FLAT) == sent
    if sent is not None:
        assert sent in shapes.raw(balanced=True).write("p", sent, "")


@given(st.text("<>/!?[]CDATA&;p ", max_size=60))
def test_every_readable_text_can_be_sent(text):
    sent = sendable(text, FLAT)
    if sent is None:
        with pytest.raises(Unreadable):
            parse(text, FLAT)
    else:
        assert sent in shapes.raw(balanced=True).write("p", sent, "")
        assert sendable(sent, FLAT) == sent


@pytest.mark.parametrize(
    ("text", "locations_with_settings"),
    [
        (STORED, {"", "home", "work", "school"}),
        ('<mod_time>1</mod_time><venue name="home"></venue>', {"home"}),
        ("<mod_time>1</mod_time>", set()),
        ("<a>", set()),
    ],
)
def test_locations_whose_clients_use_a_text_are_known(text, locations_with_settings):
    names = ("", "home", "work", "school")
    assert {name for name in names if has_settings(text, name, FLAT)} == locations_with_settings


# Computing preferences


def computing(text: str) -> dict[str, float | bool]:
    nodes = parse(text, computing_prefs.FORMAT)
    return computing_prefs.decode(settings(nodes, computing_prefs.FORMAT))


def as_text(elements: list[tuple[str, str]]) -> str:
    return "".join(f"<{name}>{value}</{name}>" for name, value in elements)


def test_defaults_are_read_back_unchanged():
    defaults = computing_prefs.DEFAULTS
    assert computing(as_text(computing_prefs.encode({}))) == defaults
    for name, setting in computing_prefs.SETTINGS.items():
        assert setting.is_flag or setting.low <= defaults[name] <= setting.high
        assert setting.label
        assert setting.is_flag or setting.unit


@given(
    st.fixed_dictionaries(
        {
            name: st.booleans()
            if setting.is_flag
            else st.floats(setting.low * setting.scale, setting.high * setting.scale)
            for name, setting in computing_prefs.SETTINGS.items()
        }
    )
)
def test_values_within_their_ranges_are_read_back_unchanged(values):
    assert computing(as_text(computing_prefs.encode(values))) == values


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("", "run_if_user_active", False),  # clients read a missing element as off
        ("<run_if_user_active/>", "run_if_user_active", True),
        ("<run_if_user_active>0</run_if_user_active>", "run_if_user_active", False),
        ("", "idle_time_to_run", 3),
        ("<max_ncpus_pct>0</max_ncpus_pct>", "max_ncpus_pct", 100),
        ("<max_ncpus_pct>500</max_ncpus_pct>", "max_ncpus_pct", 100),
        ("<max_ncpus_pct>0.5</max_ncpus_pct>", "max_ncpus_pct", 1),
        ("<max_ncpus_pct>x</max_ncpus_pct>", "max_ncpus_pct", 100),
        ("<max_ncpus_pct>nan</max_ncpus_pct>", "max_ncpus_pct", 100),
        ("<start_hour>-3</start_hour>", "start_hour", 0),
        ("<end_hour>1e99</end_hour>", "end_hour", 24),
        ("<work_buf_min_days></work_buf_min_days>", "work_buf_min_days", 0.1),
        ("<max_bytes_sec_up>1e300</max_bytes_sec_up>", "max_bytes_sec_up", 9_999_999 * 1024),
    ],
)
def test_stored_value_is_limited_to_its_range(text, name, value):
    assert computing(text)[name] == value


# Project preferences

IDS = st.lists(st.integers(1, 2**31 - 1), max_size=5, unique=True).map(tuple)


@given(
    st.builds(
        ProjectPreferences,
        selected_apps=IDS,
        allow_other_apps=st.booleans(),
        allow_beta=st.booleans(),
        devices_off=st.sampled_from([(), ("",), ("", "nvidia", "amd"), ("intel", "apple")]),
        max_cpus=st.integers(0, 10_000),
        max_held=st.integers(0, 10_000),
        keywords_yes=IDS,
        keywords_no=IDS,
        resource_share=st.floats(0, project_prefs.MAX_SHARE),
    )
)
def test_written_project_preferences_are_what_dispatch_reads(prefs):
    text = as_text(project_prefs.encode(prefs))
    assert project_prefs.decode(text, "") == prefs
    inside = f'<max_jobs>7</max_jobs><venue name="home">{text}</venue>'
    assert project_prefs.decode(inside, "home") == prefs


@pytest.mark.parametrize(
    ("text", "share"),
    [("", 100), ("0", 0), ("-5", 0), ("1e9", 1e6), ("x", 100), (" 25.5 ", 25.5), ("nan", 100)],
)
def test_resource_share_is_limited(text, share):
    stored = f"<resource_share>{text}</resource_share>"
    assert project_prefs.decode(stored, "").resource_share == share


def test_known_elements_are_those_that_are_written():
    everything = ProjectPreferences(selected_apps=(1,), keywords_yes=(2,), keywords_no=(3,))
    assert {
        name for name, _ in project_prefs.encode(everything)
    } == project_prefs.FORMAT.setting_names
    assert {name for name, _ in computing_prefs.encode({})} == computing_prefs.FORMAT.setting_names
    assert xml.to_int(dict(project_prefs.encode(everything))["max_jobs"]) == 0
