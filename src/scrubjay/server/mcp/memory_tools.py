"""Tools to remember the turns of a session, to find them again, and to sum them up."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scrubjay.fleet.memories import TEXT_MAX, TOOLS_MAX, WORD_MAX, Turn
from scrubjay.server.mcp.arguments import At, IdempotencyKey, SessionHandle
from scrubjay.server.mcp.toolbox import Desk, Tool, tool
from scrubjay.tape.record import Json

Cursor = Annotated[str | None, Field(description="The one of the page before, for the next page.")]


@tool()
async def add_memory(
    desk: Desk,
    prompt: Annotated[str, Field(max_length=TEXT_MAX, description="What you were asked.")] = "",
    thought: Annotated[str, Field(max_length=TEXT_MAX, description="What you considered and decided.")] = "",
    response: Annotated[str, Field(max_length=TEXT_MAX, description="What you did and answered.")] = "",
    model: Annotated[str | None, Field(max_length=WORD_MAX, description="Which model you are.")] = None,
    tools: Annotated[list[str] | None, Field(max_length=TOOLS_MAX, description="Tools you used.")] = None,
    tokens: Annotated[int | None, Field(ge=0, description="How many the turn took.")] = None,
    session_id: SessionHandle = None,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Remember a turn of your work. It gets the next number, seq, of your session, without a gap. Give an
    idempotency_key, and the same one when you try again: then it is remembered once."""
    turn = Turn(prompt, thought, response, model, tuple(tools or ()), tokens)
    return await desk.coordination.memories.add(desk.actor, turn, session=session_id, key=idempotency_key)


@tool(read_only=True)
async def query_raw_memories(
    desk: Desk,
    query: Annotated[str, Field(min_length=1, max_length=1000, description='Words; "a phrase", begin*, -without.')],
    session_id: SessionHandle = None,
    agent: Annotated[str | None, Field(description="Only of this agent.")] = None,
    pod: Annotated[str | None, Field(description="Only of this pod.")] = None,
    since: At = None,
    until: At = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    cursor: Cursor = None,
) -> Json:
    """Find memories by what they say, newest first: yours, and of pods whose terminal you may read."""
    return await desk.coordination.memories.search(
        desk.actor,
        query,
        session=session_id,
        agent=agent,
        pod=pod,
        since_us=desk.instant(since),
        until_us=desk.instant(until),
        cursor=cursor,
        limit=limit,
    )


@tool(idempotent=True)
async def get_session_memories(
    desk: Desk,
    session_id: SessionHandle = None,
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    cursor: Cursor = None,
) -> Json:
    """The memories of a session in order, from the first."""
    return await desk.coordination.memories.list(desk.actor, session_id, cursor=cursor, limit=limit)


@tool(idempotent=True)
async def save_summary(
    desk: Desk,
    text: Annotated[str, Field(description="What they come to.")],
    to_seq: Annotated[int | None, Field(ge=1, description="Up to this memory; by default the last.")] = None,
    session_id: SessionHandle = None,
) -> Json:
    """Sum up the memories of your session that no summary has yet. The same again changes nothing."""
    return await desk.coordination.summing_up.save(desk.actor, text, to_seq=to_seq, session=session_id)


@tool(idempotent=True)
async def get_summary(desk: Desk, session_id: SessionHandle = None) -> Json:
    """The summaries of a session in order, and how many memories have none yet."""
    return await desk.coordination.summing_up.show(desk.actor, session_id)


TOOLS: tuple[Tool, ...] = (
    add_memory,
    query_raw_memories,
    get_session_memories,
    save_summary,
    get_summary,
)
