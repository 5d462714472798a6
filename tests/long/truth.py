"""Checks of a project at the end of a long test."""

from __future__ import annotations

from collections import Counter

#: Pairs of a workunit that was sent, and a parent that had no answer before that, by the order of
#: their ledger entries.  Their times do not tell the order: that of a reply is when its request came.
SENT_EARLY = """
SELECT child.name, parent.name AS parent
FROM dependency AS d
INNER JOIN workunit AS child ON d.child_id = child.id
INNER JOIN workunit AS parent ON d.parent_id = parent.id
INNER JOIN result AS r ON r.workunit_id = child.id AND r.sent_at IS NOT NULL
LEFT JOIN ledger_entry AS sent ON sent.result_id = r.id AND sent.axis = 1 AND sent.target = 40
LEFT JOIN ledger_entry AS answer
    ON answer.workunit_id = parent.id AND answer.axis = 4 AND answer.target IN (2, 4)
WHERE sent.id IS NULL OR answer.id IS NULL OR answer.id > sent.id
"""
SPENT = "SELECT coalesce(sum(total_credit), 0) AS total FROM {}"


def check_the_end(stand):
    """Check outcomes, assimilations, files, credit and invariants of a finished project.

    Returns the number of repeated calls of the assimilator without transactions.
    """
    rows = stand.sql(
        "SELECT w.id, w.name, app.name AS app, w.error_mask, w.canonical_result_id"
        " FROM workunit AS w INNER JOIN app ON w.app_id = app.id"
    )
    assert sorted(row["name"] for row in rows) == sorted(stand.names), "workunits were lost"
    failed = [row for row in rows if row["error_mask"] or row["canonical_result_id"] is None]
    assert not failed, f"{len(failed)} workunits failed, such as {failed[0]}"
    # Groups have answers, but are not assimilated.
    repeats = _check_sinks(stand, [row for row in rows if row["canonical_result_id"]])
    assert stand.sql(SENT_EARLY) == [], "results were sent before the answers of parents"
    _check_lists(stand)
    _check_files(stand, rows)
    _check_credit(stand)
    stand.fsck()  # fails if an invariant is violated
    return repeats


def _check_sinks(stand, rows):
    keys = {app: set() for app in ("counted", "copied", "appended")}
    for row in rows:
        keys[row["app"]].add(f"{stand.environment['PROJECT_NAME']}/{row['id']}")
    counted = Counter(row["key"] for row in stand.sql("SELECT key FROM sink"))
    assert set(counted) == keys["counted"], "the sink misses some, or has others"
    twice = {key: times for key, times in counted.items() if times != 1}
    assert not twice, f"assimilated more than once: {twice}"
    kept = stand.folder / "var" / "results" / "copied"
    names = sorted(path.name for path in kept.iterdir()) if kept.exists() else []
    assert names == sorted(row["name"] for row in rows if row["app"] == "copied")
    empty = [path for path in kept.rglob("*") if path.is_file() and not path.stat().st_size]
    assert not empty, f"copied without content: {empty[:3]}"
    sink = stand.folder / "sink" / "sink.txt"
    appended = Counter(sink.read_text().split("\n")[:-1] if sink.exists() else [])
    assert set(appended) == keys["appended"], "the file misses some, or has others"
    return sum(times - 1 for times in appended.values())


def _check_lists(stand):
    """Check that all task lists were claimed and closed, and that all slots are free."""
    lists = stand.sql("SELECT id, state, claims FROM bundle WHERE state <> 3 OR claims = 0")
    assert lists == [], "task lists are not closed"
    in_use = stand.sql("SELECT number, result_id FROM queue_slot WHERE result_id IS NOT NULL")
    assert in_use == [], "slots are in use without results in progress"
    if stand.count("SELECT count(*) FROM bundle"):
        assert stand.count("SELECT count(*) FROM queue_slot"), "the queue has lost its slots"


def _check_files(stand, rows):
    var = stand.folder / "var"
    left = [path for path in (var / "upload").rglob("*") if path.is_file()]
    assert not left, f"{len(left)} outputs are left, such as {left[0]}"
    inputs = [path for path in (var / "download").rglob("*") if path.is_file()]
    programs = stand.count("SELECT count(DISTINCT file_id) FROM app_version_file")
    assert len(inputs) == programs, f"{len(inputs)} downloads for {programs} programs: {inputs}"


def _check_credit(stand):
    [entered] = stand.sql("SELECT coalesce(sum(amount), 0) AS total FROM credit_entry")
    for table in ("host", "account"):
        [held] = stand.sql(SPENT.format(table))
        assert held["total"] == entered["total"] > 0, table
    assert stand.count("SELECT count(*) FROM result WHERE validate_state = 1") == stand.count(
        "SELECT count(DISTINCT result_id) FROM credit_entry"
    )
