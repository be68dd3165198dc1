"""OpenAI's Chat Completions."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

from tests.real_agents.stub.dialect import Body, Event, Reply, part, server_sent, spoken
from tests.real_agents.stub.openai import refusal
from tests.real_agents.stub.tools import Schemas

_USAGE = {"prompt_tokens": 1200, "completion_tokens": 50, "total_tokens": 1250}


class Chat:
    """``POST /v1/chat/completions``."""

    def tools(self, body: Body) -> Schemas:
        functions: list[Body] = [tool["function"] for tool in body.get("tools") or () if "function" in tool]
        return {function["name"]: function.get("parameters") or {} for function in functions}

    def schema(self, body: Body) -> dict[str, Any] | None:
        wanted = part(body, "response_format")
        return wanted["json_schema"].get("schema") if wanted.get("type") == "json_schema" else None

    def answer(self, body: Body, reply: Reply) -> Iterator[Event] | Body:
        envelope: Body = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": body.get("model", "stub"),
        }
        finish = "tool_calls" if reply.use is not None else "stop"
        if body.get("stream"):
            return _stream(envelope, reply, finish, usage=bool(part(body, "stream_options").get("include_usage")))
        message: Body = {"role": "assistant", "content": reply.text, **_calls(reply)}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return envelope | {"object": "chat.completion", "choices": [choice], "usage": _USAGE}

    def failure(self, status: int, text: str) -> Body:
        return refusal(status, text)


def _stream(envelope: Body, reply: Reply, finish: str, *, usage: bool) -> Iterator[Event]:
    chunk = envelope | {"object": "chat.completion.chunk"}

    def event(delta: Body, pause_s: float = 0.0, finish: str | None = None) -> Event:
        return server_sent(
            chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}, pause_s=pause_s
        )

    yield event({"role": "assistant", "content": ""})
    if reply.thinking:
        yield event({"reasoning_content": reply.thinking})
    for word, pause_s in spoken(reply):
        yield event({"content": word}, pause_s)
    if reply.use is not None:
        yield event(_calls(reply))
    yield event({}, finish=finish)
    if usage:
        yield server_sent(chunk | {"choices": [], "usage": _USAGE})
    yield Event("data: [DONE]\n\n")


def _calls(reply: Reply) -> Body:
    if reply.use is None:
        return {}
    function = {"name": reply.use.name, "arguments": json.dumps(reply.use.arguments)}
    return {
        "tool_calls": [{"index": 0, "id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}]
    }
