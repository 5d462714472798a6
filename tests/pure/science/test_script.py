"""A program as a validator: its exit statuses, time limit and crashes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from daemons.science.interfaces import BadOptions, BadOutput, ReportedOutput, TransientScienceError
from daemons.science.script import Script, ScriptFailed

PROGRAM = r"""#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
case "$1" in
init)    shift; grep -q unreadable "$@" && exit 1; grep -q later "$@" && exit 3
         grep -q crash "$@" && kill -9 $$; exit 0 ;;
compare) echo "I was asked to compare" >&2; cmp -s "$2" "$3" && exit 0
         grep -q odd "$2" && exit 42; exit 1 ;;
esac
exit 64
"""


@pytest.fixture
def script(tmp_path):
    return Script(a_program(tmp_path / "judge.sh", PROGRAM))


@pytest.fixture
def output(tmp_path):
    def made(text, name="out", **fields):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}-{name}"
        path.write_text(text)
        return ReportedOutput(0, name, path=str(path), sha256="-", **fields)

    return made


def a_program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def calls(script):
    return [
        line.split() for line in Path(script.program).with_name("calls").read_text().splitlines()
    ]


def test_program_is_called_for_each_result_and_for_each_pair(script, output):
    one, other = output("1"), output("1")
    evidence = [script.prepare([its], {}) for its in (one, other)]
    assert script.agree(*evidence)
    assert calls(script) == [
        ["init", one.path],
        ["init", other.path],
        ["compare", one.path, other.path],
    ]


def test_exit_status_1_means_not_valid_or_no_agreement(script, output):
    assert not script.agree(*(script.prepare([output(text)], {}) for text in "12"))
    with pytest.raises(BadOutput, match="reports that the outputs are not valid"):
        script.prepare([output("unreadable")], {})


def test_exit_status_3_is_a_transient_error(script, output):
    with pytest.raises(TransientScienceError, match="exit status 3: try again later"):
        script.prepare([output("later")], {})


def test_other_exit_statuses_are_errors_with_standard_error(script, output):
    with pytest.raises(ScriptFailed, match="compare ended with exit status 42") as caught:
        script.agree(*(script.prepare([output(text)], {}) for text in ("odd", "1")))
    assert "I was asked to compare" in str(caught.value)
    with pytest.raises(ScriptFailed, match="SIGKILL"):
        script.prepare([output("crash")], {})


def test_exit_statuses_are_configurable(script, output):
    options = {"invalid": 42, "transient": 1}
    evidence = [script.prepare([output(text)], options) for text in ("odd", "1", "2")]
    assert not script.agree(evidence[0], evidence[1])
    with pytest.raises(TransientScienceError):
        script.agree(evidence[1], evidence[2])


def test_separate_programs_for_preparation_and_comparison(tmp_path, output):
    """One program checks a result and another compares two, as in BOINC's script validator."""
    init = Script(a_program(tmp_path / "init.sh", '#!/bin/sh\n[ "$#" = 1 ]\n'))
    a_program(tmp_path / "compare.sh", '#!/bin/sh\n[ "$2" = --strict ] && cmp -s "$1" "$3"\n')
    options = {
        "init": ["{files}"],
        "compare_program": "compare.sh",
        "compare": ["{files}", "--strict", "{other_files}"],
    }
    init.check_options(options)
    evidence = [init.prepare([output(text)], options) for text in "112"]
    assert init.agree(evidence[0], evidence[1])
    assert not init.agree(evidence[0], evidence[2])


def test_preparation_call_can_be_switched_off(script, output):
    script.prepare([output("unreadable")], {"init": False})
    assert not Path(script.program).with_name("calls").exists()


def test_outputs_that_are_not_validated_are_not_passed_to_the_program(script, output):
    one, log = output("1"), output("x", no_validate=True)
    evidence = script.prepare([one, log, ReportedOutput(2, "extra", optional=True)], {})
    assert evidence.paths == (one.path, None)
    assert script.prepare([one, ReportedOutput(1, "needed")], {}) is None


def test_results_with_different_optional_outputs_missing_do_not_agree(script, output):
    one = script.prepare([output("1", optional=True)], {})
    assert not script.agree(one, script.prepare([ReportedOutput(0, "out", optional=True)], {}))


def test_program_over_its_time_limit_is_killed(tmp_path, output):
    note = tmp_path / "pid"
    script = Script(
        a_program(tmp_path / "slow.sh", f"#!/bin/sh\necho $$ > {note}\nexec sleep 600\n")
    )
    with pytest.raises(ScriptFailed, match=r"was killed after 0.3 s"):
        script.prepare([output("1")], {"time_limit": 0.3})
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


def test_program_that_cannot_be_started_is_an_error_with_the_reason(tmp_path, output):
    with pytest.raises(ScriptFailed, match=r"cannot be started: .*Hint: does it exist"):
        Script(str(tmp_path / "nowhere")).prepare([output("1")], {})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"compair": []}, "did you mean 'compare'"),
        ({"init": ["init"]}, "{files}"),
        ({"compare": ["{files}"]}, "{other_files}"),
        ({"invalid": 0}, "from 1 to 255"),
        ({"invalid": 3}, "must differ"),
        ({"time_limit": 0}, "a number"),
        ({"compare_program": ""}, "text"),
    ],
)
def test_invalid_options_are_refused(options, sentence):
    with pytest.raises(BadOptions, match=sentence):
        Script("judge").check_options(options)
