"""Gemini's generateContent and streamGenerateContent."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

from tests.real_agents.stub.dialect import Body, Event, Reply, part, server_sent, spoken
from tests.real_agents.stub.tools import Schemas

_USAGE = {"promptTokenCount": 1200, "candidatesTokenCount": 50, "totalTokenCount": 1250}
_ERRORS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}


class Gemini:
    """``POST /v1beta/models/MODEL:generateContent``, whole or streamed."""

    def __init__(self, *, streams: bool) -> None:
        self._streams = streams

    def tools(self, body: Body) -> Schemas:
        offered: list[Body] = [
            function for tool in body.get("tools") or () for function in tool.get("functionDeclarations") or ()
        ]
        return {tool["name"]: tool.get("parametersJsonSchema") or tool.get("parameters") or {} for tool in offered}

    def schema(self, body: Body) -> dict[str, Any] | None:
        wanted = part(body, "generationConfig")
        return wanted.get("responseJsonSchema") or wanted.get("responseSchema")

    def answer(self, body: Body, reply: Reply) -> Iterator[Event] | Body:
        if self._streams:
            return _stream(reply)
        return _chunk([*([{"text": reply.text}] if reply.text else []), *_calls(reply)], finish="STOP")

    def failure(self, status: int, text: str) -> Body:
        return {"error": {"code": status, "message": text, "status": _ERRORS.get(status, "INTERNAL")}}


def _stream(reply: Reply) -> Iterator[Event]:
    if reply.thinking:
        yield server_sent(_chunk([{"text": reply.thinking, "thought": True}]))
    for word, pause_s in spoken(reply):
        yield server_sent(_chunk([{"text": word}]), pause_s=pause_s)
    yield server_sent(_chunk(_calls(reply) or [{"text": ""}], finish="STOP"))


def _calls(reply: Reply) -> list[Body]:
    if reply.use is None:
        return []
    return [{"functionCall": {"id": uuid.uuid4().hex[:8], "name": reply.use.name, "args": reply.use.arguments}}]


def _chunk(parts: list[Body], finish: str | None = None) -> Body:
    candidate: Body = {"content": {"role": "model", "parts": parts}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": "stub"}
