"""The validators `bitwise` and `trivial`."""

from __future__ import annotations

import pytest

from daemons.science import bitwise, trivial
from daemons.science.interfaces import BadOptions, ReportedOutput

CAME, OTHER = ReportedOutput(0, "out", sha256="a" * 64), ReportedOutput(0, "out", sha256="b" * 64)
MISSED = ReportedOutput(0, "out")
LEFT_OUT = ReportedOutput(0, "out", optional=True)
LOG, OTHER_LOG = (ReportedOutput(1, "log", sha256=one * 64, no_validate=True) for one in "cd")


@pytest.mark.parametrize("validator", [bitwise, trivial])
def test_result_with_a_missing_required_output_gives_no_evidence(validator):
    assert validator.prepare([LOG, MISSED], {}) is None


@pytest.mark.parametrize("validator", [bitwise, trivial])
def test_optional_output_can_be_missing(validator):
    assert validator.prepare([LEFT_OUT], {}) is not None


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        ([CAME], [CAME], True),
        ([CAME], [OTHER], False),
        ([CAME], [LEFT_OUT], False),
        ([LEFT_OUT], [LEFT_OUT], True),
        ([CAME, LOG], [CAME, OTHER_LOG], True),
    ],
)
def test_bitwise_compares_every_byte_of_validated_outputs(one, other, agree):
    assert bitwise.agree(bitwise.prepare(one, {}), bitwise.prepare(other, {})) is agree
    assert trivial.agree(trivial.prepare(one, {}), trivial.prepare(other, {}))


@pytest.mark.parametrize("validator", [bitwise, trivial])
def test_bitwise_and_trivial_accept_no_options(validator):
    validator.check_options({})
    with pytest.raises(BadOptions, match="no option 'absolute'"):
        validator.check_options({"absolute": 0.1})
