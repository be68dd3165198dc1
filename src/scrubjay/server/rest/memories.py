"""Memories: read those of a session, add one, find some."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query

from scrubjay.fleet.memories import Turn
from scrubjay.server.rest import session_models
from scrubjay.server.rest.acting import InCoordination, TheActor
from scrubjay.server.rest.context import InTower, RawInstant, instant_us
from scrubjay.server.rest.sessions import RawSession

router = APIRouter(prefix="/api/v1", tags=["memories"])
Cursor = Annotated[str | None, Query(max_length=40, description="The one of the page before, for the next page.")]


@router.get("/sessions/{session}/memories", summary="The memories of a session in order")
async def of_session(
    coordination: InCoordination,
    actor: TheActor,
    session: RawSession,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> session_models.Memories:
    """Numbered from 1 without a gap."""
    found = await coordination.memories.list(actor, session, cursor=cursor, limit=limit)
    return session_models.Memories.model_validate(_without_words(found))


@router.post("/sessions/{session}/memories", status_code=201, summary="Remember something")
async def add(
    coordination: InCoordination,
    actor: TheActor,
    session: RawSession,
    memory: session_models.NewMemory,
    idempotency_key: Annotated[
        str | None, Header(max_length=200, description="The same again is remembered once, however it is called.")
    ] = None,
) -> session_models.Added:
    """In a session that nobody holds."""
    turn = Turn(memory.prompt, memory.thought, memory.response, memory.model, tuple(memory.tools), memory.tokens)
    added = await coordination.memories.add(actor, turn, session=session, key=idempotency_key)
    return session_models.Added.model_validate(_without_words(added))


@router.get("/memories", summary="Memories that say something, newest first")
async def search(
    tower: InTower,
    coordination: InCoordination,
    actor: TheActor,
    query: Annotated[str, Query(min_length=1, max_length=1000, description='Words; "a phrase", begin*, -without.')],
    session: Annotated[str | None, Query(max_length=200)] = None,
    agent: Annotated[str | None, Query(max_length=200)] = None,
    pod: Annotated[str | None, Query(max_length=200)] = None,
    since: RawInstant = None,
    until: RawInstant = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
) -> session_models.Memories:
    """Of all sessions, or of one, of an agent, of a pod, of a span of time."""
    found = await coordination.memories.search(
        actor,
        query,
        session=session,
        agent=agent,
        pod=pod,
        since_us=instant_us(tower, since),
        until_us=instant_us(tower, until),
        cursor=cursor,
        limit=limit,
    )
    return session_models.Memories.model_validate(_without_words(found))


def _without_words(answer: dict[str, object]) -> dict[str, object]:
    """The same without what only an agent must be told."""
    words = ("note", "warning", "new_session", "requested_id")
    return {name: value for name, value in answer.items() if name not in words}
