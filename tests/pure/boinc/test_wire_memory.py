"""The memory needed by a large request, and the cache of encoded texts."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

from scheduler.boinc.wire import messages as m
from scheduler.boinc.wire.replies import encode_reply
from scheduler.boinc.wire.requests import decode_request

LENGTH = 8_000_000


def a_large_request():
    log = b"1790000000.0 power_on\n" * (LENGTH // 22)
    return bytearray(
        b"<scheduler_request>\n<time_stats_log>\n%b</time_stats_log>\n</scheduler_request>\n" % log
    )


def test_decoding_a_large_request_takes_less_than_2_75_times_its_size():
    tracemalloc.start()
    try:
        body = [a_large_request()]
        tracemalloc.reset_peak()
        request = decode_request(body.pop())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(request.time_stats_log) == 1 << 20
    assert peak < 2.75 * LENGTH


def test_cached_text_is_reused_only_for_equal_messages():
    files = [m.DownloadFile(name=f"in_{n}", urls=("http://p/d",), nbytes=n) for n in range(3)]
    once = [encode_reply(m.SchedulerReply(files=(file,))) for file in files]
    again = [encode_reply(m.SchedulerReply(files=(replace(file),))) for file in reversed(files)]
    assert again == once[::-1]
    assert len(set(once)) == 3
