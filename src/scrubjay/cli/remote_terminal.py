"""A person's terminal at a pod elsewhere: over a WebSocket what ``attach`` does over the keeper's socket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import termios
import time
import tty
from contextlib import suppress
from typing import cast

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from scrubjay.cli.client import Client, ServerRefused, ServerUnreachable, pod_path, refusal
from scrubjay.cli.context import say
from scrubjay.cli.modes import Modes
from scrubjay.cli.terminal import terminal_size
from scrubjay.errors import BadInput
from scrubjay.keeper.detach import DetachKeys
from scrubjay.keeper.replies import Replies
from scrubjay.tape.record import Json
from scrubjay.wire.viewer import FORBIDDEN, GONE, KEYFRAME, LOGGED_OUT, decode_screen

_LOST = 1
_RETRY_S = 0.5
_RETRIES = 20
_GOODBYE_S = 1.0  # for a server that is away to agree that we leave
_REFUSALS = {
    LOGGED_OUT: ("the token is not good any more", "'scrubjay token create' on that machine makes another"),
    FORBIDDEN: ("this token may only watch", "'scrubjay logs -f' and 'scrubjay screen' show a pod without typing"),
    GONE: ("the pod was deleted", None),
}
_ASKED_S, _ASKED_BYTES = 1.0, 8192  # how long ago the agent may have asked for what our terminal answers now


def join_elsewhere(client: Client, pod: str) -> int:
    """Show the pod and pass on what is typed, until its agent ends or the person leaves; the exit status."""
    if not os.isatty(0) or not os.isatty(1):
        raise BadInput("attach needs a terminal", hint="'scrubjay logs' and 'scrubjay send' work without one")
    return asyncio.run(_Joined(client, pod).run())


class _Joined:
    """One person at one pod."""

    def __init__(self, client: Client, pod: str) -> None:
        assert client.url is not None
        self._address = "ws" + client.url.removeprefix("http").rstrip("/") + pod_path(pod, "live")
        self._client, self._pod = client, pod
        self._modes = Modes()
        self._keys = DetachKeys()
        self._replies = Replies(self._position_asked)  # the pod's own terminal answers; ours is not to do it too
        self._release: asyncio.TimerHandle | None = None
        self._recent, self._shown_at = b"", 0.0
        self._connection: ClientConnection | None = None
        self._typed: asyncio.Queue[bytes | Json] = asyncio.Queue()
        self._staying: asyncio.Task[None] | None = None
        self._closing: asyncio.Future[None] | None = None
        self._failures = 0
        self._ended = False
        self._status: int | None = None
        self._left = False

    async def run(self) -> int:
        """Serve until it ends."""
        before = termios.tcgetattr(0)
        loop = asyncio.get_running_loop()
        tty.setraw(0, termios.TCSANOW)
        loop.add_reader(0, self._read_keys)
        loop.add_signal_handler(signal.SIGWINCH, self._send_size)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave)
        self._staying = loop.create_task(self._stay_connected())
        try:
            with suppress(asyncio.CancelledError):
                await self._staying
        finally:
            loop.remove_reader(0)
            try:
                os.write(1, self._modes.leave())
                termios.tcsetattr(0, termios.TCSAFLUSH, before)
            except (OSError, termios.error):
                sys.stderr.close()  # the terminal is gone, and with it whoever would read this
        return self._report()

    def _report(self) -> int:
        if not self._ended:
            if not sys.stderr.closed:
                say(f"scrubjay: left pod {self._pod} running; come back with: scrubjay attach {self._pod}")
            return 0
        if self._status is None:
            say(f"scrubjay: pod {self._pod} was lost")
            return _LOST
        say(f"scrubjay: pod {self._pod} ended with {self._status}")
        return self._status

    async def _stay_connected(self) -> None:
        token = self._client.token
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        while not self._left and not self._ended:
            why = "it hung up"
            try:
                async with connect(
                    self._address,
                    additional_headers=headers,
                    compression=None,
                    max_size=None,
                    close_timeout=_GOODBYE_S,
                ) as connection:
                    await self._converse(connection)
            except (OSError, WebSocketException, TimeoutError) as error:
                self._require_welcome(error)
                why = str(error) or why
            if self._left or self._ended:
                return
            self._failures += 1
            if self._failures > _RETRIES:
                raise ServerUnreachable(self._client.where, why)
            await asyncio.sleep(_RETRY_S)

    def _require_welcome(self, error: Exception) -> None:
        """ServerRefused if the server will say the same however often it is asked."""
        if isinstance(error, InvalidStatus) and error.response.status_code < 500:
            raise refusal(error.response.status_code, bytes(error.response.body or b"")) from error
        if isinstance(error, ConnectionClosed) and error.rcvd is not None and error.rcvd.code in _REFUSALS:
            what, hint = _REFUSALS[error.rcvd.code]
            raise ServerRefused(error.rcvd.code - 4000, error.rcvd.reason, what, hint) from error

    async def _converse(self, connection: ClientConnection) -> None:
        await connection.send(json.dumps({"type": "take"}))  # before keys that were typed meanwhile
        self._connection = connection
        self._send_size()
        sending = asyncio.create_task(self._send(connection))
        try:
            async for message in connection:
                self._failures = 0  # it talks; one that only lets us in and hangs up does not
                if isinstance(message, bytes):
                    self._show(message)
                else:
                    self._hear(cast(Json, json.loads(message)))
                if self._left or self._ended:
                    return
        finally:
            self._connection = None
            sending.cancel()
            with suppress(asyncio.CancelledError, ConnectionClosed):
                await sending

    async def _send(self, connection: ClientConnection) -> None:
        while True:
            message = await self._typed.get()
            await connection.send(message if isinstance(message, bytes) else json.dumps(message))

    def _show(self, message: bytes) -> None:
        kind, _, _, _, data = decode_screen(message)
        if kind == KEYFRAME:
            data = b"\x1b[H\x1b[2J" + data
        self._recent = (self._recent + data)[-_ASKED_BYTES:]
        self._shown_at = time.monotonic()
        self._modes.feed(data)
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]

    def _hear(self, message: Json) -> None:
        """Take in what the server says."""
        if message["type"] in ("hello", "status") and message["process"] in ("exited", "lost"):
            status = message.get("exit_status")
            self._status = status if isinstance(status, int) else None
            self._ended = True
        elif message["type"] == "refusal":
            sys.stdout.write(f"\r\n[scrubjay: {message['message']}]\r\n")
            sys.stdout.flush()

    def _position_asked(self) -> bool:
        asked = b"\x1b[6n" in self._recent or b"\x1b[?6n" in self._recent
        return asked and time.monotonic() - self._shown_at <= _ASKED_S

    def _read_keys(self) -> None:
        try:
            data = os.read(0, 65536)
        except OSError:
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(0)  # it would be ready for ever
            self._leave()
            return
        leaves = False
        typed = self._replies.feed(data)
        if typed:
            keys, leaves = self._keys.feed(typed)
            self._type(keys)
        self._await_rest()
        if leaves:
            self._leave()

    def _leave(self) -> None:
        self._left = True
        if self._connection is not None:
            self._closing = asyncio.ensure_future(self._connection.close())
        elif self._staying is not None:
            self._staying.cancel()

    def _await_rest(self) -> None:
        """Type what is kept back unless more comes soon: a key that may be the first of two, or half an answer."""
        if self._release is not None:
            self._release.cancel()
            self._release = None
        if self._replies.holding or self._keys.holding:
            hold_s = self._replies.hold_s if self._replies.holding else DetachKeys.HOLD_S
            self._release = asyncio.get_running_loop().call_later(hold_s, self._release_held)

    def _release_held(self) -> None:
        if self._replies.holding:
            typed = self._replies.release()
            if typed:
                self._type(self._keys.feed(typed)[0])
        else:
            self._type(self._keys.release())
        self._await_rest()

    def _type(self, keys: bytes) -> None:
        if keys:
            self._typed.put_nowait(keys)

    def _send_size(self) -> None:
        size = terminal_size()
        if size is not None:
            self._typed.put_nowait({"type": "resize", "cols": size[0], "rows": size[1]})
