"""Every message survives a round trip: decode(encode(m)) == m."""

from __future__ import annotations

from dataclasses import fields
from types import NoneType
from typing import get_args, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.boinc.wire import messages
from scheduler.boinc.wire.replies import decode_reply, encode_reply
from scheduler.boinc.wire.request_parts import read_preferences
from scheduler.boinc.wire.requests import decode_request, encode_request, number_fields

CHARACTERS = st.characters(exclude_categories=["Cs", "Cc"])
TEXTS = st.text(CHARACTERS, max_size=20).map(str.strip)
NAMES = st.text(CHARACTERS, min_size=1, max_size=20).map(str.strip).filter(bool)
LINES = st.text(st.sampled_from("abc <>&;\n\t]!-/é"), max_size=60)
RAW = st.lists(NAMES.map(lambda x: f"<x>{x.translate({60: 45, 62: 45})}</x>")).map("\n".join)
INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
REALS = st.floats(allow_nan=False, allow_infinity=False)
PREFERENCES = RAW.map(lambda raw: f"<mod_time>17.5</mod_time>\n{raw}".strip())
WIDE = {"nbytes", "max_nbytes", "vendor_id", "time", "hostid", "userid"}
WIDE |= {"teamid", "user_create_time", "host_create_time"}
WIDE |= {"send_time_stats_log", "send_job_log"}
RAW_FIELDS = {"code_sign_key", "code_sign_key_signature", "time_stats_log", "job_log"}
RAW_FIELDS |= {"project_preferences", "global_preferences", "file_signature", "xml_signature"}
RAW_FIELDS |= {"working_global_preferences"}
NEVER_EMPTY = {"open_name"}
DERIVED = {"preferences", "global_preferences_mod_time", "variety", "further_results"}


RANGES = {(each.message_class, each.field): each.range for each in number_fields()}


def numbers(kept, hint):
    """Return a strategy for the numbers in the range `kept`, of the type `hint`."""
    if NoneType in get_args(hint):
        return st.none() | numbers(kept, int)
    if get_args(hint):
        return st.lists(numbers(kept, int), max_size=2).map(tuple)
    if hint is int:
        return st.integers(int(kept.low), int(kept.high))
    # 0 can be outside the range and mean "unknown".
    return st.floats(kept.low, kept.high).map(lambda value: value + 0.0)


def strategy_of(hint, name):
    """Return a strategy for the values of a field, from its type and name."""
    inner = get_args(hint)
    if NoneType in inner:
        return st.none() | strategy_of(next(each for each in inner if each is not NoneType), name)
    if inner[1:] == (...,):
        return st.lists(strategy_of(inner[0], "name"), max_size=2).map(tuple)
    if inner:
        return st.sampled_from(inner)
    plain = {bool: st.booleans(), float: REALS, int: LONGS if name in WIDE else INTS, str: TEXTS}
    if hint is str and name in RAW_FIELDS:
        return RAW
    if hint is str and (name in NEVER_EMPTY or name.endswith("name")):
        return NAMES
    return plain[hint] if hint in plain else said(hint)


def said(message_class):
    """Return a strategy for messages of this class."""
    hints = get_type_hints(message_class)
    return st.builds(
        message_class,
        **{
            each.name: SPECIAL[message_class, each.name]
            if (message_class, each.name) in SPECIAL
            else numbers(RANGES[message_class, each.name], hints[each.name])
            if (message_class, each.name) in RANGES
            else strategy_of(hints[each.name], each.name)
            for each in fields(message_class)
            if each.name not in DERIVED
        },
    )


STDERR = LINES.filter(lambda text: "]]>" not in text)
SPECIAL = {
    (messages.ReportedResult, "stderr_out"): STDERR,
    (messages.ReportedFile, "error_msg"): RAW,
    (messages.SchedulerRequest, "client_opaque"): STDERR,
    (messages.SchedulerRequest, "working_global_preferences"): PREFERENCES,
    (messages.CoprocUsage, "type"): NAMES,
    (messages.ReplyAppVersion, "api_version"): st.none() | st.just("8.2.15"),
    (messages.TrickleUp, "text"): RAW,
    (messages.TrickleDown, "text"): RAW,
}


@settings(max_examples=60, deadline=None)
@given(said(messages.SchedulerRequest))
def test_request_is_unchanged_by_a_round_trip(message):
    understood = decode_request(encode_request(message))
    for name in (each.name for each in fields(message)):
        if name not in DERIVED:
            assert getattr(understood, name) == getattr(message, name), name
    assert understood.preferences == read_preferences(message.working_global_preferences)


@settings(max_examples=60, deadline=None)
@given(said(messages.SchedulerReply))
def test_reply_is_unchanged_by_a_round_trip(message):
    assert decode_reply(encode_reply(message)) == message


@settings(max_examples=300, deadline=None)
@given(said(messages.ReportedResult))
def test_reported_result_is_unchanged_by_a_round_trip(result):
    request = messages.SchedulerRequest(results=(result, result))
    assert decode_request(encode_request(request)).results == (result, result)


@given(REALS)
def test_number_is_unchanged_by_a_round_trip(number):
    reply = messages.SchedulerReply(request_delay=number)
    assert decode_reply(encode_reply(reply)).request_delay == number
