"""Finds the samples of credit that belong to an account."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from scheduler.models import Account, CreditSample, Host

_KINDS = CreditSample.Kind


def of_account(account: Account) -> QuerySet[CreditSample]:
    """Return the samples of the account and of its computers."""
    own_hosts = Host.objects.filter(account=account).values("pk")
    return CreditSample.objects.filter(
        Q(kind=_KINDS.ACCOUNT, holder_id=account.pk) | Q(kind=_KINDS.HOST, holder_id__in=own_hosts)
    )
