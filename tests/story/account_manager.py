"""A small account manager, which reads the project's pages and answers clients."""

from __future__ import annotations

import re
import threading
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from scheduler import signing

NAME = "Many managers"


class AccountManager:
    """An account manager for one person with an account of the project.

    It attaches clients by the account's weak key, and passes on name, team and preferences that
    `am_get_info.php` returns at each request.
    """

    def __init__(self, project_url: str, key: str) -> None:
        self.project_url, self.key = project_url, key
        self.signing_key = signing._new_private_key()
        self.requests: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def read(self, page: str, **params: object) -> ET.Element:
        """Return the root of a reply of the project."""
        query = urllib.parse.urlencode({"account_key": self.key, **params})
        with urllib.request.urlopen(f"{self.project_url}{page}?{query}", timeout=30) as answer:
            return ET.fromstring(answer.read())

    def host_id(self) -> str:
        """Return the project's host id in the last request of a client, or "0"."""
        found = re.findall(r"<hostid>(\d+)</hostid>", "".join(self.requests[-1:]))
        return found[0] if found else "0"

    def reply(self) -> str:
        """Return the reply to a client, with the current account."""
        info = self.read("am_get_info.php")
        team_id = info.findtext("teamid", "0")
        team = (
            "" if team_id == "0" else self.read("team_lookup.php", team_id=team_id).findtext("name")
        )
        prefs = info.find("global_prefs/global_preferences")
        public = signing._public_text(self.signing_key.public_numbers)
        signature = signing._sign(signing._md5(self.project_url), self.signing_key)
        return (
            '<?xml version="1.0" encoding="UTF-8" ?>\n<acct_mgr_reply>\n'
            f"<name>{NAME}</name>\n"
            f"<signing_key>\n{public}\n</signing_key>\n"
            f"<user_name>{escape(urllib.parse.unquote_plus(info.findtext('name', '')))}</user_name>\n"
            f"<team_name>{escape(team or '')}</team_name>\n"
            "<repeat_sec>86400</repeat_sec>\n"
            "<account>\n"
            f"<url>{self.project_url}</url>\n<url_signature>\n{signature}\n</url_signature>\n"
            f"<authenticator>{info.findtext('weak_auth')}</authenticator>\n<update/>\n"
            "</account>\n"
            f"{'' if prefs is None else ET.tostring(prefs, encoding='unicode')}\n"
            "</acct_mgr_reply>\n"
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        manager = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                """Answer `get_project_config.php`, which the client reads first."""
                self._send(
                    f"<project_config><name>{NAME}</name><account_manager/></project_config>"
                )

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                manager.requests.append(self.rfile.read(length).decode(errors="replace"))
                self._send(manager.reply())

            def _send(self, text: str) -> None:
                body = text.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_args: Any) -> None:
                pass

        return Handler
