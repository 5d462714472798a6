"""Staff retry failed workunits, by batch or one by one."""

from __future__ import annotations

import pytest
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from scheduler.admin import workunits
from scheduler.lifecycle import ErrorMask
from scheduler.models import AuditEntry, Batch, Workunit
from tests.faces.admin.test_credit_grants import staff_with
from tests.rows import a_workunit, update
from tests.scientists import a_batch, done_in, failed_in

pytestmark = pytest.mark.django_db


CANCELLED = int(ErrorMask.CANCELLED)


def failed_alone(error_mask: int) -> Workunit:
    workunit = a_workunit()
    update(workunit, error_mask=error_mask)
    return workunit


def retries() -> set[str]:
    return set(Workunit.objects.filter(name__endswith=".2").values_list("name", flat=True))


def act(client: Client, *rows: Model, **more: str) -> str:
    address = reverse(f"admin:scheduler_{rows[0]._meta.model_name}_changelist")
    chosen = {"action": "retry", "_selected_action": [row.pk for row in rows]}
    return client.post(address, chosen | more, follow=True).content.decode()


def test_failed_workunits_of_a_batch_are_retried_after_a_preview():
    operator, client = staff_with("operator")
    batch = a_batch()
    failed, stopped = failed_in(batch, error_mask=2), failed_in(batch)
    done_in(batch)
    text = act(client, batch)
    for words, count in (("failed, not retried before", 2), ("of these cancelled", 1)):
        assert f"<dt>{words}</dt><dd>{count}</dd>" in text
    assert "<dt>to be retried</dt><dd>1</dd>" in text
    assert f"<li>{failed.name}</li>" in text
    assert f"<li>{stopped.name}</li>" not in text
    assert Workunit.objects.count() == 3

    text = act(client, batch, confirmed="yes")
    assert "Submitted again: 1; cancelled: 1." in text
    assert Workunit.objects.filter(name=f"{failed.name}.2").exists()
    entry = AuditEntry.objects.filter(event="action_taken").latest("id")
    assert (entry.account_id, entry.details["action"]) == (operator.pk, "retry")


def test_selected_workunits_are_retried_also_if_they_are_cancelled():
    _, client = staff_with("operator")
    batches = [a_batch(name=name) for name in ("one", "two")]
    failed = failed_in(batches[0], error_mask=2)
    stopped = failed_in(batches[1], error_mask=CANCELLED)
    done = done_in(batches[0])
    chosen = (failed, stopped, done)
    assert "<dt>to be retried</dt><dd>2</dd>" in act(client, *chosen)
    act(client, *chosen, confirmed="yes")
    assert "refused" not in AuditEntry.objects.latest("id").details
    assert retries() == {f"{failed.name}.2", f"{stopped.name}.2"}
    text = act(client, failed, done, confirmed="yes")
    assert "None of the workunits can be retried" in text
    assert AuditEntry.objects.latest("id").details["refused"] is True


def test_workunits_without_a_batch_are_retried_also_together_with_others():
    operator, client = staff_with("operator")
    batch = a_batch(state=Batch.State.COMPLETE)
    failed = failed_in(batch, error_mask=2)
    alone, stopped, gone = (failed_alone(error_mask=mask) for mask in (2, CANCELLED, 2))
    update(gone, past_inputs=[])
    chosen = (alone, stopped, gone, failed)
    text = act(client, *chosen)
    for words, count in (
        ("failed, not retried before", 4),
        ("of these cancelled", 1),
        ("of these with deleted input files", 1),
        ("to be retried", 3),
    ):
        assert f"<dt>{words}</dt><dd>{count}</dd>" in text
    assert f"<li>{alone.name}</li>" in text
    assert f"<li>{gone.name}</li>" not in text
    assert retries() == set()

    text = act(client, *chosen, confirmed="yes")
    assert "Submitted again: 1." in text
    assert "Submitted again: 2; with deleted input files: 1." in text
    assert retries() == {f"{each.name}.2" for each in (failed, alone, stopped)}
    assert Workunit.objects.get(name=f"{alone.name}.2").batch is None
    batch.refresh_from_db()
    assert batch.state == Batch.State.IN_PROGRESS
    entry = AuditEntry.objects.filter(event="action_taken").get()
    assert (entry.account_id, entry.details["action"]) == (operator.pk, "retry")
    assert entry.details["ids"] == sorted(each.pk for each in chosen)


def test_refusal_of_a_batch_does_not_stop_the_retry_of_workunits_without_one():
    _, client = staff_with("operator")
    failed = failed_in(a_batch(state=Batch.State.ABORTED), error_mask=2)
    alone = failed_alone(error_mask=2)
    text = act(client, failed, alone, confirmed="yes")
    assert "aborted and takes no more work" in text
    assert "Submitted again: 1." in text
    assert retries() == {f"{alone.name}.2"}


def test_more_workunits_than_one_action_changes_are_refused_before_the_preview(monkeypatch):
    monkeypatch.setattr(workunits, "MAX_ACTION_ROWS", 1)
    _, client = staff_with("operator")
    batch = a_batch()
    chosen = [failed_in(batch, error_mask=2) for _ in range(2)]
    assert "More than 1 workunits are selected" in act(client, *chosen)


def test_retry_in_an_aborted_batch_is_refused():
    _, client = staff_with("operator")
    batch = a_batch(state=Batch.State.ABORTED)
    failed = failed_in(batch, error_mask=2)
    assert "aborted and takes no more work" in act(client, batch, confirmed="yes")
    assert "aborted and takes no more work" in act(client, failed, confirmed="yes")
    assert Workunit.objects.count() == 1
    assert AuditEntry.objects.latest("id").details["refused"] is True
