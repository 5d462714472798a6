"""The commands of the daemons: their output and their error messages."""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from io import StringIO
from time import monotonic

import pytest
from django.core.management import CommandError, call_command, execute_from_command_line
from django.db import OperationalError

from daemons import assimilator, registry
from daemons.loop import Daemon
from daemons.management.commands import daemons as all_daemons
from daemons.management.commands.transitioner import Command
from daemons.purger import tend_ledger
from daemons.tally import Tally
from scheduler import storage
from scheduler.models import WorkunitWakeup
from tests import rows

pytestmark = pytest.mark.django_db

NAMES = tuple(registry.BY_NAME)


def output_of(*words, **options):
    out = StringIO()
    call_command(*words, stdout=out, **options)
    return out.getvalue()


def told(capsys, *words):
    """Return the exit status and the output of a command line."""
    name, *options = words
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", name, *options])
    captured = capsys.readouterr()
    return ended.value.code, captured.out + captured.err


@pytest.mark.parametrize("name", NAMES)
def test_an_idle_daemon_prints_nothing_to_do(name):
    from django.utils import timezone

    tend_ledger(now=timezone.now())
    assert output_of(name, "--once") == f"{name}: nothing to do.\n"


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_daemon_fits_a_screen(name, capsys):
    with pytest.raises(SystemExit) as ended:
        call_command(name, "--help")
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert len(shown.splitlines()) <= 24
    assert max(map(len, shown.splitlines())) <= 80
    assert registry.find(name).summary in " ".join(shown.split())
    assert "--settings" not in shown


def test_once_prints_the_tally_of_the_pass():
    rows.a_workunit()
    output = output_of("transitioner", "--once")
    assert output.startswith("transitioner: 1 workunit: 1 replicated (")


def test_once_runs_passes_until_no_workunit_is_due():
    app = rows.an_app()
    for _ in range(5):
        rows.a_workunit(app)
    assert "5 workunits: 5 replicated" in output_of("transitioner", "--once", "--limit", "2")


def test_shard_option_processes_only_workunits_of_that_shard():
    app = rows.an_app()
    for _ in range(4):
        rows.a_workunit(app)
    output_of("transitioner", "--once", "--shard", "1/2")
    left = WorkunitWakeup.objects.values_list("workunit_id", flat=True)
    assert {workunit_id % 2 for workunit_id in left} == {1}


def test_json_option_prints_the_tally_as_json():
    rows.a_workunit()
    answer = json.loads(output_of("transitioner", "--once", "--json"))
    assert (answer["daemon"], answer["seen"], answer["did"]) == (
        "transitioner",
        1,
        {"replicated": 1},
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--onse"], "unrecognized arguments: --onse. Hint: did you mean --once?"),
        (["--shard", "3/2"], "There is no shard 3 of 2. Hint: the first number goes from 1 to 2."),
        (["--limit", "0"], "'0' is not a number of rows. Hint: use a whole number from 1."),
        (["--pause", "soon"], "'soon' is not a duration. Hint: use seconds, more than 0"),
        (["--limit"], "expected one argument. Hint: `manage.py transitioner --help` lists"),
    ],
)
def test_an_invalid_option_is_refused_with_a_hint(options, said, capsys):
    code, text = told(capsys, "transitioner", *options)
    assert code == 2
    assert said in text


def test_json_without_once_is_refused(capsys):
    code, text = told(capsys, "transitioner", "--json")
    assert code == 2
    assert "Hint: add --once." in text


def test_a_database_failure_with_once_raises_a_command_error(monkeypatch):
    def broken(**_now_and_so_on):
        raise OperationalError("the server went away")

    fake = Daemon("transitioner", broken, batch=1, pause=1.0, summary="Fails.")
    monkeypatch.setitem(registry.BY_NAME, "transitioner", fake)
    with pytest.raises(CommandError, match="transitioner: the database failed: the server went"):
        output_of("transitioner", "--once")


def test_sigterm_stops_the_daemon_after_the_current_pass(monkeypatch, capsys):
    from daemons.tally import Tally

    began = []

    def ended_by_a_signal(**_now_and_so_on):
        began.append(1)
        os.kill(os.getpid(), signal.SIGTERM)
        return Tally(seen=1, counts={"moved": 1}, more=True)

    fake = Daemon("transitioner", ended_by_a_signal, batch=1, pause=1.0, summary="Ends.")
    monkeypatch.setitem(registry.BY_NAME, "transitioner", fake)
    before = signal.getsignal(signal.SIGTERM)
    assert threading.current_thread() is threading.main_thread()
    output_of("transitioner")
    assert began == [1]
    assert "transitioner: finishing..." in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def finished_workunit(app):
    """Create a workunit with a canonical result, ready to be assimilated."""
    workunit = rows.a_workunit(app, transition_at=None)
    canonical = rows.a_result(workunit, "valid", output=b"answer", uploaded=True)
    return rows.settled(workunit, canonical, assimilate_state=1)


def test_a_round_of_the_assimilator_lasts_at_least_the_sleep_interval(monkeypatch):
    """Work that becomes due during a round waits for the next one."""
    interval = 0.7
    app = rows.an_app("sums")
    waiting = [finished_workunit(app)]
    passes = []

    def run_pass(**options):
        began = monotonic()
        tally = assimilator.run_pass(**options)
        passes.append((began, tally.sentence()))
        if len(passes) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        waiting.append(finished_workunit(app))
        return tally

    timed = replace(registry.find("assimilator"), run_pass=run_pass)
    monkeypatch.setitem(registry.BY_NAME, "assimilator", timed)
    output_of("assimilator", "--sleep-interval", str(interval))
    times, sentences = zip(*passes, strict=True)
    assert sentences == ("1 workunit: 1 assimilated",) * 3
    assert min(times[1] - times[0], times[2] - times[1]) >= interval - 0.01
    for workunit in waiting[:3]:
        workunit.refresh_from_db()
        assert workunit.assimilate_state == 2


def children_of(*options):
    """Return the options with which `manage.py daemons` starts each daemon."""
    command = all_daemons.Command()
    parsed = vars(command.create_parser("manage.py", "daemons").parse_args(options))
    words = {name: command._child(name, parsed).make.args[1].args[0] for name in NAMES}
    for name, [_program, command_name, with_parent, *_rest] in words.items():
        assert (command_name, with_parent) == (name, "--with-parent")
    return {name: " ".join(rest) for name, [_program, _name, _with, *rest] in words.items()}


def test_daemons_pass_their_options_to_each_daemon():
    assert children_of() == dict.fromkeys(NAMES, "")
    both = children_of("--pause", "2", "--sleep-interval", "30")
    assert both == dict.fromkeys(NAMES, "--pause 2.0 --sleep-interval 30.0")


def test_sleep_interval_of_a_daemon_has_precedence_over_that_of_all():
    words = ["assimilator=60", "30", "purger=5", "purger=0.5"]
    options = children_of(*(f"--sleep-interval={word}" for word in words))
    assert options == {
        **dict.fromkeys(NAMES, "--sleep-interval 30.0"),
        "assimilator": "--sleep-interval 60.0",
        "purger": "--sleep-interval 0.5",
    }
    named = children_of("--sleep-interval", "assimilator=60")
    assert {name for name, rest in named.items() if rest} == {"assimilator"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("assimlator=3", "There is no daemon 'assimlator'. Hint: did you mean 'assimilator'?"),
        ("=3", "There is no daemon ''. Hint: the daemons are work_generator, "),
        ("soon", "'soon' is not a duration. Hint: use seconds, more than 0 and at most 86400."),
        ("assimilator=0", "'0' is not a duration. Hint: use seconds, more than 0"),
        ("assimilator=", "'' is not a duration. Hint: use seconds, more than 0"),
        ("nan", "'nan' is not a duration. Hint: use seconds, more than 0"),
    ],
)
@pytest.mark.parametrize("command", ["daemons", "serve"])
def test_an_invalid_sleep_interval_of_all_daemons_is_refused_with_a_hint(
    command, value, said, capsys
):
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line(["manage.py", command, "--sleep-interval", value])
    assert ended.value.code == 2
    assert f"argument --sleep-interval: {said}" in capsys.readouterr().err


def test_celery_task_runs_the_same_pass_as_the_command():
    from daemons.tasks import run_pass

    app = rows.an_app()
    for _ in range(3):
        rows.a_workunit(app)
    assert run_pass(daemon="transitioner") == "transitioner: 3 workunits: 3 replicated"
    assert run_pass.name == "daemons.run_pass"
    with pytest.raises(registry.UnknownDaemon, match="did you mean 'purger'"):
        run_pass(daemon="purgr")


def test_celery_task_logs_a_failure_once_and_its_recovery(monkeypatch, caplog):
    from daemons import tasks

    caplog.set_level("INFO")
    script = iter(
        [OperationalError("gone\naway"), OperationalError("gone"), None, ValueError("odd")]
    )

    def run_pass(*, now, limit, shard):
        if error := next(script):
            raise error
        return Tally()

    fake = Daemon("purger", run_pass, batch=1, pause=1.0, summary="Breaks.")
    monkeypatch.setitem(registry.BY_NAME, "purger", fake)
    monkeypatch.setattr(tasks, "_failing", set())
    monkeypatch.setattr(tasks.connection, "close", lambda: None)
    said = [tasks.run_pass(daemon="purger") for _ in range(4)]
    assert said == [
        "purger: failed: gone away",
        "purger: failed: gone",
        "purger: nothing to do",
        "purger: failed: odd",
    ]
    told = [record.message for record in caplog.records]
    assert told == ["database_failed", "daemon_recovered", "pass_failed"]


def test_celery_tasks_make_no_pass_after_an_incomplete_restore(monkeypatch, caplog, settings):
    from daemons import tasks

    passes = []
    fake = Daemon(
        "purger", lambda **_: passes.append(1) or Tally(), batch=1, pause=1.0, summary="Counts."
    )
    monkeypatch.setitem(registry.BY_NAME, "purger", fake)
    monkeypatch.setattr(tasks, "_failing", set())
    monkeypatch.setattr(tasks.connection, "close", lambda: None)
    settings.VAR_DIR.mkdir(parents=True, exist_ok=True)
    mark = settings.VAR_DIR / storage.INCOMPLETE_RESTORE
    mark.touch()
    said = tasks.run_pass(daemon="purger")
    assert said.startswith(f"purger: failed: A restore into {settings.VAR_DIR} failed")
    assert not passes
    assert [record.message for record in caplog.records] == ["pass_failed"]
    mark.unlink()
    assert tasks.run_pass(daemon="purger") == "purger: nothing to do"
    assert passes


def test_a_celery_task_ends_after_its_maximum_duration_even_if_more_work_is_due(monkeypatch):
    from daemons import tasks

    passes = []

    def run_pass(*, now, limit, shard):
        passes.append(now)
        return Tally(seen=limit, counts={"purged": limit}, more=True)

    fake = Daemon("purger", run_pass, batch=5, pause=1.0, summary="Has always more.")
    monkeypatch.setitem(registry.BY_NAME, "purger", fake)
    monkeypatch.setattr(tasks, "MAX_TASK_SECONDS", 0.05)
    assert (
        tasks.run_pass(daemon="purger")
        == f"purger: {5 * len(passes)} workunits: {5 * len(passes)} purged"
    )
    assert passes
