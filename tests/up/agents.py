"""Agents of pods that call tools over MCP."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import cast

from scrubjay.pods.pod import Pod
from scrubjay.tape.record import Json
from tests.support.in_process_up import InProcessUp
from tests.support.mcp_client import MODERN_VERSION, Raw, connected


class Agent:
    """Somebody who calls tools, with the token of a pod or another."""

    def __init__(self, name: str, raw: Raw, token: str, pod: Pod | None = None) -> None:
        self.name, self.token = name, token
        self._raw, self._pod = raw, pod

    @property
    def pod(self) -> Pod:
        """The pod it is in."""
        assert self._pod is not None
        return self._pod

    async def tools(self) -> list[Json]:
        """All tools, as they are listed."""
        return cast(list[Json], (await self._raw.ask("tools/list"))["tools"])

    async def result(self, tool: str, **arguments: object) -> Json:
        """The whole answer to a call."""
        return await self._raw.ask("tools/call", name=tool, arguments=arguments)

    async def call(self, tool: str, **arguments: object) -> Json:
        """What a tool answers; AssertionError if it is a refusal."""
        result = await self.result(tool, **arguments)
        assert not result.get("isError"), (self.name, tool, arguments, result["structuredContent"])
        return cast(Json, result["structuredContent"])

    async def refusal(self, tool: str, **arguments: object) -> Json:
        """Why a tool will not; AssertionError if it does."""
        result = await self.result(tool, **arguments)
        assert result.get("isError"), (self.name, tool, arguments, result["structuredContent"])
        return cast(Json, cast(Json, result["structuredContent"])["error"])


@asynccontextmanager
async def open_agents(up: InProcessUp, *names: str, argv: tuple[str, ...] = ("cat",)) -> AsyncGenerator[list[Agent]]:
    """An agent for each name, in a pod of that name."""
    async with AsyncExitStack() as stack:
        agents: list[Agent] = []
        for name in names:
            pod = await up.start(*argv, name=name)
            token = await up.token("pod", pod=pod.id)
            http = await stack.enter_async_context(connected(up.server.url, token))
            agents.append(Agent(name, Raw(http, MODERN_VERSION), token, pod))
        yield agents
        for agent in agents:
            if up.is_running(agent.pod):
                await up.stop(agent.pod)


@asynccontextmanager
async def open_agent(up: InProcessUp, role: str, name: str) -> AsyncGenerator[Agent]:
    """Somebody with a token of a role."""
    token = await up.token(role, name=name)
    async with connected(up.server.url, token) as http:
        yield Agent(name, Raw(http, MODERN_VERSION), token)


async def acquaint(*agents: Agent, channel: str) -> None:
    """Let agents be in one channel."""
    first, *others = agents
    await first.call("create_channel", name=channel)
    for other in others:
        await other.call("join_channel", channel=channel)


async def bind(one: Agent, other: Agent, *scopes: str) -> str:
    """Let one agent have scopes on another it knows; the binding's id."""
    asked = await one.call("request_binding", pod=other.name, scopes=list(scopes))
    await other.call("answer_binding", binding=asked["id"], accept=True)
    return str(asked["id"])
