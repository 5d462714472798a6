"""Each trickle of a running result reaches the handler of its variety once."""

from __future__ import annotations

from datetime import timedelta

import pytest

from daemons import trickle_handler
from scheduler.messages import trickles
from scheduler.messages.facts import ReceivedTrickle
from scheduler.models import ScienceFailure, TrickleDown, TrickleUp, UsageSample
from tests import rows
from tests.conftest import NOON
from tests.database.passes import a_pass, statements_of
from tests.rows import a_result, a_workunit, an_app, hours, update

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("targets_allowed")]


def handler(name):
    return {"news": f"python:tests.trickle_science.{name}"}


def running(app=None):
    return a_result(a_workunit(app, transition_at=None), "sent")


def say(result, text, *, variety="progress", minute=0):
    said = ReceivedTrickle(
        result_name=result.name,
        said_at=NOON - timedelta(hours=1) + timedelta(minutes=minute),
        variety=variety,
        text=text,
    )
    assert trickles.keep([said], host_id=result.host_id, now=NOON) == 1
    return TrickleUp.objects.latest("id")


def done(fraction):
    return f"<variety>progress</variety><fraction_done>{fraction}</fraction_done>"


def is_handled(trickle):
    trickle.refresh_from_db()
    return trickle.handled_at is not None


# Built-in handlers


def test_a_progress_trickle_updates_fraction_done_without_waking_the_workunit():
    result = running()
    trickle = say(result, done(0.25))
    assert a_pass(trickle_handler).sentence() == "1 trickle: 1 handled"
    result.refresh_from_db()
    assert result.fraction_done == 0.25
    assert rows.due_at(result.workunit.__class__.objects.get(pk=result.workunit_id)) is None
    assert is_handled(trickle)
    assert a_pass(trickle_handler).seen == 0


def test_latest_progress_counts_in_any_order_of_arrival():
    result = running()
    say(result, done(0.5), minute=9)
    say(result, done(0.25), minute=3)
    a_pass(trickle_handler)
    result.refresh_from_db()
    assert result.fraction_done == 0.5


def test_progress_of_a_finished_result_is_ignored():
    result = a_result(a_workunit(), "success")
    say(result, done(0.25))
    a_pass(trickle_handler)
    result.refresh_from_db()
    assert result.fraction_done == 0


def test_usage_samples_are_stored_at_most_once_a_minute():
    result = running()
    for minute in (0, 0.5, 1, 2):
        say(result, f"<cpu_time>{minute}</cpu_time>", variety="usage", minute=minute)
    a_pass(trickle_handler)
    say(result, "<cpu_time>9</cpu_time>", variety="cpu_time", minute=2.5)
    a_pass(trickle_handler)
    say(result, "<memory_bytes>7</memory_bytes>", variety="usage", minute=3)
    a_pass(trickle_handler)
    samples = UsageSample.objects.order_by("at")
    assert [(one.cpu_time, one.memory_bytes) for one in samples] == [
        (0, None),
        (1, None),
        (2, None),
        (None, 7),
    ]


def test_sample_with_a_future_time_gets_the_current_time():
    result = running()
    say(result, done(0.1), minute=60 * 24 * 365)
    a_pass(trickle_handler)
    assert UsageSample.objects.get().at == NOON


def test_samples_before_the_result_was_sent_get_the_time_of_their_arrival():
    result = running()
    for days in range(1, 5):
        say(result, f"<cpu_time>{days}</cpu_time>", variety="usage", minute=-60 * 24 * days)
    a_pass(trickle_handler)
    assert [sample.at for sample in UsageSample.objects.all()] == [NOON]


def test_a_trickle_without_valid_data_is_handled_and_stores_no_sample():
    trickle = say(running(), "<fraction_done>soon</fraction_done>")
    a_pass(trickle_handler)
    assert is_handled(trickle)
    assert not UsageSample.objects.exists()


def test_an_unknown_variety_is_logged_once_and_marked_as_handled(caplog):
    result = running()
    for minute in range(3):
        trickle = say(result, "x", variety="gossip", minute=minute)
        a_pass(trickle_handler)
        assert is_handled(trickle)
    named = [r for r in caplog.records if r.message == "unknown_trickle_variety"]
    assert [(line.app, line.variety) for line in named] == [(result.app.name, "gossip")]


# Handlers of an app


def test_a_handler_can_extend_the_deadline_and_send_a_reply():
    result = running(an_app(trickle_handlers=handler("extend")))
    deadline, credit_deadline = result.report_deadline, result.credit_deadline
    say(result, "<a>1</a>", variety="news")
    a_pass(trickle_handler)
    result.refresh_from_db()
    assert result.report_deadline == deadline + timedelta(hours=6)
    assert result.credit_deadline == credit_deadline + timedelta(hours=6)
    assert TrickleDown.objects.get().text == f"<more>{result.workunit.name}</more>"
    a_pass(trickle_handler)
    result.refresh_from_db()
    assert result.report_deadline == deadline + timedelta(hours=6)


def test_deadline_that_has_passed_is_not_extended():
    result = running(an_app(trickle_handlers=handler("extend")))
    update(result, report_deadline=NOON)
    say(result, "<a>1</a>", variety="news")
    a_pass(trickle_handler)
    result.refresh_from_db()
    assert result.report_deadline == NOON


def test_a_handler_can_set_the_progress():
    result = running(an_app(trickle_handlers=handler("halfway")))
    say(result, "x", variety="news")
    a_pass(trickle_handler)
    result.refresh_from_db()
    assert result.fraction_done == 0.5


def test_a_handler_of_the_app_overrides_the_built_in_handler():
    app = an_app(trickle_handlers={"progress": "python:tests.trickle_science.nothing"})
    result = running(app)
    say(result, done(0.25))
    a_pass(trickle_handler)
    result.refresh_from_db()
    assert result.fraction_done == 0


@pytest.mark.parametrize(
    ("handlers", "error"),
    [
        (handler("broken"), "cannot read x"),
        (handler("nonsense"), "Hint: return None or a dict"),
        ({"news": "somewhere"}, "There is no trickle handler 'somewhere'"),
        (handler("missing"), "missing"),
    ],
)
def test_a_failed_trickle_is_retried_later_and_then_parked(handlers, error):
    app = an_app(trickle_handlers=handlers, max_science_failures=2)
    trickle = say(running(app), "x", variety="news")
    assert a_pass(trickle_handler).sentence() == "1 trickle: 1 put off"
    assert error in ScienceFailure.objects.get().error
    assert a_pass(trickle_handler).seen == 0
    assert a_pass(trickle_handler, now=hours(1)).seen == 1
    assert ScienceFailure.objects.get().parked_at == hours(1)
    assert a_pass(trickle_handler, now=hours(99)).seen == 0
    assert not is_handled(trickle)


def test_a_transient_handler_failure_does_not_park_the_trickle():
    app = an_app(trickle_handlers=handler("away"), max_science_failures=1)
    trickle = say(running(app), "x", variety="news")
    a_pass(trickle_handler)
    assert ScienceFailure.objects.get().parked_at is None
    update(app, trickle_handlers=handler("nothing"))
    a_pass(trickle_handler, now=hours(1))
    assert is_handled(trickle)
    assert not ScienceFailure.objects.exists()


def test_a_failed_trickle_does_not_stop_other_trickles():
    app = an_app(trickle_handlers=handler("broken"))
    result = running(app)
    bad = say(result, "x", variety="news")
    good = say(result, done(0.5), minute=1)
    a_pass(trickle_handler)
    assert (is_handled(bad), is_handled(good)) == (False, True)


def test_handler_with_an_expired_lease_settles_nothing(monkeypatch):
    result = running(an_app(trickle_handlers=handler("extend")))
    deadline = result.report_deadline
    trickle = say(result, "x", variety="news")

    def slow(*args, **options):
        update(trickle, handle_after=NOON + timedelta(hours=9))
        return {"extend_deadline": 60}

    monkeypatch.setattr(trickle_handler.worker, "call", slow)
    a_pass(trickle_handler)
    result.refresh_from_db()
    assert result.report_deadline == deadline
    assert not is_handled(trickle)


def test_a_pass_uses_the_same_statements_for_any_number_of_trickles():
    result = running()
    say(result, done(0.1))
    one = statements_of(lambda: a_pass(trickle_handler))
    for minute in range(1, 60):
        say(running(result.app), done(0.2), minute=minute)
    assert statements_of(lambda: a_pass(trickle_handler)) == one


def test_shards_divide_the_trickles_by_result():
    from daemons.tally import Shard

    for _ in range(4):
        say(running(), done(0.2))
    seen = [a_pass(trickle_handler, shard=Shard(index, 2)).seen for index in range(2)]
    assert seen == [2, 2]
