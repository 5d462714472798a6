"""The checks at the end of the demonstration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from demo.sample import APP, KNOWN_EXPONENTS
from scheduler.lifecycle import AssimilateState, FileDeleteState, Outcome, ValidateState
from scheduler.models import Account, Result, Workunit


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check: a sentence, and whether it is true."""

    sentence: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Earnings:
    """The number of a volunteer's results, and the account's total credit."""

    name: str
    valid: int
    invalid: int
    credit: Decimal


def read_answers(results: Path) -> dict[int, bool]:
    """Return for each assimilated exponent whether it gives a prime."""
    answers: dict[int, bool] = {}
    for path in sorted((results / APP).glob("*/out")):
        for line in path.read_text().splitlines():
            exponent, verdict, _residue = line.split()
            answers[int(exponent)] = verdict == "prime"
    return answers


def unfinished(names: Sequence[str]) -> list[str]:
    """Return the names of workunits that are not assimilated or still have files."""
    open_ones = Workunit.objects.filter(name__in=names).exclude(
        assimilate_state=AssimilateState.DONE, file_delete_state=FileDeleteState.DONE
    )
    waiting = Result.objects.filter(workunit__name__in=names).exclude(
        file_delete_state=FileDeleteState.DONE
    )
    names_of_open = set(open_ones.values_list("name", flat=True))
    return sorted(names_of_open | set(waiting.values_list("workunit__name", flat=True)))


def about_primes(answers: Mapping[int, bool], exponents: Sequence[int]) -> list[Finding]:
    """Check that all exponents have an answer, and that the primes are the known ones."""
    prime_exponents = sorted(exponent for exponent, is_prime in answers.items() if is_prime)
    tested = sorted(answers) == sorted(exponents)
    return [
        Finding(f"{len(answers)} of {len(exponents)} exponents have an answer", tested),
        Finding(
            f"{len(prime_exponents)} Mersenne primes found, {len(KNOWN_EXPONENTS)} are known: p = "
            + ", ".join(map(str, prime_exponents)),
            tuple(prime_exponents) == KNOWN_EXPONENTS,
        ),
    ]


def about_the_liar(name: str) -> list[Finding]:
    """Check that the wrong residue is INVALID and that other results completed the workunit."""
    lies = list(
        Result.objects.filter(
            account__name=name, outcome=Outcome.SUCCESS, validate_state=ValidateState.INVALID
        ).select_related("workunit")
    )
    if len(lies) != 1:
        return [Finding(f"{len(lies)} results of {name} are INVALID; one was expected", False)]
    lie = lies[0]
    honest = list(
        lie.workunit.results.filter(validate_state=ValidateState.VALID)
        .order_by("attempt")
        .values_list("name", "account__name", "attempt")
    )
    by = ", ".join(f"{result} ({account})" for result, account, _ in honest)
    replaced = any(attempt >= lie.workunit.min_quorum for _, _, attempt in honest)
    return [
        Finding(
            f"the wrong residue, {lie.name} by {name}, is INVALID; VALID are {by}",
            len(honest) >= lie.workunit.min_quorum and replaced,
        )
    ]


def about_the_killed(name: str, successes_before: int) -> list[Finding]:
    """Check that the killed client reported results after its restart."""
    successes = Result.objects.filter(account__name=name, outcome=Outcome.SUCCESS).count()
    after = successes - successes_before
    return [
        Finding(
            f"{name} was killed and started again, and reported {after} results since", after > 0
        )
    ]


def earnings(names: Sequence[str]) -> list[Earnings]:
    """Return the results of the volunteers, in the order of `names`."""
    all_earnings = []
    for name in names:
        account = Account.objects.get(name=name)
        results = Result.objects.filter(account=account)
        valid = results.filter(validate_state=ValidateState.VALID).count()
        invalid = results.filter(validate_state=ValidateState.INVALID).count()
        all_earnings.append(Earnings(name, valid, invalid, account.total_credit))
    return all_earnings


def about_credit(all_earnings: Sequence[Earnings]) -> list[Finding]:
    """Check that every account with valid results has credit."""
    unpaid = [earned.name for earned in all_earnings if earned.valid and not earned.credit]
    total = sum((earned.credit for earned in all_earnings), Decimal(0))
    if unpaid:
        return [Finding(f"no credit for {', '.join(unpaid)}", False)]
    return [Finding(f"{total:.2f} credit granted", total > 0)]
