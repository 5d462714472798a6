"""Each trickle up is stored once, and each trickle down is sent once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from scheduler.messages import trickles
from scheduler.messages.facts import ReceivedTrickle
from scheduler.models import TrickleDown, TrickleUp
from tests.conftest import NOON
from tests.database.passes import statements_of
from tests.rows import a_host, a_result, a_workunit

pytestmark = pytest.mark.django_db


def said(result, text="<fraction_done>0.5</fraction_done>", *, variety="progress", minute=0):
    return ReceivedTrickle(
        result_name=getattr(result, "name", result),
        said_at=NOON + timedelta(minutes=minute),
        variety=variety,
        text=text,
    )


@pytest.fixture
def running():
    return a_result(a_workunit(), "sent")


def keep(result, *given):
    return trickles.keep(given, host_id=result.host_id, now=NOON)


# Trickles up


def test_a_trickle_is_stored_with_its_result_host_and_app(running):
    assert keep(running, said(running)) == 1
    (kept,) = TrickleUp.objects.all()
    assert (kept.result_id, kept.host_id, kept.app_id) == (
        running.pk,
        running.host_id,
        running.app_id,
    )
    assert (kept.variety, kept.received_at, kept.handled_at) == ("progress", NOON, None)


def test_a_repeated_trickle_is_stored_once(running):
    assert keep(running, said(running), said(running)) == 1
    assert keep(running, said(running), said(running, minute=1)) == 1
    assert TrickleUp.objects.count() == 2


def test_trickle_for_the_result_of_another_host_is_not_stored(running, caplog):
    other = a_result(a_workunit(), "sent")
    assert keep(running, said(other), said("nobody_0")) == 0
    assert not TrickleUp.objects.exists()
    (line,) = caplog.records
    assert (line.message, line.unknown) == ("trickles_dropped", 2)


def test_a_trickle_of_a_finished_result_is_accepted(running):
    over = a_result(running.workunit, "success")
    assert trickles.keep([said(over)], host_id=over.host_id, now=NOON) == 1


def test_a_trickle_that_is_too_long_is_dropped_and_the_others_are_stored(running, caplog):
    long = "x" * (trickles.MAX_BYTES + 1)
    assert keep(running, said(running, long), said(running, minute=1)) == 1
    assert caplog.records[0].too_long == 1


def test_at_most_1000_trickles_of_one_request_are_stored(running, caplog):
    assert keep(running, *(said(running, minute=number) for number in range(1005))) == 1000
    assert caplog.records[0].too_many == 5


def test_characters_that_postgresql_cannot_store_are_replaced(running):
    assert keep(running, said(running, "a\0b\ud800", variety="v" * 300)) == 1
    (kept,) = TrickleUp.objects.all()
    assert kept.text == "ab?"
    assert len(kept.variety) == 254


def test_storing_any_number_of_trickles_uses_one_statement(running):
    many = [said(running, minute=number) for number in range(200)]
    assert statements_of(lambda: keep(running, *many)) == 1
    assert statements_of(lambda: keep(running)) == 0


# Trickles down


def test_pending_messages_are_sent_once_and_oldest_first(running):
    for text in ("one", "two"):
        trickles.send_down(running.name, text, now=NOON)
    sent = trickles.pending_down(running.host_id, now=NOON)
    assert [(one.result_name, one.text) for one in sent] == [
        (running.name, "one"),
        (running.name, "two"),
    ]
    assert trickles.pending_down(running.host_id, now=NOON) == []
    assert set(TrickleDown.objects.values_list("sent_at", flat=True)) == {NOON}


def test_two_messages_of_the_same_second_get_different_times(running):
    for text in ("one", "two"):
        trickles.send_down(running.name, text, now=NOON)
    first, second = trickles.pending_down(running.host_id, now=NOON)
    assert second.time == first.time + 1 == int(NOON.timestamp()) + 1


def test_a_message_is_not_sent_to_another_host(running):
    trickles.send_down(running.name, "hello", now=NOON)
    assert trickles.pending_down(a_host().pk, now=NOON) == []


def test_reading_pending_messages_uses_one_statement(running):
    for number in range(50):
        trickles.send_down(running.name, f"line {number}", now=NOON)
    assert statements_of(lambda: trickles.pending_down(running.host_id, now=NOON)) == 1


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty"),
        ("x" * 256, "Line 1 has more than 255 bytes"),
        ("ok\n" + "\N{GREEK SMALL LETTER PI}" * 128, "Line 2 has more than 255 bytes"),
        ("a\x07b", "control character"),
        ("<a></trickle_down>", "contains </trickle_down>"),
        ("line\n" * 20_000, "more than 65536 bytes"),
    ],
)
def test_a_message_that_clients_cannot_read_is_refused(running, text, fault):
    with pytest.raises(trickles.CannotSend, match=fault):
        trickles.send_down(running.name, text, now=NOON)
    assert not TrickleDown.objects.exists()


def test_a_line_of_255_bytes_is_accepted(running):
    assert trickles.send_down(running.name, "x" * 255 + "\nend", now=NOON).text.endswith("end")


def test_messages_are_sent_to_results_in_progress_only(running):
    over = a_result(running.workunit, "success")
    with pytest.raises(trickles.CannotSend, match="is over"):
        trickles.send_down(over.name, "hello", now=NOON)
    with pytest.raises(trickles.CannotSend, match="no result 'nobody_0'"):
        trickles.send_down("nobody_0", "hello", now=NOON)
