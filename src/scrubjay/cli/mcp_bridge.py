"""MCP over standard input and output, carried to the ``/mcp`` of a server and back.

A line that comes in is a request of HTTP of its own; what is answered, as JSON or as a stream of events, goes out as
lines. Nothing else does. The server may be started again in the middle: whatever it cannot have heard of is said again,
all else is answered with an error that says so.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import NamedTuple, cast

from scrubjay.cli.client import Client, NotScrubjay, ServerUnreachable, refusal
from scrubjay.errors import ScrubjayError

_Json = dict[str, object]

PATH = "/mcp"
CONNECT_S = 10.0
SILENCE_MAX_S = 90.0  # the server says every 15 s that it is still there
AWAY_MAX_S = 20.0  # for a server that was there to come back; it takes two or three
ABSENT_MAX_S = 3.0  # for one that nobody has seen
BEAT_S = 15.0  # a quarter of how long a session is held by somebody silent
FINISH_S = 1.5  # for what is under way when the client has closed our input; official clients end us after 2
AT_ONCE_MAX = 64

_RETRY_S = 0.1
_PARSE_ERROR, _INVALID_REQUEST, _FAILED = -32700, -32600, -32000
# What changes nothing may be said again, even if the server has heard it.
_HARMLESS = frozenset({"initialize", "ping", "server/discover", "tools/list", "prompts/list", "resources/list"})
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_STREAM = "text/event-stream"
_KINDS = ("application/json", _STREAM)
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED = re.compile(r"=\?base64\?.*\?=")


class _Hello(NamedTuple):
    """How a client began, and what came of it."""

    message: _Json
    session: str | None
    version: str | None


class _NotNow(Exception):
    """The server was not there, or could do nothing; it has not begun with the request."""

    def __init__(self, error: ScrubjayError) -> None:
        self.error = error
        super().__init__(str(error))


class _Broken(ScrubjayError):
    """The connection broke after the request had been sent."""

    def __init__(self) -> None:
        super().__init__(
            "the connection to the server broke before it answered",
            hint="it may have been carried out or not: look before you call again",
        )


class Bridge:
    """One client on one side, one server on the other."""

    def __init__(
        self,
        client: Client,
        write: Callable[[bytes], None],
        complain: Callable[[str], None],
        *,
        session: str | None = None,
        takeover: bool = False,
    ) -> None:
        """``write`` takes a line of the protocol; ``complain`` words for people; ``session`` is what to go on with,
        ``takeover`` also if another connection has it."""
        self._client = client
        # By which the server tells this process from another with the same token.
        self._named = {"Scrubjay-Connection": os.urandom(16).hex()}
        if session is not None:
            self._named["Scrubjay-Session"] = session
        if takeover:
            self._named["Scrubjay-Takeover"] = "true"
        self._write, self._complain = write, complain
        self._lock = threading.Lock()  # of what is written and of what is under way
        self._renewing = threading.Lock()
        self._room = threading.BoundedSemaphore(AT_ONCE_MAX)
        self._under_way: dict[str, _Exchange] = {}
        self._threads: set[threading.Thread] = set()
        self._complaint: str | None = None
        self._hello: _Hello | None = None
        self._meta: object = None  # of the last message of a client that says in each what it is in
        self._reached = False
        self.ending = threading.Event()  #: nothing more will come, and nobody waits for a server that is away

    def run(self, lines: Iterable[bytes]) -> None:
        """Carry lines until there are no more."""
        threading.Thread(target=self._keep_alive, daemon=True).start()
        for line in lines:
            if line.strip():
                self._take(line)
        self.ending.set()
        until = time.monotonic() + FINISH_S
        for thread in list(self._threads):
            thread.join(max(0.0, until - time.monotonic()))
        self._leave()

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._fail(None, _PARSE_ERROR, "that is not JSON")
            return
        if not isinstance(message, dict):
            self._fail(None, _INVALID_REQUEST, "one message at a time")
            return
        asked = cast(_Json, message)
        method = asked.get("method")
        if not isinstance(method, str):
            return  # the answer to a question: the server asks none
        if method == "notifications/cancelled":
            self._cancel(asked)
            return
        exchange = _Exchange(self, asked, method)
        if method == "initialize":
            exchange.run()  # what comes after it needs to know what was agreed on
            return
        self._room.acquire()
        thread = threading.Thread(target=self._run, args=(exchange,), daemon=True)
        self._threads.add(thread)
        thread.start()

    def _run(self, exchange: _Exchange) -> None:
        try:
            exchange.run()
        finally:
            self._threads.discard(threading.current_thread())
            self._room.release()

    def _cancel(self, message: _Json) -> None:
        """Hang up on the request that is not wanted any more: that ends it in every version of the protocol."""
        params = message.get("params")
        if isinstance(params, dict):
            with self._lock:
                exchange = self._under_way.get(_key(cast(_Json, params).get("requestId")))
            if exchange is not None:
                exchange.cancel()

    def _keep_alive(self) -> None:
        """Let the server know that the client is there, which may think for long: it keeps the session it holds."""
        while not self.ending.wait(BEAT_S):
            if self._reached and not self._under_way:
                method, params = ("ping", {}) if self._meta is None else ("server/discover", {"_meta": self._meta})
                beat: _Json = {"jsonrpc": "2.0", "id": "scrubjay-beat", "method": method, "params": params}
                _Exchange(self, beat, method, silent=True).run()

    def _leave(self) -> None:
        """Say that nobody will come over this connection again: what it holds is free."""
        if not self._reached:
            return
        headers = self._credential() | self._named
        if self._hello is not None and self._hello.session is not None:
            headers["Mcp-Session-Id"] = self._hello.session
        with suppress(OSError, http.client.HTTPException):
            connection = self._client.connect(1.0)
            connection.request("DELETE", PATH, headers=headers)
            connection.getresponse()
            connection.close()

    # For exchanges.

    @property
    def where(self) -> str:
        """The server, for people."""
        return self._client.where

    def begin(self, exchange: _Exchange) -> None:
        """An exchange is under way."""
        with self._lock:
            self._under_way[_key(exchange.id)] = exchange

    def end(self, exchange: _Exchange) -> None:
        """An exchange is over."""
        with self._lock:
            self._under_way.pop(_key(exchange.id), None)

    def say(self, message: _Json) -> None:
        """Write a message to the client."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._lock, suppress(OSError):  # who does not read any more will soon end us
            self._write(line)

    def _fail(self, request: object, code: int, message: str, data: object = None) -> None:
        error: _Json = {"code": code, "message": message}
        if data is not None:
            error["data"] = data
        self.say({"jsonrpc": "2.0", "id": request, "error": error})

    def fail(self, exchange: _Exchange, error: ScrubjayError) -> None:
        """Tell the client, and who looks after it, why there is no answer."""
        self.complain(error)
        if exchange.wants_answer:
            text = str(error) if error.hint is None else f"{error}; {error.hint}"
            self._fail(exchange.id, _FAILED, text)

    def complain(self, error: ScrubjayError) -> None:
        """Say what is wrong, once until it is something else."""
        line = str(error) if error.hint is None else f"{error}; {error.hint}"
        # A server that is away is one trouble, whether its socket refuses or is not there any more.
        trouble = self.where if isinstance(error, ServerUnreachable) else line
        with self._lock:
            if trouble == self._complaint:
                return
            self._complaint = trouble
        self._complain(" ".join(line.split()))

    def open(self) -> http.client.HTTPConnection:
        """A connection to the server; _NotNow if it is not there, ServerUnreachable if it cannot be."""
        connection = self._client.connect(CONNECT_S)
        try:
            connection.connect()
        except OSError as error:
            unreachable = ServerUnreachable(self.where, error.strerror or str(error) or type(error).__name__)
            if isinstance(error, (ConnectionError, FileNotFoundError, TimeoutError)):
                raise _NotNow(unreachable) from error
            raise unreachable from error
        connection.sock.settimeout(SILENCE_MAX_S)
        return connection

    def patience_s(self) -> float:
        """How long to wait for the server."""
        return AWAY_MAX_S if self._reached else ABSENT_MAX_S

    def reached(self) -> None:
        """The server has answered."""
        self._reached = True
        self._complaint = None

    def headers(self, message: _Json, method: str) -> dict[str, str]:
        """What goes with a message, so that the server need not read it to know what it is."""
        headers = self._credential() | self._named
        headers |= {
            "Content-Type": "application/json",
            "Accept": ", ".join(_KINDS),
        }
        version = _version_of(message)
        if version is not None:
            self._meta = cast(_Json, message["params"])["_meta"]
            return headers | _modern(message, method, version)
        if method != "initialize" and self._hello is not None:
            if self._hello.version is not None:
                headers["MCP-Protocol-Version"] = self._hello.version
            if self._hello.session is not None:
                headers["Mcp-Session-Id"] = self._hello.session
        return headers

    def agreed(self, message: _Json, session: str | None, answer: _Json) -> None:
        """A handshake has succeeded."""
        result = answer.get("result")
        version = cast(_Json, result).get("protocolVersion") if isinstance(result, dict) else None
        self._hello = _Hello(message, session, version if isinstance(version, str) else None)

    def renew(self, session: str) -> bool:
        """Shake hands once more, as the server does not know a session any more; False if that cannot be done."""
        with self._renewing:
            if self._hello is None:
                return False
            if self._hello.session == session:
                _Exchange(self, self._hello.message, "initialize", silent=True).run()
            return self._hello.session != session

    def _credential(self) -> dict[str, str]:
        token = self._client.token
        return {} if token is None else {"Authorization": f"Bearer {token}"}


class _Exchange:
    """One message to the server and what is answered."""

    def __init__(self, bridge: Bridge, message: _Json, method: str, *, silent: bool = False) -> None:
        self.id = message.get("id")
        self.wants_answer = "id" in message and not silent
        self._bridge, self._message, self._method, self._silent = bridge, message, method, silent
        self._socket: socket.socket | None = None
        self._cancelled = False
        self._answered = False

    def run(self) -> None:
        """Carry it out; whatever happens, a request is answered, unless it was cancelled."""
        if self.wants_answer:
            self._bridge.begin(self)
        try:
            self._persist()
        except ScrubjayError as error:
            if not self._cancelled and not self._silent:
                self._bridge.fail(self, error)
        finally:
            if self.wants_answer:
                self._bridge.end(self)

    def cancel(self) -> None:
        """Hang up."""
        self._cancelled = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _persist(self) -> None:
        """Say it until the server has heard it, or it is away for too long."""
        until = time.monotonic() + self._bridge.patience_s()
        while not self._cancelled:
            try:
                if self._attempt():
                    return
            except _NotNow as missed:
                self._bridge.complain(missed.error)
                if time.monotonic() > until or self._bridge.ending.wait(_RETRY_S):
                    raise missed.error from missed
            except (OSError, http.client.HTTPException) as error:
                if self._method not in _HARMLESS or self._answered or time.monotonic() > until:
                    raise _Broken from error
                self._bridge.ending.wait(_RETRY_S)

    def _attempt(self) -> bool:
        """Say it once; False if it is to be said again. OSError or HTTPException if the connection breaks."""
        connection = self._bridge.open()
        self._socket = connection.sock
        try:
            if self._cancelled:
                return True
            headers = self._bridge.headers(self._message, self._method)
            connection.request("POST", PATH, body=json.dumps(self._message).encode(), headers=headers)
            return self._hear(connection.getresponse(), headers.get("Mcp-Session-Id"))
        except UnicodeEncodeError as error:
            raise ScrubjayError("a name in the request cannot be sent") from error
        finally:
            self._socket = None
            connection.close()

    def _hear(self, response: http.client.HTTPResponse, session: str | None) -> bool:
        status = response.status
        if status == HTTPStatus.NOT_FOUND and session is not None and self._bridge.renew(session):
            return False
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise _NotNow(refusal(status, response.read()))
        if status >= HTTPStatus.BAD_REQUEST:
            self._hear_refusal(status, response.read())
            return True
        if status != HTTPStatus.ACCEPTED and (status != HTTPStatus.OK or _kind(response) not in _KINDS):
            raise NotScrubjay(self._bridge.where)
        self._bridge.reached()
        for message in _messages(response):
            self._pass_on(message, response)
            if self._answered:
                return True
        if self.wants_answer:
            raise http.client.IncompleteRead(b"")
        return True

    def _pass_on(self, message: _Json, response: http.client.HTTPResponse) -> None:
        if "method" not in message and message.get("id") == self.id:
            self._answered = True
            if self._method == "initialize" and "result" in message:
                self._bridge.agreed(self._message, response.getheader("Mcp-Session-Id"), message)
        if not self._silent and not self._cancelled:
            self._bridge.say(message)

    def _hear_refusal(self, status: int, body: bytes) -> None:
        """Pass on an error of the protocol; what the server itself refuses becomes one."""
        error = _protocol_error(body)
        if error is None:
            raise refusal(status, body)
        self._bridge.reached()
        if self.wants_answer:
            self._bridge.say({"jsonrpc": "2.0", "id": self.id, "error": error})


def _protocol_error(body: bytes) -> _Json | None:
    try:
        answer = json.loads(body)
        return cast(_Json, dict(answer["error"])) if answer["jsonrpc"] == "2.0" else None
    except (ValueError, KeyError, TypeError):
        return None


def _kind(response: http.client.HTTPResponse) -> str:
    return (response.getheader("Content-Type") or "").partition(";")[0].strip().lower()


def _messages(response: http.client.HTTPResponse) -> Iterator[_Json]:
    """The messages of an answer: one, none, or those of a stream as they come."""
    for body in _events(response) if _kind(response) == _STREAM else [response.read()]:
        if body.strip():
            try:
                message = json.loads(body)
            except ValueError as error:
                raise http.client.HTTPException("what was answered is not JSON") from error
            if isinstance(message, dict):
                yield cast(_Json, message)


def _events(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each event of a stream; comments say only that the server is still there."""
    data: list[bytes] = []
    for raw in lines:
        line = raw.rstrip(b"\r\n")
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []


def _version_of(message: _Json) -> str | None:
    """The version that a message is in, if it is one of those that say it in each."""
    params = message.get("params")
    meta = cast(_Json, params).get("_meta") if isinstance(params, dict) else None
    version = cast(_Json, meta).get(_VERSION_KEY) if isinstance(meta, dict) else None
    return version if isinstance(version, str) else None


def _modern(message: _Json, method: str, version: str) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": _encode(version), "Mcp-Method": _encode(method)}
    params = message.get("params")
    name = cast(_Json, params).get(_NAMED_BY.get(method, "")) if isinstance(params, dict) else None
    if isinstance(name, str):
        headers["Mcp-Name"] = _encode(name)
    return headers


def _encode(value: str) -> str:
    """A value as a header can have it; the server knows how to read the other form."""
    if _PLAIN.fullmatch(value) and not _ENCODED.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def _key(request: object) -> str:
    """What a request is known by: 1 and "1" are two."""
    return json.dumps(request)
