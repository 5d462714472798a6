"""Which results agree, and which one is canonical [pure].

Source: PROTOCOL 9.4.  Generic over what is compared (the *evidence*, such as the digests of the
outputs) and how (`agree`), so that a comparison with a tolerance needs no other code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class Candidate(Generic[E]):
    """One success; `evidence` None says that a required output is missing or unreadable."""

    id: int
    evidence: E | None


@dataclass(frozen=True, slots=True)
class Consensus:
    """What the comparison found, as ascending ids; every candidate stands in at most one list.

    Without a `canonical`, `inconclusive` were compared to no avail; candidates too few to be
    compared stand nowhere.
    """

    canonical: int | None = None
    valid: tuple[int, ...] = ()
    invalid: tuple[int, ...] = ()
    inconclusive: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()


def majority(min_quorum: int) -> int:
    """How many results of a quorum must agree: more than half of it."""
    return min_quorum // 2 + 1


def check_set(
    candidates: Sequence[Candidate[E]], *, min_quorum: int, agree: Callable[[E, E], bool]
) -> Consensus:
    """Look for a canonical result among successes, none of which is canonical yet.

    At least `min_quorum` good candidates are compared, each with each.  The one with which most
    agree is canonical, the lowest id among equals; if two that disagree are equally well supported,
    or too few agree, nobody is believed.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.id)
    missing = tuple(c.id for c in ordered if c.evidence is None)
    good = [(c.id, c.evidence) for c in ordered if c.evidence is not None]
    if len(good) < min_quorum:
        return Consensus(missing=missing)
    supporters = {
        one: [other for other, theirs in good if other == one or agree(evidence, theirs)]
        for one, evidence in good
    }
    best, believed = max(supporters.items(), key=lambda item: (len(item[1]), -item[0]))
    rivals = [
        one for one, ids in supporters.items() if len(ids) == len(believed) and one not in believed
    ]
    if len(believed) < majority(min_quorum) or rivals:
        return Consensus(inconclusive=tuple(one for one, _ in good), missing=missing)
    return Consensus(
        canonical=best,
        valid=tuple(believed),
        invalid=tuple(one for one, _ in good if one not in believed),
        missing=missing,
    )


def doubt(found: Consensus, suspicious: Collection[int]) -> Consensus:
    """Believe no suspicious result on its own word: it is inconclusive, so that another is made.

    Source: BOINC's rule for suspicious results.  One that another agrees with is believed.
    """
    if found.canonical not in suspicious or len(found.valid) > 1:
        return found
    return Consensus(inconclusive=found.valid, invalid=found.invalid, missing=found.missing)


def check_late(
    candidates: Sequence[Candidate[E]],
    canonical: Candidate[E],
    *,
    agree: Callable[[E, E], bool],
) -> Consensus:
    """Compare successes with the canonical result that already exists."""
    ordered = sorted(candidates, key=lambda candidate: candidate.id)
    good = [(c.id, c.evidence) for c in ordered if c.evidence is not None]
    truth = canonical.evidence
    valid = tuple(one for one, evidence in good if truth is not None and agree(truth, evidence))
    return Consensus(
        canonical=canonical.id,
        valid=valid,
        invalid=tuple(one for one, _ in good if one not in valid),
        missing=tuple(c.id for c in ordered if c.evidence is None),
    )
