"""Rules of trickles, files of hosts, generators and the archive."""

from __future__ import annotations

from tests.mutate.switching import Code, Sql, Switch, always

TRICKLES = "tests/database/messages/test_trickles.py"
HANDLER = "tests/database/daemons/test_trickle_handler.py"
FILES = "tests/database/files/test_file_requests.py"
FILES_JUDGED = "tests/pure/files/test_file_requests.py"
GENERATOR = "tests/database/daemons/test_work_generator.py"
PURGER = "tests/database/daemons/test_purger.py"

RULES = (
    Switch(
        "A trickle is kept once",
        Sql("messages/keep_trickles", "ON CONFLICT (result_id, variety, said_at) DO NOTHING", ""),
        (TRICKLES,),
    ),
    Switch(
        "A host speaks for its own results only",
        Sql("messages/keep_trickles", "AND r.host_id = %(host_id)s::bigint", ""),
        (TRICKLES,),
    ),
    Switch(
        "A trickle that is too long is dropped",
        Code("scheduler.messages.trickles:_fits", always(True)),
        (TRICKLES,),
    ),
    Switch(
        "A flood of trickles is cut",
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
        "Progress is noted of results in progress only",
        Sql(
            "note_progress",
            "r.server_state = {{ServerState.IN_PROGRESS}}",
            "TRUE",
            package="daemons.sql",
        ),
        (HANDLER,),
    ),
    Switch(
        "The last word of progress counts",
        Code("scheduler.messages.rules.trickle_texts:progress", lambda said, *_a, **_k: {}),
        (HANDLER,),
    ),
    Switch(
        "Samples are at most one a minute",
        Sql(
            "insert_usage_samples",
            "WHERE NOT EXISTS",
            "WHERE TRUE OR NOT EXISTS",
            package="daemons.sql",
        ),
        (HANDLER,),
    ),
    Switch(
        "A late result stays late",
        Sql(
            "extend_deadlines",
            "AND r.report_deadline > %(now)s::timestamptz",
            "",
            package="daemons.sql",
        ),
        (HANDLER,),
    ),
    Switch(
        "A handler that lost the lease of a trickle settles nothing",
        Sql(
            "settle_trickles",
            "AND handle_after = %(lease_until)s::timestamptz",
            "",
            package="daemons.sql",
        ),
        (HANDLER,),
    ),
    Switch(
        "Parked trickles are left out",
        Sql("claim_trickles", "f.parked_at IS NOT NULL", "FALSE", package="daemons.sql"),
        (HANDLER,),
    ),
    Switch(
        "A file move is done when the host shows it",
        Code("scheduler.files.rules.request_verdicts:is_done", always(False)),
        (FILES_JUDGED,),
    ),
    Switch(
        "A file move that cannot be is given up",
        Code("scheduler.files.rules.request_verdicts:is_hopeless", always(False)),
        (FILES_JUDGED,),
    ),
    Switch(
        "A file that is being put stays",
        Sql(
            "files/mark_unused_files",
            "AND NOT EXISTS (SELECT FROM file_request AS request WHERE request.file_id = file.id)",
            "",
        ),
        (FILES,),
    ),
    Switch(
        "Coming workunits count for the cushion",
        Sql(
            "read_hungry_apps",
            "AND NOT EXISTS (SELECT FROM result AS r WHERE r.workunit_id = w.id)",
            "AND FALSE",
            package="daemons.sql",
        ),
        (GENERATOR,),
    ),
    Switch(
        "A generator's state moves with its work",
        Sql(
            "swap_generator_state",
            "AND generator_state = %(before)s::jsonb",
            "",
            package="daemons.sql",
        ),
        (GENERATOR,),
    ),
    Switch(
        "An exhausted generator is not asked again",
        Sql(
            "read_hungry_apps",
            "IS DISTINCT FROM md5(a.generator || ' ' || a.generator_options::text)",
            "IS DISTINCT FROM 'never'",
            package="daemons.sql",
        ),
        (GENERATOR,),
    ),
    Switch(
        "A generator may ask for patience",
        Sql(
            "read_hungry_apps",
            "coalesce((a.generator_state ->> 'ask_again_at')::timestamptz, '-infinity')",
            "'-infinity'::timestamptz",
            package="daemons.sql",
        ),
        (GENERATOR,),
    ),
    Switch(
        "Plans are forgotten before rows are dropped",
        Sql("forget_plans", "DISCARD PLANS", "SELECT 1", package="daemons.sql"),
        (PURGER,),
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
        "Input files are remembered in the archive",
        Sql(
            "drop_input_references",
            "SET past_inputs = listed.files",
            "SET past_inputs = w.past_inputs",
            package="daemons.sql",
        ),
        (PURGER,),
    ),
)
