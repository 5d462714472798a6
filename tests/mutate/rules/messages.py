"""Rules of trickles, file requests to hosts, work generators and the archive."""

from __future__ import annotations

from tests.mutate.switching import Code, Sql, Switch, always

TRICKLES = "tests/database/messages/test_trickles.py"
HANDLER = "tests/database/daemons/test_trickle_handler.py"
FEEDS = "tests/faces/boinc/test_feeds.py"
NEWS_PAGES = "tests/faces/admin/test_news_pages.py"
FILES = "tests/database/files/test_file_requests.py"
FILES_JUDGED = "tests/pure/files/test_file_requests.py"
GENERATOR = "tests/database/daemons/test_work_generator.py"
PURGER = "tests/database/daemons/test_purger.py"

RULES = (
    Switch(
        "Only the previewed state of news is changed",
        Code("scheduler.messages.news:fingerprint", always("x")),
        (f"{NEWS_PAGES}::test_confirmation_of_an_older_state_shows_a_new_preview",),
    ),
    Switch(
        "A repeated trickle is stored once",
        Sql("messages/keep_trickles", "ON CONFLICT (result_id, variety, said_at) DO NOTHING", ""),
        (TRICKLES,),
    ),
    Switch(
        "A host can send trickles of its own results only",
        Sql("messages/keep_trickles", "AND r.host_id = %(host_id)s::bigint", ""),
        (TRICKLES,),
    ),
    Switch(
        "A trickle that is too long is dropped",
        Code("scheduler.messages.trickles:_fits", always(True)),
        (TRICKLES,),
    ),
    Switch(
        "The number of trickles in a request is limited",
        Code("scheduler.messages.trickles:MAX_PER_RPC", 10**6),
        (TRICKLES,),
    ),
    Switch(
        "Texts that a client cannot read are not sent as trickles",
        Code("scheduler.messages.trickles:fault_of", always(None)),
        (TRICKLES,),
    ),
    Switch(
        "A trickle down is sent once",
        Sql("messages/take_trickles_down", "AND waiting.sent_at IS NULL", ""),
        (TRICKLES,),
    ),
    Switch(
        "Progress is stored for results in progress only",
        Sql(
            "note_progress",
            "r.server_state = {{ServerState.IN_PROGRESS}}",
            "TRUE",
            package="daemons.sql",
        ),
        (HANDLER,),
    ),
    Switch(
        "The latest progress in trickles is stored",
        Code("scheduler.messages.rules.trickle_texts:progress", lambda said, *_a, **_k: {}),
        (HANDLER,),
    ),
    Switch(
        "At most one usage sample per minute is stored",
        Sql(
            "insert_usage_samples",
            "WHERE NOT EXISTS",
            "WHERE TRUE OR NOT EXISTS",
            package="daemons.sql",
        ),
        (HANDLER,),
    ),
    Switch(
        "A trickle does not extend a deadline that has passed",
        Sql(
            "extend_deadlines",
            "AND r.report_deadline > %(now)s::timestamptz",
            "",
            package="daemons.sql",
        ),
        (f"{HANDLER}::test_deadline_that_has_passed_is_not_extended",),
    ),
    Switch(
        "A handler that lost the lease of a trickle settles nothing",
        Sql(
            "settle_trickles",
            "AND handle_after = %(lease_until)s::timestamptz",
            "",
            package="daemons.sql",
        ),
        (f"{HANDLER}::test_handler_with_an_expired_lease_settles_nothing",),
    ),
    Switch(
        "The trickle handler skips parked trickles",
        Sql("claim_trickles", "f.parked_at IS NOT NULL", "FALSE", package="daemons.sql"),
        (HANDLER,),
    ),
    Switch(
        "A file request is done when the host lists the file accordingly",
        Code("scheduler.files.rules.request_verdicts:is_done", always(False)),
        (FILES_JUDGED,),
    ),
    Switch(
        "A file request that cannot succeed is given up",
        Code("scheduler.files.rules.request_verdicts:is_hopeless", always(False)),
        (FILES_JUDGED,),
    ),
    Switch(
        "A file that is to be sent to a host is not deleted",
        Sql(
            "files/mark_unused_files",
            "AND NOT EXISTS (SELECT FROM file_request AS request WHERE request.file_id = file.id)",
            "",
        ),
        (FILES,),
    ),
    Switch(
        "Workunits without results yet count as available work",
        Sql(
            "read_hungry_apps",
            "AND NOT EXISTS (SELECT FROM result AS r WHERE r.workunit_id = w.id)",
            "AND FALSE",
            package="daemons.sql",
        ),
        (f"{GENERATOR}::test_workunits_without_results_yet_are_counted",),
    ),
    Switch(
        "The state of a generator changes in the same transaction as its work",
        Sql(
            "swap_generator_state",
            "AND generator_state = %(before)s::jsonb",
            "",
            package="daemons.sql",
        ),
        (GENERATOR,),
    ),
    Switch(
        "An exhausted generator is not called again",
        Sql(
            "read_hungry_apps",
            "IS DISTINCT FROM md5(a.generator || ' ' || a.generator_options::text)",
            "IS DISTINCT FROM 'never'",
            package="daemons.sql",
        ),
        (
            f"{GENERATOR}::test_an_exhausted_generator_is_logged_once_and_runs_again_when_its_options_change",
        ),
    ),
    Switch(
        "A generator can delay its next call",
        Sql(
            "read_hungry_apps",
            "coalesce((a.generator_state ->> 'ask_again_at')::timestamptz, '-infinity')",
            "'-infinity'::timestamptz",
            package="daemons.sql",
        ),
        (GENERATOR,),
    ),
    Switch(
        "The purger keeps a workunit that was woken while it was archived",
        Sql(
            "read_droppable",
            "AND NOT EXISTS (SELECT FROM workunit_wakeup AS q WHERE q.workunit_id = w.id)",
            "",
            "daemons.sql",
        ),
        (f"{PURGER}::test_workunit_woken_during_archiving_is_not_purged",),
    ),
    Switch(
        "The purger discards cached plans before it deletes rows",
        Sql("forget_plans", "DISCARD PLANS", "SELECT 1", package="daemons.sql"),
        (f"{PURGER}::test_plans_cached_on_small_tables_do_not_cause_full_scans_of_grown_tables",),
    ),
    Switch(
        "Rows that belong to a workunit are purged with it",
        Sql(
            "drop_workunits",
            "DELETE FROM refusal WHERE workunit_id = any(%(ids)s::bigint[])",
            "DELETE FROM refusal WHERE FALSE",
            package="daemons.sql",
        ),
        (PURGER,),
    ),
    Switch(
        "The archive has the input files of a workunit",
        Sql(
            "drop_input_references",
            "SET past_inputs = listed.files",
            "SET past_inputs = w.past_inputs",
            package="daemons.sql",
        ),
        (f"{PURGER}::test_deleted_input_files_are_listed_in_the_archive",),
    ),
)
