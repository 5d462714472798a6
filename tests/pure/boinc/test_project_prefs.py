"""Reading a volunteer's project preferences from valid and invalid texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.boinc.wire import xml
from scheduler.boinc.wire.project_prefs import ProjectPreferences, decode

NOTHING = ProjectPreferences()
LIMITS = ("max_held", "max_cpus")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", {}),
        ("  \n ", {}),
        ("<app_id>3</app_id><app_id> 5 </app_id><app_id>3</app_id>", {"selected_apps": (3, 5)}),
        ("<apps_selected><app_id>3</app_id></apps_selected>", {"selected_apps": (3,)}),
        ("<app_id>x</app_id><app_id>-4</app_id><app_id/>", {}),
        ("<max_jobs/>", {}),
        ("<allow_non_preferred_apps>1</allow_non_preferred_apps>", {"allow_other_apps": True}),
        ("<allow_beta_work>1</allow_beta_work>", {"allow_beta": True}),
        ("<allow_beta_work/>", {"allow_beta": True}),
        ("<allow_beta_work>0</allow_beta_work>", {}),
        ("<allow_beta_work></allow_beta_work>", {}),
        ("<no_cpu>1</no_cpu>", {"devices_off": ("",)}),
        ("<no_cuda>1</no_cuda><no_ati>1</no_ati>", {"devices_off": ("nvidia", "amd")}),
        ("<no_intel_gpu>1</no_intel_gpu>", {"devices_off": ("intel",)}),
        ("<no_apple_gpu>1</no_apple_gpu>", {"devices_off": ("apple",)}),
        ("<max_jobs>4</max_jobs><max_cpus>2</max_cpus>", {"max_held": 4, "max_cpus": 2}),
        ("<max_jobs>-4</max_jobs><max_cpus>many</max_cpus>", {}),
        ("<max_jobs>20000</max_jobs><max_cpus>9e99</max_cpus>", dict.fromkeys(LIMITS, 10_000)),
        ("<max_jobs>4</max_jobs><max_jobs>9</max_jobs>", {"max_held": 4}),
        (
            "<user_keywords><yes>7</yes><yes>8</yes><no>9</no></user_keywords>",
            {"keywords_yes": (7, 8), "keywords_no": (9,)},
        ),
        (
            "<color>3</color>\n<project_specific>\n<no_cuda>1</no_cuda>\n</project_specific>",
            {"devices_off": ("nvidia",)},
        ),
        (
            "<project_preferences><max_jobs>4</max_jobs></project_preferences>",
            {"max_held": 4},
        ),
    ],
)
def test_project_preferences_are_decoded(text, wanted):
    assert decode(text, "") == ProjectPreferences(**wanted)


VENUES = """
<max_jobs>1</max_jobs>
<no_cuda>1</no_cuda>
<venue name="home"><max_jobs>2</max_jobs></venue>
<venue name='work'></venue>
<venue name="R&amp;D"><max_jobs>3</max_jobs></venue>
<venue><max_jobs>4</max_jobs></venue>
"""


@pytest.mark.parametrize(
    ("venue", "wanted"),
    [
        ("", {"max_held": 1, "devices_off": ("nvidia",)}),
        ("school", {"max_held": 1, "devices_off": ("nvidia",)}),
        ("home", {"max_held": 2}),
        ("work", {}),
        ("R&D", {"max_held": 3}),
    ],
)
def test_venue_replaces_all_general_preferences(venue, wanted):
    assert decode(VENUES, venue) == ProjectPreferences(**wanted)


@pytest.mark.parametrize(
    "text",
    [
        "<no_cuda>1",
        "</project_preferences>",
        "<a><b></a></b>",
        "<!DOCTYPE x>",
        "<a>" * 1000,
        "\x00<\ud800>",
    ],
)
def test_malformed_preferences_are_treated_as_empty(text):
    assert decode(text, "home") == NOTHING


def test_preferences_over_the_size_limit_are_treated_as_empty():
    assert decode("<max_jobs>4</max_jobs>" + " " * xml.MAX_BYTES, "") == NOTHING


def test_at_most_1000_app_ids_are_read():
    text = "".join(f"<app_id>{number}</app_id>" for number in range(1, 5000))
    assert len(decode(text, "").selected_apps) == 1000


PIECES = st.sampled_from(
    ["<", ">", "/", "venue", ' name="home"', "<app_id>", "</app_id>", "9" * 400, "-1", "<no_cpu/>"]
)


@given(st.lists(PIECES | st.text(max_size=5)).map("".join), st.text(max_size=5))
def test_no_preference_text_raises(text, venue):
    found = decode(text, venue)
    assert found.max_cpus >= 0
    assert all(number > 0 for number in found.selected_apps)
