"""Work generators as a scientist might write them; they run in the worker process."""

from __future__ import annotations

from datetime import timedelta

from daemons.science.interfaces import Defer, TransientScienceError


def numbers(count, options, state):
    """Yield one workunit per number, from `first` to `last`."""
    while state.setdefault("next", options.get("first", 1)) <= options.get("last", 10**9):
        number = state["next"]
        state["next"] += 1
        yield {
            "name": f"number_{number}",
            "command_line": str(number),
            "input_files": [{"open_name": "in", "content": f"{number}\n"}],
            "outputs": ["out"],
            "min_quorum": options.get("quorum", 1),
            "delay_bound": 3600,
        }


class Numbers:
    """The generator `numbers` as a class."""

    def generate(self, count, options, state):
        return numbers(count, options, state)


def patient(count, options, state):
    """Yield one workunit, then defer for an hour."""
    state["made"] = state.get("made", 0) + 1
    yield {"outputs": ["out"]}
    raise Defer(timedelta(hours=1))


def nothing(count, options, state):
    return []


def broken(count, options, state):
    raise ValueError("no idea")


def away(count, options, state):
    raise TransientScienceError("the source is away")


def misspelt(count, options, state):
    return [{"comand_line": "1"}]


def impossible(count, options, state):
    return [{"min_quorum": 0}]


def forgetful(count, options, state):
    state["seen"] = {1, 2}
    return [{"outputs": ["out"]}]
