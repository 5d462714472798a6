"""A validator whose behavior the files choose, for the tests of turns."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from daemons.science.interfaces import BadOutput, TransientScienceError


class Moody:
    """Outputs agree when their first letters do."""

    def prepare(self, outputs, _options):
        if any(output.is_missed for output in outputs):
            return None
        text = Path(outputs[0].path).read_text()
        if text == "hang":
            threading.Event().wait()
        if text == "crash":
            os._exit(9)
        if text == "raise":
            raise RuntimeError("this cannot be")
        if text == "later":
            raise TransientScienceError("the service is away")
        if text == "bad":
            raise BadOutput("It says so itself.")
        if text == "nothing":
            return None
        return text

    def agree(self, one, other):
        return one[0] == other[0]

    def tidy(self, evidence):
        if evidence.startswith("tidy "):
            Path(evidence[5:]).write_text("tidied")

    def runtime_outlier(self, evidence):
        return evidence.endswith("slow")

    def suspicious(self, evidence):
        return evidence.endswith("odd")


class Shapeless:
    """Has no `agree`."""

    def prepare(self, _outputs, _options):
        return ()
