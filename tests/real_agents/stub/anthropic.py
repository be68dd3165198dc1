"""Anthropic's Messages."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tests.real_agents.stub.dialect import Body, Event, Reply, part, server_sent, spoken
from tests.real_agents.stub.tools import Schemas

_USAGE = {"input_tokens": 1200, "output_tokens": 50, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
_ERRORS = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}


class Anthropic:
    """``POST /v1/messages``."""

    def tools(self, body: Body) -> Schemas:
        return {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or ()}

    def schema(self, body: Body) -> dict[str, Any] | None:
        wanted = part(part(body, "output_config"), "format") or part(body, "output_format")
        return wanted.get("schema") if wanted.get("type") == "json_schema" else None

    def answer(self, body: Body, reply: Reply) -> Iterator[Event] | Body:
        message: Body = {
            "id": f"msg_{uuid.uuid4().hex}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "stub"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _USAGE,
        }
        blocks = list(_blocks(reply))
        stop: Body = {"stop_reason": "tool_use" if reply.use is not None else "end_turn", "stop_sequence": None}
        if not body.get("stream"):
            return message | stop | {"content": [block for block, _ in blocks]}
        return _stream(message, blocks, stop)

    def failure(self, status: int, text: str) -> Body:
        kind = _ERRORS.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_stub"}


def _blocks(reply: Reply) -> Iterator[tuple[Body, list[tuple[Body, float]]]]:
    """The blocks of the content, each with the deltas that it comes in."""
    if reply.thinking:
        thinking = {"type": "thinking", "thinking": reply.thinking, "signature": "c3R1Yg=="}
        yield (
            thinking,
            [
                ({"type": "thinking_delta", "thinking": reply.thinking}, 0.0),
                ({"type": "signature_delta", "signature": "c3R1Yg=="}, 0.0),
            ],
        )
    if reply.text:
        deltas = [({"type": "text_delta", "text": word}, pause_s) for word, pause_s in spoken(reply)]
        yield {"type": "text", "text": reply.text}, deltas
    if reply.use is not None:
        use = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:24]}", "name": reply.use.name}
        arguments = json.dumps(reply.use.arguments)
        yield use | {"input": reply.use.arguments}, [({"type": "input_json_delta", "partial_json": arguments}, 0.0)]


_EMPTY: dict[str, Body] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}


def _stream(message: Body, blocks: list[tuple[Body, list[tuple[Body, float]]]], stop: Body) -> Iterator[Event]:
    yield _event("message_start", {"message": message})
    for index, (block, deltas) in enumerate(blocks):
        yield _event("content_block_start", {"index": index, "content_block": block | _EMPTY[block["type"]]})
        for delta, pause_s in deltas:
            yield _event("content_block_delta", {"index": index, "delta": delta}, pause_s)
        yield _event("content_block_stop", {"index": index})
    yield _event("message_delta", {"delta": stop, "usage": {"output_tokens": 50}})
    yield _event("message_stop", {})


def _event(kind: str, data: Body, pause_s: float = 0.0) -> Event:
    return server_sent({"type": kind, **data}, event=kind, pause_s=pause_s)
