"""The agent's HTTP: metrics, report and liveness for everybody, orders for whoever has the token.

Each request is answered from what is known already, so a hung driver never holds up a scrape.
"""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trimtab.model.errors import DeclarationError
from trimtab.model.health_wire import mark_of
from trimtab.model.wire import Fields
from trimtab_agent.node.agent import Agent, document
from trimtab_agent.node.cordon import ConflictError
from trimtab_agent.node.metrics import NodeCollector, exposition

BODY_MOST = 16384
REQUEST_SECONDS = 5.0


class AgentServer(ThreadingHTTPServer):
    """Serves one agent."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], agent: Agent, collector: NodeCollector, token: str | None, version: str
    ) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, Handler)
        self.agent = agent
        self.collector = collector
        self.token = token
        self.version = version


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: AgentServer
    timeout = REQUEST_SECONDS
    server_version = "trimtab-agent"
    sys_version = ""

    def do_GET(self) -> None:
        """Serve what may be read."""
        if self.path == "/metrics":
            self._answer(HTTPStatus.OK, exposition(self.server.collector), "text/plain; version=0.0.4; charset=utf-8")
        elif self.path == "/v1/report":
            self._json(HTTPStatus.OK, document(self.server.agent.findings(), self.server.version))
        elif self.path == "/healthz":
            self._json(HTTPStatus.OK, {"alive": True})
        else:
            self._json(HTTPStatus.NOT_FOUND, {"error": "there are /metrics, /v1/report and /healthz"})

    def do_POST(self) -> None:
        """Take an order."""
        orders: Mapping[str, Callable[[Any], None]] = {"/v1/cordon": self._cordon, "/v1/uncordon": self._uncordon}
        order = orders.get(self.path)
        if order is None:
            self._json(HTTPStatus.NOT_FOUND, {"error": "there are /v1/cordon and /v1/uncordon"})
        elif not self._is_authorised():
            self._json(HTTPStatus.UNAUTHORIZED, {"error": "a bearer token is needed"})
        else:
            self._obey(order)

    def _obey(self, order: Callable[[Any], None]) -> None:
        try:
            order(json.loads(self._body()))
        except (DeclarationError, ValueError) as error:
            self._json(HTTPStatus.BAD_REQUEST, {"error": str(error)})
        except RecursionError:
            self._json(HTTPStatus.BAD_REQUEST, {"error": "the body is nested too deeply"})
        except ConflictError as error:
            self._json(HTTPStatus.CONFLICT, {"error": str(error)})
        except OSError as error:
            self._json(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": f"the mark cannot be stored: {error.strerror}"})
        else:
            self._json(HTTPStatus.OK, {"done": True})

    def _cordon(self, body: Any) -> None:
        if not isinstance(body, dict):
            raise DeclarationError("body", "expected a mapping")
        self.server.agent.marks.cordon(mark_of(body, datetime.now(UTC)))

    def _uncordon(self, body: Any) -> None:
        fields = Fields(body, "body")
        self.server.agent.marks.uncordon(fields.text("owner"), fields.whole("epoch"))

    def _is_authorised(self) -> bool:
        given = self.headers.get("Authorization", "")
        token = self.server.token
        return token is not None and hmac.compare_digest(given.encode(), f"Bearer {token}".encode())

    def _body(self) -> bytes:
        try:
            length = int(self.headers.get("Content-Length", "0"))
        except ValueError:
            length = -1
        if not 0 <= length <= BODY_MOST:
            raise ValueError(f"the body may have {BODY_MOST} bytes and needs a Content-Length")
        return self.rfile.read(length)

    def _json(self, status: HTTPStatus, body: Any) -> None:
        self._answer(status, json.dumps(body).encode(), "application/json")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Scrapes are not news."""
