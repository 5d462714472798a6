"""An OpenID Connect provider that logs in the person whom the test names."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "manyhands", "the secret of the client"


@dataclass
class Provider:
    """The provider; `claims` and `userinfo` are those of the next person that logs in."""

    server: ThreadingHTTPServer
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "first"}))
    #: The key with which tokens are signed; another one makes wrong signatures.
    signing_key: RSAKey | None = None
    #: The header of a token that is signed with the public key as a shared secret.
    forged_header: dict[str, str] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] | None = None
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def authorize(self, location: str) -> str:
        """Log the person in; return the callback to which the browser is sent."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(location).query).items()}
        assert (query["client_id"], query["response_type"]) == (CLIENT, "code")
        assert query["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe()
        self.codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}"

    def token(self, form: dict[str, str]) -> dict[str, Any]:
        assert (form["client_id"], form["client_secret"]) == (CLIENT, SECRET)
        query = self.codes.pop(form["code"])
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300}
        claims |= {"nonce": query["nonce"], **self.claims}
        signed = jwt.encode({"alg": "RS256", "kid": "first"}, claims, self.signing_key or self.key)
        if self.forged_header:
            signed = self._forge(claims)
        return {"access_token": "access", "token_type": "Bearer", "id_token": signed}

    def _forge(self, claims: dict[str, Any]) -> str:
        parts = [json.dumps(part).encode() for part in (self.forged_header, claims)]
        text = b".".join(map(urlsafe_b64encode, parts)).replace(b"=", b"")
        signature = hmac.digest(self.key.as_pem(private=False), text, "sha256")
        return (text + b"." + urlsafe_b64encode(signature).rstrip(b"=")).decode()

    def answer(self, path: str, form: dict[str, str]) -> Any:
        self.requests.append(path)
        if path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token"}
            names |= {"jwks_uri": "keys"} | ({"userinfo_endpoint": "me"} if self.userinfo else {})
            config = {name: f"{self.url}/{path}" for name, path in names.items()}
            methods = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
            return {"issuer": self.url, **config, **methods}
        if path == "/keys":
            return {"keys": [self.key.as_dict(private=False)]}
        return self.userinfo if path == "/me" else self.token(form)


@contextmanager
def serving() -> Iterator[Provider]:
    """Yield a provider that serves HTTP in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/authorize?"):
                self.send_response(302)
                self.send_header("Location", provider.authorize(self.path))
                self.end_headers()
                return
            length = int(self.headers.get("Content-Length") or 0)
            form = {
                name: values[0]
                for name, values in parse_qs(self.rfile.read(length).decode()).items()
            }
            body = json.dumps(provider.answer(self.path, form)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  the name that http.server calls

        def log_message(self, *_words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = Provider(server)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
