"""Summaries by a model behind an OpenAI-compatible endpoint: one ``POST …/chat/completions`` each.

Redirects are not followed and proxies not asked: the key goes to the address that settings have, and nowhere else.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from typing import Any, cast
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

from scrubjay.fleet.summary_prompt import INSTRUCTION, Prompt
from scrubjay.server.sessions.summariser import ANSWER_MAX_BYTES, MAKE_WITHIN_S, SummariserFailed, shown, tidy

CONNECT_WITHIN_S = 10.0
_CHUNK_BYTES = 65536


class EndpointSummariser:
    """A model at an address."""

    def __init__(self, url: str, model: str, key: str | None) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None, "settings are checked where they are read"
        self._tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port or (443 if self._tls else 80)
        self._where, self._path, self._model, self._key = parts.netloc, f"{parts.path}/chat/completions", model, key

    @property
    def name(self) -> str:
        """Who it is, for people."""
        return f"summariser:{self._host}"

    @property
    def model(self) -> str | None:
        """The model it asks."""
        return self._model

    async def make(self, prompt: Prompt) -> str:
        """A summary; SummariserFailed says why there is none."""
        said = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": prompt.turns}]
        body = json.dumps({"model": self._model, "messages": said, "stream": False}).encode()
        try:
            async with asyncio.timeout(MAKE_WITHIN_S):
                answer = await self._ask(body)
        except TimeoutError as error:
            raise SummariserFailed(f"{self._where} took longer than {MAKE_WITHIN_S:.0f} s") from error
        except (OSError, HttpParserError) as error:  # TLS that is refused is an OSError, too
            why = str(error) or type(error).__name__
            raise SummariserFailed(f"{self._where} cannot be asked: {shown(why)}") from error
        return tidy(self._content(answer))

    async def _ask(self, body: bytes) -> _Answer:
        reader, writer = await self._connect()
        try:
            writer.write(self._head(len(body)) + body)
            await writer.drain()
            answer = _Answer()
            while not answer.complete and (data := await reader.read(_CHUNK_BYTES)):
                answer.feed(data)
                if len(answer.body) > ANSWER_MAX_BYTES:
                    raise SummariserFailed(f"{self._where} has answered more than {ANSWER_MAX_BYTES >> 20} MiB")
            return answer
        finally:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = ssl.create_default_context() if self._tls else None
        try:
            async with asyncio.timeout(CONNECT_WITHIN_S):
                return await asyncio.open_connection(self._host, self._port, ssl=context)
        except TimeoutError as error:
            raise SummariserFailed(f"{self._where} does not answer") from error

    def _head(self, length: int) -> bytes:
        lines = [
            f"POST {self._path} HTTP/1.1",
            f"Host: {self._where}",
            "Content-Type: application/json",
            f"Content-Length: {length}",
            "Accept: application/json",
            "User-Agent: scrubjay",
            "Connection: close",
        ]
        if self._key is not None:
            lines.append(f"Authorization: Bearer {self._key}")
        return "\r\n".join([*lines, "", ""]).encode("ascii")

    def _content(self, answer: _Answer) -> str:
        try:
            told: object = json.loads(bytes(answer.body))
        except ValueError:
            told = None
        if answer.status != HTTPStatus.OK:
            why = _complaint(told)
            raise SummariserFailed(f"{self._where} answered {answer.status or 'nothing'}{f': {why}' if why else ''}")
        content = _find(told, "choices", 0, "message", "content")
        if not isinstance(content, str):
            raise SummariserFailed(f"{self._where} has answered with something that is no completion")
        return content


class _Answer:
    """A response, as far as it has come."""

    def __init__(self) -> None:
        self.status = 0
        self.body = bytearray()
        self.complete = False
        self._parser = HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.complete = self.status >= HTTPStatus.OK  # an interim one is followed by another

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()


def _complaint(told: object) -> str:
    """What an endpoint says is wrong, in one line."""
    for message in (_find(told, "error", "message"), _find(told, "error")):
        if isinstance(message, str):
            return shown(message)
    return ""


def _find(value: object, *path: str | int) -> object:
    """What is there in a JSON value; None if nothing is."""
    for key in path:
        if isinstance(value, list) and isinstance(key, int):
            items = cast("list[Any]", value)
            value = items[key] if len(items) > key else None
        elif isinstance(value, dict):
            value = cast("Mapping[object, object]", value).get(key)
        else:
            return None
    return value
