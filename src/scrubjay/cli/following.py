"""What is said in a channel, as it is said: every message once, in order, whatever becomes of the connection."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast
from urllib.parse import quote

from websockets.exceptions import InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from scrubjay.cli.client import Client, ServerRefused, ServerUnreachable, refusal
from scrubjay.tape.record import Json
from scrubjay.unix_sockets import dial

_RETRY_S = 0.5
_RETRIES = 60  # half a minute: a server that is started again takes a few seconds
_OPEN_WITHIN_S = 10.0
_GOODBYE_S = 1.0
_PAGE = 200
_NEWS = ("message.posted", "channel.archived")


def follow_channel(client: Client, path: str, *, after: int | None, limit: int) -> Generator[Json]:
    """The newest messages of a channel, or all after one, and then those that come, until it is archived.

    The fleet's changes only say that there is something new; what it is is asked for by its number, so nothing is
    missed or comes twice. ServerUnreachable if the server stays away.
    """
    first = cast(Json, client.get(path, after=after, limit=limit))
    channel = str(first["channel_id"])
    by_id = f"/api/v1/channels/{quote(channel, safe='')}/messages"  # it is read so when it is archived, too
    last, failures = after or 0, 0
    for message in cast("list[Json]", first["messages"]):
        last = cast(int, message["seq"])
        yield message
    while True:
        why = "it hung up"
        try:
            for archived in _news_of(client, channel):
                for message in _after(client, by_id, last):
                    last = cast(int, message["seq"])
                    yield message
                if archived:
                    return
                failures = 0
        except (WebSocketException, OSError, ServerUnreachable, ServerRefused) as error:
            _require_welcome(error)
            why = str(error)
        failures += 1
        if failures > _RETRIES:
            raise ServerUnreachable(client.where, why)
        time.sleep(_RETRY_S)


def _require_welcome(error: Exception) -> None:
    """ServerRefused if the server will say the same however often it is asked."""
    if isinstance(error, ServerRefused) and error.status < 500:
        raise error
    if isinstance(error, InvalidStatus) and error.response.status_code < 500:
        raise refusal(error.response.status_code, bytes(error.response.body or b"")) from error


def _after(client: Client, path: str, last: int) -> Generator[Json]:
    """All messages with higher numbers."""
    while True:
        answer = cast(Json, client.get(path, after=last, limit=_PAGE))
        for message in cast("list[Json]", answer["messages"]):
            last = cast(int, message["seq"])
            yield message
        if last >= cast(int, answer["last"]):
            return


def _news_of(client: Client, channel: str) -> Generator[bool]:
    """Something may be new in a channel: once at first, and then when it is; True if it has been archived."""
    with _listen(client) as connection:
        for text in connection:
            told = cast(Json, json.loads(text))
            if told["type"] == "caught":
                yield False
            elif told.get("kind") in _NEWS and cast(Json, told["data"])["channel"] == channel:
                yield told["kind"] == "channel.archived"


@contextmanager
def _listen(client: Client) -> Generator[ClientConnection]:
    """The fleet's changes from now on."""
    headers = {"Authorization": f"Bearer {client.token}"} if client.token is not None else {}
    if client.url is None:
        # The socket is ours to make: its path may be longer than a library takes.
        dialled = dial(client.path, timeout_s=_OPEN_WITHIN_S)
        address = "ws://localhost/api/v1/fleet"
    else:
        dialled = None
        address = "ws" + client.url.removeprefix("http").rstrip("/") + "/api/v1/fleet"
    with connect(
        address,
        sock=dialled,
        additional_headers=headers,
        compression=None,
        max_size=None,
        open_timeout=_OPEN_WITHIN_S,
        close_timeout=_GOODBYE_S,
    ) as connection:
        yield connection
