"""Ask a server: over its unix socket on this machine, or over HTTP with a token."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from scrubjay.errors import BadInput, ScrubjayError
from scrubjay.unix_sockets import dial

_TIMEOUT_S = 90.0  # above what the server gives a runner to answer


class ServerUnreachable(ScrubjayError):
    """No server answers there."""

    def __init__(self, where: str, why: str) -> None:
        self.where, self.why = where, why
        super().__init__(f"no server answers at {where}: {why}", hint="start one with 'scrubjay up'")


class ServerRefused(ScrubjayError):
    """A server has answered no."""

    def __init__(self, status: int, code: str, message: str, hint: str | None) -> None:
        self.status, self.code = status, code
        super().__init__(message, hint=hint)


class NotScrubjay(ScrubjayError):
    """Something else answers there."""

    def __init__(self, where: str) -> None:
        self.where = where
        super().__init__(f"what answers at {where} is not a Scrubjay server", hint="check the address and its port")


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = dial(self._path, timeout_s=self.timeout)


class _Request(NamedTuple):
    method: str
    path: str
    body: Mapping[str, object] | None
    query: Mapping[str, object]
    timeout_s: float
    key: str | None


class Client:
    """One server, asked by one command."""

    def __init__(self, url: str | None, token: str | None, path: Path) -> None:
        """With a ``url`` the server there, else the one of this machine at its unix socket."""
        self.url, self.token, self.path = url, token, path
        if url is not None:
            check_address(url)
        if token is not None:
            check_token(token)

    @property
    def where(self) -> str:
        """The server, for people."""
        return self.url if self.url is not None else str(self.path)

    def get(self, path: str, **query: object) -> object:
        """What the server says; ServerRefused or ServerUnreachable."""
        return self.ask("GET", path, query=query)

    def post(
        self,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        timeout_s: float = _TIMEOUT_S,
        key: str | None = None,
    ) -> object:
        """Have something done; with a ``key`` once, even if the connection breaks and it is asked for again."""
        return self.ask("POST", path, body={} if body is None else body, timeout_s=timeout_s, key=key)

    def delete(self, path: str, **query: object) -> object:
        """Have something taken away."""
        return self.ask("DELETE", path, query=query)

    def ask(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, object] | None = None,
        query: Mapping[str, object] = {},
        timeout_s: float = _TIMEOUT_S,
        key: str | None = None,
    ) -> object:
        """Send a request and return what the answer holds."""
        response, data = self._send(_Request(method, path, body, query, timeout_s, key))
        if response.status == HTTPStatus.NO_CONTENT:
            return None
        try:
            return json.loads(data)
        except ValueError as error:
            raise NotScrubjay(self.where) from error

    def fetch(self, path: str, query: Mapping[str, object] = {}) -> tuple[http.client.HTTPMessage, bytes]:
        """What the server has there, as it is: headers and bytes."""
        response, data = self._send(_Request("GET", path, None, query, _TIMEOUT_S, None))
        return response.headers, data

    def _send(self, request: _Request) -> tuple[http.client.HTTPResponse, bytes]:
        headers = {"Accept": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        if request.key is not None:
            headers["Idempotency-Key"] = request.key
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        try:
            try:
                response, data = self._exchange(request, headers)
            except (http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionResetError):
                if request.key is None:
                    raise
                response, data = self._exchange(request, headers)
        except (OSError, http.client.HTTPException) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or "it hung up"
            raise ServerUnreachable(self.where, why) from error
        if response.status >= 400:
            raise refusal(response.status, data)
        if response.status >= 300:
            raise NotScrubjay(self.where)  # as a proxy that wants its own login first
        return response, data

    def _exchange(self, request: _Request, headers: Mapping[str, str]) -> tuple[http.client.HTTPResponse, bytes]:
        given = [(name, value) for name, value in request.query.items() if value is not None]
        target = request.path + ("?" + urlencode(given, doseq=True) if given else "")
        data = None if request.body is None else json.dumps(request.body).encode()
        connection = self.connect(request.timeout_s)
        try:
            connection.request(request.method, target, body=data, headers=headers)
            response = connection.getresponse()
            return response, response.read()
        finally:
            connection.close()

    def connect(self, timeout_s: float) -> http.client.HTTPConnection:
        """A connection of its own, which is made when it is first used."""
        if self.url is None:
            return _UnixConnection(self.path, timeout_s)
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)

    def answers(self) -> bool:
        """Whether a server is there."""
        try:
            self.fetch("/healthz")
        except ScrubjayError:
            return False
        return True


def check_address(url: str) -> None:
    """BadInput unless it can be the address of a server."""
    try:
        parts = urlsplit(url)
        good = (
            parts.scheme in ("http", "https") and parts.hostname and parts.hostname.encode("idna") and parts.port != 0
        )
    except ValueError:
        good = False
    if not good:
        raise BadInput(f"{url!r} is not a server's address", hint="it is like http://127.0.0.1:8477")


def check_token(token: str) -> None:
    """BadInput unless it can be a token; it is a secret, so nobody is told what it is instead."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadInput("what SCRUBJAY_TOKEN holds is not a token", hint="a token is one word that begins with sjt_")


def login_link_of(client: Client, *, role: str = "operator", name: str = "browser") -> str:
    """A new link that logs a browser in, once."""
    answer = client.post("/api/v1/logins", {"role": role, "name": name})
    assert isinstance(answer, dict)
    return str(answer["url"])  # pyright: ignore[reportUnknownArgumentType]


def pod_path(pod: str, *more: str) -> str:
    """The path of a pod, whatever its name holds."""
    return "/".join(["/api/v1/pods", quote(pod, safe=""), *more])


def refusal(status: int, answer: bytes) -> ServerRefused:
    """The no that a server has answered with."""
    try:
        error = json.loads(answer)["error"]
        return ServerRefused(status, str(error["code"]), str(error["message"]), error.get("hint"))
    except (ValueError, KeyError, TypeError):
        return ServerRefused(status, "unknown", f"the server answered {status}", None)
