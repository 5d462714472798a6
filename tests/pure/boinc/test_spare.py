"""Reports beyond the limit of a request are removed before decoding, and counted."""

from __future__ import annotations

from mmap import ACCESS_READ, mmap

import pytest

from scheduler.boinc.wire import messages, requests
from scheduler.boinc.wire.spare import take_out


def a_request(number, stderr="done"):
    reported = tuple(
        messages.ReportedResult(name=f"wu_{index}", state=5, stderr_out=stderr)
        for index in range(number)
    )
    held = (messages.OtherResult(name="held"),)
    return requests.encode_request(
        messages.SchedulerRequest(authenticator="key", results=reported, other_results=held)
    )


@pytest.mark.parametrize(
    "stderr", ["", "done", "<result><name>evil</name></result>", "</result>\n</stderr_out>"]
)
def test_results_above_the_limit_are_counted_but_not_decoded(stderr):
    read = requests.decode_request(a_request(10, stderr), max_results=3)
    assert [result.name for result in read.results] == ["wu_0", "wu_1", "wu_2"]
    assert read.further_results == 7
    assert [other.name for other in read.other_results] == ["held"]
    whole = requests.decode_request(a_request(10, stderr))
    assert read.results == whole.results[:3]


@pytest.mark.parametrize("most", [10, 11, 1000])
def test_request_within_the_limit_is_not_changed(most):
    body = a_request(10)
    assert take_out(body, most) == (body, 0)


@pytest.mark.parametrize(("reports", "most"), [(10, 20), (10, 3), (60_000, 2000)])
def test_mapped_file_is_decoded_like_the_same_bytes(tmp_path, reports, most):
    """60 000 reports are more than one stretch whose pages are released."""
    content = a_request(reports, "</result>")
    path = tmp_path / "request"
    path.write_bytes(content)
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as mapped:
        assert requests.decode_request(mapped, max_results=most) == requests.decode_request(
            content, max_results=most
        )


def test_truncated_request_is_refused():
    body = a_request(10)[:900]
    with pytest.raises(requests.xml.BadXml):
        requests.decode_request(body, max_results=2)


def test_request_with_100_000_reports_is_decoded_up_to_the_limit():
    read = requests.decode_request(a_request(100_000), max_results=2000)
    assert len(read.results) == 2000
    assert read.further_results == 98_000
