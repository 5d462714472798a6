"""Eve's changes of state, by role, and cancellations in each state."""

from __future__ import annotations

from contextlib import suppress

import pytest
from django.conf import settings
from django.utils import timezone

from daemons import assimilator, transitioner, validator
from scheduler.models import Workunit
from scheduler.pool import claims, host_tokens
from scheduler.pool.facts import PoolHost
from scheduler.queues import named_queues
from scheduler.work import control
from scheduler.work.explain import workunit_facts
from scheduler.work.rules.predecessor_states import EVE_CHANGES, EveState, eve_state
from tests.scripted_client import ScriptedClient, a_client
from tests.work import an_app, workunits

pytestmark = pytest.mark.django_db(transaction=True)

S = EveState
#: The effect of each action by state; states that are not listed stay as they are.
TABLE: dict[str, dict[EveState, EveState]] = {
    # The provider's actions.
    "release": {S.INACTIVE: S.AVAILABLE},
    "cancel": {
        S.INACTIVE: S.CANCELLED,
        S.AVAILABLE: S.CANCELLED,
        S.RUNNING: S.PENDING_CANCELLATION,
    },
    # The worker's actions.
    "claim": {S.AVAILABLE: S.RUNNING},
    "report_success": {S.RUNNING: S.TERMINATED, S.PENDING_CANCELLATION: S.TERMINATED},
    "report_abort": {S.PENDING_CANCELLATION: S.CANCELLED},
}


class Eve:
    """One workunit of a trusted queue, its provider and its worker."""

    def __init__(self) -> None:
        queue = named_queues.create(name="lab", trusted=True, now=timezone.now())
        app = an_app(validator="trivial")
        [self.workunit] = workunits(app, 1, queue=queue)
        self.client: ScriptedClient = a_client()
        self.client.ask()
        _token, text = host_tokens.enroll(self.client.hostid, now=timezone.now())
        recognized = host_tokens.recognize(text, now=timezone.now())
        assert recognized is not None
        self.host: PoolHost = recognized
        self.result = self.workunit.results.get()

    def settle(self) -> None:
        """Run the daemons until nothing changes."""
        for _ in range(3):
            for daemon in (transitioner, validator, assimilator):
                daemon.run_pass(now=timezone.now(), limit=100)

    @property
    def state(self) -> EveState:
        return eve_state(workunit_facts(self.workunit.pk), now=timezone.now())

    def do(self, action: str) -> None:
        getattr(self, action)()
        self.settle()

    def hold(self) -> None:
        control.hold(ids=[self.workunit.pk], now=timezone.now())

    def release(self) -> None:
        control.release(ids=[self.workunit.pk], now=timezone.now())

    def cancel(self) -> None:
        outcome = control.cancel(ids=[self.workunit.pk], now=timezone.now())
        assert outcome.total == 1  # it succeeds in every state

    def claim(self) -> None:

        with suppress(claims.ClaimRefused):
            claims.claim_one(self.host, self.result.pk, config=settings.PROJECT, now=timezone.now())

    def report_success(self) -> None:
        # An output is uploaded once.
        upload = None if self.state == S.TERMINATED else b"the answer"
        self.client.report(self.result.name, upload=upload)

    def report_abort(self) -> None:
        self.client.report(
            self.result.name, upload=None, state=6, exit_status=202, terminated_status=7
        )


#: The actions that lead to each state.
PATHS: dict[EveState, tuple[str, ...]] = {
    S.INACTIVE: ("hold",),
    S.AVAILABLE: (),
    S.RUNNING: ("claim",),
    S.PENDING_CANCELLATION: ("claim", "cancel"),
    S.CANCELLED: ("cancel",),
    S.TERMINATED: ("claim", "report_success"),
}


@pytest.mark.parametrize("action", TABLE)
@pytest.mark.parametrize("state", PATHS)
def test_actions_make_the_changes_of_eve_and_no_others(state: EveState, action: str) -> None:
    eve = Eve()
    for step in PATHS[state]:
        eve.do(step)
    assert eve.state == state
    if action == "report_abort" and state == S.RUNNING:
        return  # A client aborts on its own only what the project no longer needs.
    eve.do(action)
    after = TABLE[action].get(state, state)
    assert eve.state == after
    assert after == state or after in EVE_CHANGES[state]


def test_the_table_has_every_change_that_eve_allows() -> None:
    made = {(source, target) for moves in TABLE.values() for source, target in moves.items()}
    allowed = {(source, target) for source, targets in EVE_CHANGES.items() for target in targets}
    # A failed attempt that is repeated is not an action of a provider or a worker.
    assert made == allowed - {(S.RUNNING, S.AVAILABLE)}


@pytest.mark.parametrize("state", PATHS)
def test_only_a_hold_makes_an_available_workunit_inactive(state: EveState) -> None:
    """Row E-25: Eve has no action `hold`; here it changes no other state."""
    eve = Eve()
    for step in PATHS[state]:
        eve.do(step)
    eve.do("hold")
    assert eve.state == (S.INACTIVE if state == S.AVAILABLE else state)


def test_a_repeated_cancellation_changes_nothing() -> None:
    eve = Eve()
    eve.do("claim")
    eve.do("cancel")
    before = Workunit.objects.filter(pk=eve.workunit.pk).values().get()
    eve.do("cancel")
    assert Workunit.objects.filter(pk=eve.workunit.pk).values().get() == before


@pytest.mark.parametrize(("status", "stored"), [(7, 7), (143, 143), (None, 202)])
def test_exit_status_after_sigterm_is_stored(status: int | None, stored: int) -> None:
    eve = Eve()
    eve.do("claim")
    eve.do("cancel")
    reply = eve.client.ask_for_work(1.0)
    assert reply == []
    eve.client.report(
        eve.result.name, upload=None, state=6, exit_status=202, terminated_status=status
    )
    eve.result.refresh_from_db()
    assert eve.result.exit_status == stored


def test_cancellation_reaches_the_client_at_its_next_contact() -> None:
    eve = Eve()
    eve.do("claim")
    assert eve.client.ask_for_work(1.0) == [eve.result.name]
    eve.do("cancel")
    assert eve.client.ask().result_aborts == (eve.result.name,)


def test_a_late_success_is_recorded_and_continuations_stay_cancelled() -> None:
    eve = Eve()
    eve.do("claim")
    eve.do("cancel")
    eve.do("report_success")
    eve.result.refresh_from_db()
    eve.workunit.refresh_from_db()
    assert eve.result.outcome == 1
    assert eve.workunit.canonical_result_id is None
    assert eve.workunit.error_mask == 16
