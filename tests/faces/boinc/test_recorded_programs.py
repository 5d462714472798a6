"""Recorded requests of BOINC's submission tools get byte-identical replies."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from django.db import connection
from django.utils import timezone

from scheduler.models import Batch, Workunit
from tests.conftest import NOON
from tests.faces.submitters import GOLDEN, KEY, a_submitter, inputs, send
from tests.rows import a_host, a_result, an_app, hours, settled, update

pytestmark = pytest.mark.django_db

RECORDED = GOLDEN.parent / "programs"
INPUT = """<input_template>
    <file_info>
    </file_info>
    <workunit>
        <file_ref>
            <open_name>in</open_name>
        </file_ref>
        <rsc_fpops_est>1e9</rsc_fpops_est>
        <delay_bound>6000</delay_bound>
    </workunit>
</input_template>
"""
OUTPUT = """<output_template>
    <file_info>
        <name><OUTFILE_0/></name>
        <generated_locally/>
        <upload_when_present/>
        <max_nbytes>1000000</max_nbytes>
        <url><UPLOAD_URL/></url>
    </file_info>
    <result>
        <file_ref>
            <file_name><OUTFILE_0/></file_name>
            <open_name>out</open_name>
        </file_ref>
    </result>
</output_template>
"""
#: The first ids of batches and workunits in each half of a recording; requests contain them.
FIRST_IDS = {
    "boinc_submit": ((1, 1), (9, 10)),
    "submit_api": ((4, 4), (10, 13)),
    "submit_inc": ((6, 6), (11, 15)),
    "boinc_gahp": ((7, 8), (12, 16)),
}


def count_from(batch: int, workunit: int) -> None:
    for table, first in (("batch", batch), ("workunit", workunit), ("result", workunit)):
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER SEQUENCE {table}_id_seq RESTART WITH {first}")


def compute_all() -> None:
    """Finish every workunit as in the recorded run."""
    for workunit in Workunit.objects.order_by("id"):
        [(_, content)] = inputs(workunit)
        answer = a_result(
            workunit,
            "valid",
            host=a_host(),
            output=content.upper(),
            uploaded=True,
            stderr="converting <all> & more\n",
            cpu_time=0.25,
            elapsed_time=1.5,
        )
        settled(workunit, answer, assimilate_state=2, canonical_credit=3)
    for batch in Batch.objects.all():
        update(batch, state=Batch.State.COMPLETE, completed_at=NOON + timedelta(minutes=1))


def reply_of(request: Path) -> bytes:
    code, headers, reply = send(request.read_bytes())
    assert code == "200 OK", (request.name, reply)
    if headers["Content-Type"] == "text/xml":
        ET.fromstring(reply)
    return reply


@pytest.mark.parametrize("program", FIRST_IDS)
def test_recorded_requests_of_a_program_get_the_golden_replies(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = NOON
    monkeypatch.setattr(timezone, "now", lambda: clock)
    a_submitter("ada", KEY)
    an_app("upper", input_template=INPUT, output_template=OUTPUT)
    count_from(*FIRST_IDS[program][0])
    requests = sorted((RECORDED / program).glob("*.req"))
    assert requests
    is_computed = False
    for request in requests:
        if request.name.startswith("2") and not is_computed:
            compute_all()
            count_from(*FIRST_IDS[program][1])
            is_computed, clock = True, hours(1)
        reply = reply_of(request)
        expected = request.with_suffix(".resp")
        if os.environ.get("MANYHANDS_REWRITE_GOLDEN") == "1":
            expected.write_bytes(reply)
        assert reply == expected.read_bytes(), request.name
