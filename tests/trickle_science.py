"""Trickle handlers as a scientist might write them; they run in the worker."""

from __future__ import annotations

from datetime import timedelta

from daemons.science.interfaces import TransientScienceError


def extend(trickle):
    return {"extend_deadline": timedelta(hours=6), "reply": f"<more>{trickle.workunit_name}</more>"}


def halfway(trickle):
    return {"fraction_done": 0.5}


def nothing(trickle):
    return None


def broken(trickle):
    raise ValueError(f"cannot read {trickle.text}")


def away(trickle):
    raise TransientScienceError("the service is away")


def nonsense(trickle):
    return {"credit": 5}
