"""Decides which results agree, and which one is canonical [pure].

Source: PROTOCOL 9.4.  The functions are generic over the *evidence* that is compared (such as the
digests of the outputs) and over the comparison `agree`, which may have a tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

E = TypeVar("E")


class Candidate(NamedTuple, Generic[E]):
    """One success; `evidence` is None if a required output is missing or unreadable."""

    id: int
    evidence: E | None


@dataclass(frozen=True, slots=True)
class Consensus:
    """The outcome of a comparison, as result ids; each tuple is in ascending order.

    `missing` has the candidates without evidence.  Each other candidate is in at most one tuple.
    If `canonical` is None, too few of the `inconclusive` candidates agree.  If there are too few
    candidates with evidence, they are not compared and are in no tuple.
    """

    canonical: int | None = None
    valid: tuple[int, ...] = ()
    invalid: tuple[int, ...] = ()
    inconclusive: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()


def majority(min_quorum: int) -> int:
    """Return how many results must agree: more than half of the quorum."""
    return min_quorum // 2 + 1


def check_set(
    candidates: Sequence[Candidate[E]], *, min_quorum: int, agree: Callable[[E, E], bool]
) -> Consensus:
    """Compare the successes of a workunit, and choose its canonical result if possible.

    If at least `min_quorum` candidates have evidence, all pairs of them are compared.  The
    candidate with which most candidates agree is canonical.  If several candidates are tied and
    agree with each other, the lowest id is canonical.  If tied candidates disagree with each other,
    or too few candidates agree, all candidates with evidence are inconclusive.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.id)
    missing = tuple(c.id for c in ordered if c.evidence is None)
    good = [(c.id, c.evidence) for c in ordered if c.evidence is not None]
    if len(good) < min_quorum:
        return Consensus(missing=missing)
    supporters = {
        id_: [
            other
            for other, other_evidence in good
            if other == id_ or agree(evidence, other_evidence)
        ]
        for id_, evidence in good
    }
    best, agreeing = max(supporters.items(), key=lambda item: (len(item[1]), -item[0]))
    rivals = [
        id_ for id_, ids in supporters.items() if len(ids) == len(agreeing) and id_ not in agreeing
    ]
    if len(agreeing) < majority(min_quorum) or rivals:
        return Consensus(inconclusive=tuple(id_ for id_, _ in good), missing=missing)
    return Consensus(
        canonical=best,
        valid=tuple(agreeing),
        invalid=tuple(id_ for id_, _ in good if id_ not in agreeing),
        missing=missing,
    )


def doubt_suspicious(consensus: Consensus, suspicious: Collection[int]) -> Consensus:
    """Make a canonical result inconclusive if it is suspicious and no other result agrees with it.

    `suspicious` has ids of results.  The transitioner then creates another result.  Source: BOINC's
    rule for suspicious results.
    """
    if consensus.canonical not in suspicious or len(consensus.valid) > 1:
        return consensus
    return Consensus(
        inconclusive=consensus.valid, invalid=consensus.invalid, missing=consensus.missing
    )


def check_late(
    candidates: Sequence[Candidate[E]],
    canonical: Candidate[E],
    *,
    agree: Callable[[E, E], bool],
) -> Consensus:
    """Compare late successes with the canonical result; a success that agrees is valid.

    If the canonical result has no evidence, all late successes with evidence are invalid.
    """
    ordered = sorted(candidates, key=lambda candidate: candidate.id)
    good = [(c.id, c.evidence) for c in ordered if c.evidence is not None]
    truth = canonical.evidence
    valid = tuple(id_ for id_, evidence in good if truth is not None and agree(truth, evidence))
    return Consensus(
        canonical=canonical.id,
        valid=valid,
        invalid=tuple(id_ for id_, _ in good if id_ not in valid),
        missing=tuple(c.id for c in ordered if c.evidence is None),
    )
