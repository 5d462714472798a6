"""Endpoints of the account's own keys, without the keys themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rest_framework import serializers
from rest_framework.response import Response

from scheduler.api.http.body import Column, RowShown, Strict
from scheduler.api.http.endpoint import Endpoint
from scheduler.api.http.openapi_operation import Scope, operation
from scheduler.api.http.problems import Problem
from scheduler.models import AccountKey
from scheduler.people import account_keys, api_tokens, audit, submitters
from scheduler.people.account_keys import MAX_KEY_NAME

if TYPE_CHECKING:
    from django.db.models import QuerySet
    from rest_framework.request import Request

    from scheduler.models import Account

#: The page of the site that has the same functions.
_PAGE = "/account/keys/"
Kind = AccountKey.Kind
#: The names of kinds, as in `manage.py account_key`.
_NAMES = {Kind.STRONG: "host", Kind.WEAK: "weak", Kind.SUBMISSION: "submission"}
_CREATED_KINDS = {_NAMES[kind]: kind for kind in (Kind.STRONG, Kind.SUBMISSION)}
_PROOF_HELP = (
    "The password of the account. A key outlives the token in the request, so the token alone is "
    "not sufficient."
)


class KeyShown(RowShown):
    """An account key, without its text."""

    id = Column()
    kind = serializers.SerializerMethodField(
        help_text="`host` and `weak` attach computers; `submission` submits work by BOINC's web "
        "RPCs."
    )
    name = Column()
    is_current = serializers.BooleanField(
        help_text="Whether log-in and the page of keys return this key."
    )
    created_at = Column()
    last_used_on = serializers.DateField(
        allow_null=True, help_text="The last day (UTC) of use; only of submission keys."
    )

    class Meta:
        model = AccountKey

    def get_kind(self, key: AccountKey) -> str:
        return _NAMES[Kind(key.kind)]


class NewKeyShown(KeyShown):
    """A new key with its text, which is returned only once."""

    key = serializers.CharField()


class NewKey(Strict):
    """The new key."""

    kind = serializers.ChoiceField(choices=list(_CREATED_KINDS))
    name = serializers.CharField(
        max_length=MAX_KEY_NAME, help_text="A name by which people recognize the key."
    )
    password = serializers.CharField(max_length=1000, help_text=_PROOF_HELP)


class ChangedKey(Strict):
    """The field of a key that can be changed; without it, the key is returned unchanged."""

    name = serializers.CharField(
        required=False,
        max_length=MAX_KEY_NAME,
        help_text="A name by which people recognize the key.",
    )


class Revocation(Strict):
    """The proof that the caller is the owner of the account."""

    password = serializers.CharField(max_length=1000, help_text=_PROOF_HELP)


class MyKeys(Endpoint):
    write_scope = Scope.SUBMIT

    @operation("List the account's keys", name="list_my_keys", answer=KeyShown, listed=True)
    def get(self, request: Request) -> Response:
        """Returns the keys that are not revoked, newest first, without their texts."""
        return self.page(account_keys.live_keys(self.account))

    @operation(
        "Create a key",
        name="create_my_key",
        answer=NewKeyShown,
        status=201,
        body=NewKey,
        problems=(409, 422, 429),
    )
    def post(self, request: Request) -> Response:
        """Requires a token and the password of the account.

        The text of the new key is returned only in this response.  For an account with a second
        factor, or without a password, keys are created only on the page `/account/keys/`.  Only
        submitters can create keys of kind `submission`.
        """
        body = self.body()
        kind = _CREATED_KINDS[body["kind"]]
        if kind == Kind.SUBMISSION:
            submitters.require_submitter(self.account)
        account = _proven(self, body["password"])
        key, text = account_keys.create_key(
            account=account, name=body["name"], kind=kind, now=self.now
        )
        key.key = text  # type: ignore[attr-defined]  # for the serializer
        return self.reply(key, headers={"Cache-Control": "no-store"})


class MyKey(Endpoint):
    write_scope = Scope.SUBMIT

    def lock_first(self, key_id: int) -> None:
        # As in the operations, the account is locked before its keys.
        account_keys.lock(self.account)

    def rows(self, key_id: int) -> QuerySet[AccountKey]:
        return account_keys.live_keys(self.account).filter(pk=key_id)

    @operation("Read a key", name="read_my_key", answer=KeyShown, conditional=True)
    def get(self, request: Request, key_id: int) -> Response:
        """Returns a key of the account that is not revoked, without its text."""
        return self.reply(account_keys.find_live(self.account, key_id))

    @operation(
        "Rename a key",
        name="change_my_key",
        answer=KeyShown,
        body=ChangedKey,
        guarded=True,
        problems=(404, 422),
    )
    def patch(self, request: Request, key_id: int) -> Response:
        """Changes the name, by which people recognize the key."""
        body = self.body()
        if "name" not in body:
            return self.reply(account_keys.find_live(self.account, key_id))
        key = account_keys.rename_key(
            account=self.account, key_id=key_id, name=body["name"], now=self.now
        )
        return self.reply(key)


class RevokeMyKey(Endpoint):
    write_scope = Scope.SUBMIT

    @operation(
        "Revoke or renew a key",
        name="revoke_my_key",
        answer=None,
        status=204,
        body=Revocation,
        problems=(404, 429),
    )
    def post(self, request: Request, key_id: int) -> Response:
        """Requires a token and the password of the account.

        Computers that are attached with the key must be attached again, and a BOINC client then
        drops its work in progress.  A current key is replaced: a new strong key also renews the
        weak key.  For an account with a second factor, or without a password, keys are revoked only
        on the page `/account/keys/`.
        """
        password = self.body()["password"]
        account_keys.find_live(self.account, key_id)
        account = _proven(self, password)
        account_keys.revoke_key(account=account, key_id=key_id, now=self.now)
        return Response(status=204)


def _proven(endpoint: Endpoint, password: str) -> Account:
    """Return the account of the token if this is its password.

    Raises `Problem` for an account without a password, and the exceptions of `of_password`.
    """
    owner = endpoint.account
    if not owner.has_usable_password():
        msg = f"The account has no password. Hint: log in to the site, and use the page {_PAGE}."
        raise Problem(403, "password_needed", msg)
    account = api_tokens.of_password(
        email=owner.email,
        password=password,
        address=str(endpoint.request.META.get("REMOTE_ADDR", "")),
        page=_PAGE,
        now=endpoint.now,
    )
    audit.identify(account)
    return account
