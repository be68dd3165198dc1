"""Tools to hand work over."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scrubjay.fleet.untrusted import NOTE
from scrubjay.server.mcp.arguments import IdempotencyKey
from scrubjay.server.mcp.toolbox import Desk, Tool, tool
from scrubjay.tape.record import Json

HandoffId = Annotated[str, Field(description="A handoff's id, or the key of an artifact.")]


@tool()
async def offer_handoff(
    desk: Desk,
    note: Annotated[str, Field(description="What it is, and what whoever takes it should know.")],
    to: Annotated[str | None, Field(description="The pod it is for.")] = None,
    artifact: Annotated[str | None, Field(max_length=200, description="A key that others wait for it by.")] = None,
    files: Annotated[list[str] | None, Field(max_length=200, description="Paths.")] = None,
    commit: Annotated[str | None, Field(max_length=200, description="A commit or branch.")] = None,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Hand something over to a pod, or to whoever waits for its key. Whoever waited for it goes on."""
    return await desk.coordination.handoffs.offer(
        desk.actor,
        note=note,
        to=to,
        artifact=artifact,
        files=tuple(files or ()),
        commit=commit,
        key=idempotency_key,
    )


@tool(idempotent=True)
async def accept_handoff(desk: Desk, handoff: HandoffId, idempotency_key: IdempotencyKey = None) -> Json:
    """Take what was handed over to you, or an artifact that is there."""
    taken = await desk.coordination.handoffs.accept(desk.actor, handoff, key=idempotency_key)
    return {"note_is": NOTE, **taken}


@tool(destructive=True)
async def decline_handoff(desk: Desk, handoff: HandoffId, idempotency_key: IdempotencyKey = None) -> Json:
    """Do not take what was handed over to you, or offer yours no longer."""
    return await desk.coordination.handoffs.decline(desk.actor, handoff, key=idempotency_key)


@tool(read_only=True)
async def list_handoffs(
    desk: Desk, *, include_taken: Annotated[bool, Field(description="Also what was taken or declined.")] = False
) -> Json:
    """What is handed over to you, by you, or for everybody."""
    return {"note_is": NOTE, "handoffs": await desk.coordination.handoffs.list(desk.actor, everything=include_taken)}


TOOLS: tuple[Tool, ...] = (offer_handoff, accept_handoff, decline_handoff, list_handoffs)
