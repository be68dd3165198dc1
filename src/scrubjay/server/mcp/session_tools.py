"""Tools to come back to a session after a disconnect, to leave one, and to hand one over."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scrubjay.errors import NotForRole
from scrubjay.fleet.access import may
from scrubjay.server.mcp.arguments import IdempotencyKey, Reason, SessionHandle
from scrubjay.server.mcp.toolbox import Desk, Tool, tool
from scrubjay.server.rest.once import once
from scrubjay.server.sessions.pod_resume import Wanted
from scrubjay.tape.record import Json


@tool(idempotent=True)
async def resume_session(
    desk: Desk,
    session_id: Annotated[
        str | None, Field(max_length=200, description="The session to go on with; without it, the one you are in.")
    ] = None,
    *,
    takeover: Annotated[bool, Field(description="Also from a connection that still has it.")] = False,
    reopen: Annotated[bool, Field(description="Also if it is finished or has expired.")] = False,
) -> Json:
    """Go on with a session after a disconnect: what you add continues its numbered memory. Look at resumed: if it is
    false you are in a new, empty session, and reason and warning say why."""
    return await desk.coordination.resuming.resume(desk.actor, session_id, takeover=takeover, reopen=reopen)


@tool(read_only=True)
async def list_sessions(
    desk: Desk,
    *,
    include_all: Annotated[bool, Field(description="Also those that are held, finished or expired.")] = False,
    limit: Annotated[int, Field(ge=1, le=200)] = 20,
) -> Json:
    """Your sessions that can be resumed, last used first, with what each was doing."""
    listed = await desk.coordination.resuming.list(desk.actor, everything=include_all, limit=limit)
    return {"sessions": listed}


@tool(destructive=True, idempotent=True)
async def finish_session(
    desk: Desk,
    session_id: SessionHandle = None,
    reason: Reason = None,
    *,
    only_leave: Annotated[bool, Field(description="Let go of it; it can be resumed as it is.")] = False,
) -> Json:
    """Say that a session has come to its end. It can be resumed after that only by reopening it."""
    return await desk.coordination.resuming.finish(desk.actor, session_id, why=reason, only_leave=only_leave)


@tool()
async def handoff_session(
    desk: Desk,
    to: Annotated[str, Field(description="The pod or agent that is to go on with it.")],
    note: Annotated[str, Field(description="What they must know.")],
    session_id: SessionHandle = None,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Offer a session to somebody else. When they take it with accept_handoff it is theirs, with all its memories, and
    you cannot write into it any more."""
    return await desk.coordination.resuming.hand_over(desk.actor, to, note, session=session_id, key=idempotency_key)


@tool(destructive=True)
async def resume_pod(
    desk: Desk,
    pod: Annotated[str, Field(max_length=200, description="A pod that has ended, or a session.")],
    prompt: Annotated[str | None, Field(max_length=20_000, description="What to tell its agent first.")] = None,
    *,
    takeover: Annotated[bool, Field(description="End the pod that has the session, if one does.")] = False,
    check: Annotated[bool, Field(description="Only look what is in the way, and start nothing.")] = False,
    idempotency_key: IdempotencyKey = None,
) -> Json:
    """Start a new pod that goes on with the session of another: same worktree, same conversation. For people."""
    if not may(desk.asker, "run"):
        raise NotForRole("only people start pods", hint="ask a person, or go on with a session by resume_session")
    wanted = Wanted(takeover=takeover, check=check, prompt=prompt)
    key = None if idempotency_key is None or check else f"resume_pod {pod} {idempotency_key}"
    return await once(desk.tower, desk.asker, key, lambda: desk.coordination.pod_resume.resume(desk.actor, pod, wanted))


TOOLS: tuple[Tool, ...] = (resume_session, list_sessions, finish_session, handoff_session, resume_pod)
