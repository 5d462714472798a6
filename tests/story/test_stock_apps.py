"""An unmodified BOINC client and one of ours compute scripts and commands."""

from __future__ import annotations

import time

import pytest

from scheduler.lifecycle import Outcome
from tests.story.test_apps import OUT, RUN_SH, answer, archive, one_at_a_time

# The same xdist group, so that both tests use one project.
pytestmark = [pytest.mark.stock_client, pytest.mark.xdist_group("stock apps")]

#: Time limit of a test, in seconds.
PATIENCE = 150
QUORUM = {"min_quorum": 2}
#: Limits queries to the apps of one test, because the tests share a project.
MINE = ["sum", "echo", "sh"]
OF_APPS = " WHERE app_id IN (SELECT id FROM app WHERE name = ANY(%s))"
#: Arguments that need quoting: blanks, quotes, markup, shell variables.
WORDS = """ 'two  words' "it's" '' '<a&b>' '$HOME' '%s' "äö" """


def test_stock_client_and_ours_return_equal_outputs_of_scripts_and_commands(
    shared_project, stock_client, our_client, tmp_path
):
    project = shared_project
    program = archive(
        tmp_path / "sum.tar.bz2", {"run.sh": RUN_SH, "lib/say": "say() { echo said $1; }\n"}
    )
    echo = archive(tmp_path / "echo.tar.bz2", {"run.sh": '#!/bin/sh\nprintf "<%s>\\n" "$@"\n'})
    made = ["--create-app", "--kind"]
    project.manage("publish_app", "sum", "1.00", "-", program, *made, "script")
    project.manage("publish_app", "echo", "1.00", "-", echo, *made, "script")
    rule = ["--success-rule", "empty_stderr"]
    project.manage("publish_app", "sh", "1.00", *made, "command", *rule)
    log, table = {"open_name": "out.log"}, {"a table": "1"}
    sort = """sort < in | tr 'ab' "AB" && echo "<it's & it>"; exit 3"""
    agreed = {"outputs": OUT, **QUORUM}
    [summed], [echoed], [sorted_] = project.submit_kinds(
        [
            {**agreed, "app": "sum", "text": "1\n2\n39", "outputs": [*OUT, log]},
            {**agreed, "app": "echo", "text": "", "files": table, "command_line": WORDS},
            {**agreed, "app": "sh", "text": "b\na", "command_line": sort},
        ]
    )
    stock = stock_client(project, "alice")
    stock.attach()
    ours = our_client(project, "bob")
    ours.start()
    give_up_at = time.monotonic() + PATIENCE
    done = "SELECT count(*) FROM workunit WHERE canonical_result_id IS NOT NULL AND name = ANY(%s)"
    while project.count(done, [summed, echoed, sorted_]) < 3:
        assert time.monotonic() < give_up_at, stock.messages() + ours.log() + project.log()
        stock.update()
        time.sleep(1)

    assert answer(project, "sum", summed) == "42\n"
    assert answer(project, "sum", summed, "out.log") == f"said {summed}\n"
    words = "<two  words>\n<it's>\n<>\n<<a&b>>\n<$HOME>\n<%s>\n<äö>\n"
    assert answer(project, "echo", echoed).startswith(words)
    assert answer(project, "sh", sorted_) == "A\nB\n<it's & it>\n"
    reported = project.sql(f"SELECT outcome, account_id FROM result{OF_APPS}", MINE)
    assert [row["outcome"] for row in reported] == [Outcome.SUCCESS] * 6
    assert len({row["account_id"] for row in reported}) == 2
    assert "unrecognized" not in stock.messages().lower()
    assert "0 violations" in project.fsck()


def test_stock_client_reports_the_error_of_a_program_in_stderr(shared_project, stock_client):
    project = shared_project
    made = ["--create-app", "--kind", "command", "--success-rule", "both"]
    project.manage("publish_app", "strict", "1.00", *made)
    lines = {
        "loud": "echo 1; echo careful >&2",
        "wrong": "exit 7",
        "later": """if [ -f been ]; then cat been; else
                 echo been >been; echo 1 >boinc_temporary_exit; fi""",
    }
    once = one_at_a_time("strict") | {"text": "", "outputs": OUT}
    project.submit_kinds(
        [{**once, "name": name, "command_line": line} for name, line in lines.items()]
    )
    client = stock_client(project, "carol")
    client.attach()
    give_up_at = time.monotonic() + PATIENCE
    over = f"SELECT count(*) FROM result{OF_APPS} AND outcome <> 0"
    while project.count(over, ["strict"]) < 3:
        assert time.monotonic() < give_up_at, client.messages() + project.log()
        client.update()
        time.sleep(1)

    found = {
        row["name"]: row
        for row in project.sql(
            f"SELECT name, outcome, exit_status, stderr FROM result{OF_APPS}", ["strict"]
        )
    }
    assert found["later_0"]["outcome"] == Outcome.SUCCESS, found["later_0"]["stderr"]
    assert answer(project, "strict", "later") == "been\n"
    assert found["loud_0"]["outcome"] == Outcome.CLIENT_ERROR
    assert "careful\nmanyhands: The program wrote to its stderr" in found["loud_0"]["stderr"]
    assert (found["wrong_0"]["outcome"], found["wrong_0"]["exit_status"]) == (
        Outcome.CLIENT_ERROR,
        7,
    )
