"""Endpoints that sign and verify statements that an account belongs to a person."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urljoin

from django.conf import settings
from rest_framework import serializers

from scheduler import signing
from scheduler.api.http.body import Shown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Access, Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.people import api_tokens
from scheduler.people.personal_data import ownership
from scheduler.people.rules.ownership_statements import MAX_SIGNATURE, MAX_STATEMENT, MAX_TEXT

if TYPE_CHECKING:
    from rest_framework.request import Request
    from rest_framework.response import Response


class ProofText(Strict):
    """The text of the site that asks for a proof."""

    text = serializers.CharField(max_length=MAX_TEXT, help_text="One line of printable characters.")


class ProofShown(Shown):
    """A statement of ownership with its signature."""

    statement = serializers.CharField(help_text="Lines that end with a line feed.")
    signature = serializers.CharField(help_text="An Ed25519 signature in base64.")
    key_url = serializers.URLField(help_text="The address of the public key, in PEM.")


class SentProof(Strict):
    """A statement and its signature, as another person has passed them on."""

    statement = serializers.CharField(max_length=MAX_STATEMENT)
    signature = serializers.CharField(max_length=MAX_SIGNATURE)


class VerdictShown(Shown):
    """The verdict about a statement."""

    valid = serializers.BooleanField(help_text="Whether this project signed the statement.")


class OwnershipStatements(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Sign a statement of ownership",
        name="sign_ownership_statement",
        answer=ProofShown,
        body=ProofText,
        problems=(409,),
    )
    def post(self, request: Request) -> Response:
        """Returns the signed statement that the account belongs to the person who got the text.

        For an account with a second factor, statements are signed only at `/account/ownership/`.
        """
        api_tokens.refuse_with_second_factor(self.account, page="/account/ownership/")
        try:
            proof = ownership.prove(self.account, self.body()["text"], now=self.now)
        except signing.KeyMissing:
            raise _no_key() from None
        return self.reply(
            {
                "statement": proof.statement,
                "signature": proof.signature,
                "key_url": urljoin(settings.PROJECT.master_url, "/ownership/key.pem"),
            }
        )


class OwnershipVerifications(Endpoint):
    @operation(
        "Verify a statement of ownership",
        name="verify_ownership_statement",
        answer=VerdictShown,
        body=SentProof,
        access=Access.PUBLIC,
        problems=(409,),
    )
    def post(self, request: Request) -> Response:
        """Returns whether this project signed the statement; stores nothing.

        Whether the text is the one that was given to this person must be checked by the caller.
        """
        body = self.body()
        try:
            is_valid = ownership.is_valid(body["statement"], body["signature"])
        except signing.KeyMissing:
            raise _no_key() from None
        return self.reply({"valid": is_valid})


def _no_key() -> Problem:
    return Problem(
        409,
        "no_ownership_key",
        "The project has no key for statements of ownership.",
        hint="ask the staff of the project.",
    )
