"""Tools to wait for others, so that everybody sees who is blocked on whom."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scrubjay.errors import BadInput
from scrubjay.replay.instants import deadline_of
from scrubjay.server.coordination.waits import WaitFor
from scrubjay.server.mcp.arguments import At, IdempotencyKey, Reason, TimeoutS
from scrubjay.server.mcp.toolbox import Desk, Tool, tool
from scrubjay.tape.record import Json

DEFAULT_TIMEOUT_S = 20.0  # below what clients give a tool; several have a minute


@tool(idempotent=True)
async def wait_for(
    desk: Desk,
    pod: Annotated[
        str | None, Field(description="Until this pod finishes its turn, speaks to you or hands you something.")
    ] = None,
    artifact: Annotated[str | None, Field(description="Until something with this key is handed over (by pod).")] = None,
    channel: Annotated[str | None, Field(description="Until there is a new message in it (of pod).")] = None,
    reason: Reason = None,
    deadline: Annotated[
        str | float | None, Field(description="When it takes too long: seconds, 15m, or 2026-11-15T02:14.")
    ] = None,
    timeout_s: TimeoutS = DEFAULT_TIMEOUT_S,
    wait: Annotated[str | None, Field(description="Ask again for a wait that you have begun.")] = None,
    after: Annotated[
        int | None, Field(ge=0, description="Of a channel: the number of the last message you saw.")
    ] = None,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Wait for a pod, an artifact or a channel. Blocks up to timeout_s; if it is still open then, ask again with the
    wait it returns, or stop: you are told in your inbox when it ends. Others see that you wait, and on whom."""
    waits = desk.coordination.waits
    if wait is not None:
        if pod is not None or artifact is not None or channel is not None:
            raise BadInput("wait alone asks again", hint="leave pod, artifact and channel out")
        return await waits.ask_again(desk.actor, wait, timeout_s=timeout_s)
    deadline_us = deadline_of(deadline, desk.tower.clock.wall_us()) if deadline is not None else None
    wanted = WaitFor(pod, artifact, channel, after, reason, deadline_us)
    return await waits.wait_for(desk.actor, wanted, timeout_s=timeout_s, key=idempotency_key)


@tool(destructive=True, idempotent=True)
async def cancel_wait(
    desk: Desk, wait: Annotated[str, Field(description="The wait's id.")], reason: Reason = None
) -> Json:
    """Wait no longer for something."""
    return await desk.coordination.waits.cancel(desk.actor, wait, reason=reason)


@tool(read_only=True)
async def list_waits(desk: Desk, at: At = None) -> Json:
    """Who waits on whom among those you know, and deadlocks: circles in which nobody goes on unless a wait is
    cancelled."""
    return await desk.coordination.waits.list(desk.actor, at_us=desk.instant(at))


TOOLS: tuple[Tool, ...] = (wait_for, cancel_wait, list_waits)
