"""A security key in software, which answers requests of the site (WebAuthn)."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import websafe_encode
from fido2.webauthn import (
    AttestationObject,
    AttestedCredentialData,
    AuthenticatorData,
    CollectedClientData,
)

_FLAG = AuthenticatorData.FLAG


class SecurityKey:
    """A key of one account at the site with this origin, as a browser would use it."""

    def __init__(self, origin: str, host: str) -> None:
        self.origin, self.host = origin, host
        self.private = ec.generate_private_key(ec.SECP256R1())
        self.id = secrets.token_bytes(32)

    def register(self, options: dict[str, Any]) -> str:
        """Return the answer to the options of `navigator.credentials.create`, as JSON."""
        public = ES256.from_cryptography_key(self.private.public_key())
        attested = AttestedCredentialData.create(bytes(16), self.id, public)
        data = self._data(_FLAG.UP | _FLAG.AT, attested)
        response = {
            "clientDataJSON": websafe_encode(self._client_data("webauthn.create", options)),
            "attestationObject": websafe_encode(AttestationObject.create("none", data, {})),
        }
        return self._answer(response)

    def sign(self, options: dict[str, Any]) -> str:
        """Return the answer to the options of `navigator.credentials.get`, as JSON."""
        client_data = self._client_data("webauthn.get", options)
        data = self._data(_FLAG.UP)
        signed = data + hashlib.sha256(client_data).digest()
        response = {
            "clientDataJSON": websafe_encode(client_data),
            "authenticatorData": websafe_encode(data),
            "signature": websafe_encode(self.private.sign(signed, ec.ECDSA(hashes.SHA256()))),
        }
        return self._answer(response)

    def _client_data(self, kind: str, options: dict[str, Any]) -> CollectedClientData:
        challenge = options["publicKey"]["challenge"]
        return CollectedClientData.create(kind, challenge, self.origin)

    def _data(self, flags: int, attested: bytes = b"") -> AuthenticatorData:
        host_hash = hashlib.sha256(self.host.encode()).digest()
        return AuthenticatorData.create(host_hash, _FLAG(flags), 0, attested)

    def _answer(self, response: dict[str, str]) -> str:
        key_id = websafe_encode(self.id)
        answer = {"id": key_id, "rawId": key_id, "type": "public-key", "response": response}
        return json.dumps(answer | {"clientExtensionResults": {}})
