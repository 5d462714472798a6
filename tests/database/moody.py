"""A validator that hangs, crashes or raises depending on the text of an output."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from daemons.science.interfaces import BadOutput, TransientScienceError


class Moody:
    """A validator by which outputs agree if they have the same first letter."""

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
    """A validator without the method `agree`."""

    def prepare(self, _outputs, _options):
        return ()
