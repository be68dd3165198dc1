"""The stub model's server on loopback, in a thread of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.real_agents.stub.anthropic import Anthropic
from tests.real_agents.stub.chat import Chat
from tests.real_agents.stub.dialect import Body, Dialect, Event, Reply
from tests.real_agents.stub.gemini import Gemini
from tests.real_agents.stub.responses import Responses
from tests.real_agents.stub.script import Answer, Failure, Shell, Step
from tests.real_agents.stub.tools import filler, takes_turns, translate
from tests.support.conditions import DEADLINE_S, eventually

_DIALECTS: dict[str, Dialect] = {
    "/messages": Anthropic(),
    "/responses": Responses(),
    "/chat/completions": Chat(),
    ":generateContent": Gemini(streams=False),
    ":streamGenerateContent": Gemini(streams=True),
}
# What agents ask besides, and need some answer to.
_FACTS: dict[str, Body] = {
    "/messages/count_tokens": {"input_tokens": 1000},
    ":countTokens": {"totalTokens": 1000},
    "/models": {"object": "list", "data": [{"id": "stub-model", "object": "model", "owned_by": "stub"}]},
}
_UNPLANNED = Answer("Nothing more was planned.")
_ASIDE = Answer("A small matter")  # a title, a summary, a suggestion
_LOOK_EVERY_S = 0.01


@dataclass
class Request:
    """One request to the model, and what became of it."""

    path: str
    headers: dict[str, str]
    body: Body
    is_turn: bool  #: whether it took a step of the script
    answered: bool = False  #: everything was sent

    @property
    def conversation(self) -> list[str]:
        """Every text in the conversation so far, whoever said it."""
        return list(_texts([self.body.get(part) for part in ("messages", "input", "contents")]))

    def heard(self, text: str) -> bool:
        """Whether something in the conversation has this text in it."""
        return any(text in said for said in self.conversation)


class Stub:
    """A model server with a script. Each turn takes a step; titles, counts and the like take none."""

    def __init__(self, *, every_request_is_a_turn: bool = False) -> None:
        self.requests: list[Request] = []
        self._script: deque[Step] = deque()
        self._forever: Step = _UNPLANNED
        self._every_request_is_a_turn = every_request_is_a_turn
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        app = Starlette(routes=[Route("/{path:path}", self._serve, methods=["GET", "POST"])])
        config = uvicorn.Config(app, log_config=None, lifespan="off")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: self._server.started, "the stub model listens")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(DEADLINE_S)
        self._socket.close()

    def plan(self, *steps: Step) -> None:
        """Add steps to the script."""
        self._script.extend(steps)

    def plan_forever(self, step: Step) -> None:
        """What every turn gets when the script is at its end."""
        self._forever = step

    @property
    def turns(self) -> list[Request]:
        """The requests that took a step."""
        return [request for request in self.requests if request.is_turn]

    def tools_of(self, request: Request) -> list[str]:
        """The names of the tools that a request offers."""
        dialect = next(dialect for end, dialect in _DIALECTS.items() if request.path.endswith(end))
        return list(dialect.tools(request.body))

    async def _serve(self, http: HttpRequest) -> Response:
        path = http.url.path
        for end, fact in _FACTS.items():
            if path.endswith(end):
                return JSONResponse(fact)
        dialect = next((dialect for end, dialect in _DIALECTS.items() if path.endswith(end)), None)
        if dialect is None or http.method != "POST":
            return JSONResponse({"error": {"message": "the stub has nothing here"}}, 404)
        body = cast(Body, json.loads(await http.body()))
        is_turn = self._every_request_is_a_turn or takes_turns(dialect.tools(body))
        request = Request(path, dict(http.headers), body, is_turn)
        self.requests.append(request)
        step = self._next() if is_turn else _ASIDE
        if isinstance(step, Failure):
            request.answered = True
            return JSONResponse(dialect.failure(step.status, step.text), step.status, dict(step.headers))
        answer = dialect.answer(body, _reply(dialect, body, step))
        if isinstance(answer, dict):
            await asyncio.sleep(step.silent_s + step.over_s)
            await _let_go(step)
            request.answered = True
            return JSONResponse(answer)
        return StreamingResponse(_send(request, answer, step), media_type="text/event-stream")

    def _next(self) -> Step:
        return self._script.popleft() if self._script else self._forever


def _reply(dialect: Dialect, body: Body, answer: Answer) -> Reply:
    tools, schema = dialect.tools(body), dialect.schema(body)
    text = answer.text if schema is None else json.dumps(filler(schema, answer.text))
    if answer.call is None:
        return Reply(text, answer.over_s, answer.thinking)
    if not tools and isinstance(answer.call, Shell):
        # An agent without tools takes commands out of the text.
        return Reply(f"{text}\n\n```bash\n{answer.call.command}\n```\n", answer.over_s, answer.thinking)
    return Reply(text, answer.over_s, answer.thinking, translate(answer.call, tools))


async def _send(request: Request, answer: Iterator[Event], step: Answer) -> AsyncGenerator[str]:
    events = list(answer)
    await asyncio.sleep(step.silent_s)
    half = len(events) // 2
    for number, event in enumerate(events[:half] if step.cut else events):
        if number == half:
            await _let_go(step)
        await asyncio.sleep(event.pause_s)
        yield event.data
    request.answered = True
    if step.cut:
        raise ConnectionAbortedError("as the script has it")


async def _let_go(step: Answer) -> None:
    """Wait until the test lets the answer go on."""
    while step.held is not None and not step.held.is_set():
        await asyncio.sleep(_LOOK_EVERY_S)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in cast(dict[str, Any], value).values():
                yield from _texts(inner)
        case list():
            for inner in cast(list[Any], value):
                yield from _texts(inner)
        case _:
            pass
