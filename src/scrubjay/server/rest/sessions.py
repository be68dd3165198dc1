"""Sessions: list, look at, go on with, finish, hand over."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from scrubjay.ids import parse_pod_id
from scrubjay.server.rest import coordination_models, session_models
from scrubjay.server.rest.acting import InCoordination, TheActor, past_us
from scrubjay.server.rest.context import Asker, InTower, RawInstant
from scrubjay.server.rest.once import IdempotencyKey, once
from scrubjay.server.sessions.pod_resume import Wanted
from scrubjay.tape.record import Json

router = APIRouter(prefix="/api/v1/sessions", tags=["sessions"])
RawSession = Annotated[str, Path(description="A session's id, a unique beginning of it, or a pod of it.")]


@router.get("", summary="Sessions, last used first")
async def all_sessions(
    tower: InTower,
    coordination: InCoordination,
    actor: TheActor,
    at: RawInstant = None,
    *,
    all: Annotated[bool, Query(description="Also those that cannot be resumed at this moment.")] = True,  # noqa: A002
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> list[session_models.Session]:
    """With who holds each, and what it was doing."""
    found = await coordination.resuming.list(actor, everything=all, at_us=past_us(tower, at), limit=limit)
    return [session_models.Session.model_validate(session) for session in found]


@router.get("/{session}", summary="One session with what is in it")
async def one_session(
    coordination: InCoordination, actor: TheActor, session: RawSession
) -> session_models.SessionInFull:
    """Its pods, its summary and its last memories."""
    return session_models.SessionInFull.model_validate(await coordination.resuming.show(actor, session))


@router.post("/{session}/resume", status_code=201, summary="Go on with a session in a new pod")
async def resume(
    tower: InTower,
    coordination: InCoordination,
    asker: Asker,
    actor: TheActor,
    session: RawSession,
    how: session_models.Resume | None = None,
    idempotency_key: IdempotencyKey = None,
) -> session_models.Resumed:
    """Same name, worktree, branch, conversation, bindings, channels and waits. Of several at once one succeeds."""
    how = how if how is not None else session_models.Resume()
    wanted = Wanted(
        takeover=how.takeover,
        reopen=how.reopen,
        new_conversation=how.new_conversation,
        check=how.check,
        prompt=how.prompt,
        arguments=tuple(how.arguments) if how.arguments is not None else None,
        runner=how.runner,
        name=how.name,
        environment=how.environment,
        cols=how.cols,
        rows=how.rows,
        mcp=how.mcp,
    )

    async def carry_out() -> Json:
        return await coordination.pod_resume.resume(actor, session, wanted)

    answer = await once(tower, asker, None if wanted.check else idempotency_key, carry_out)
    return session_models.Resumed.model_validate(answer)


@router.post("/{session}/claim", status_code=201, summary="Claim a session for a pod that is about to be started")
async def claim(
    coordination: InCoordination, actor: TheActor, session: RawSession, how: session_models.Claim | None = None
) -> session_models.Claimed:
    """Good for two minutes, on the machine that has the session's last pod. Of several at once one succeeds."""
    how = how if how is not None else session_models.Claim()
    wanted = Wanted(takeover=how.takeover, reopen=how.reopen, name=how.name)
    return session_models.Claimed.model_validate(await coordination.pod_resume.claim(actor, session, wanted))


@router.delete("/{session}/claim/{new}", status_code=204, summary="Give back a session whose pod was not started")
async def give_back(coordination: InCoordination, actor: TheActor, session: RawSession, new: str) -> Response:
    """It is as it was."""
    del session  # the pod's id, which nobody can guess, says it all
    await coordination.pod_resume.give_back(actor, parse_pod_id(new), "it was not started")
    return Response(status_code=204)


@router.post("/{session}/finish", summary="Say that a session has come to its end")
async def finish(
    coordination: InCoordination, actor: TheActor, session: RawSession, how: session_models.Ending | None = None
) -> session_models.Session:
    """It can be resumed after that only by reopening it."""
    why = how.reason if how is not None else None
    return session_models.Session.model_validate(await coordination.resuming.finish(actor, session, why=why))


@router.post("/{session}/release", summary="Let nobody hold a session")
async def release(coordination: InCoordination, actor: TheActor, session: RawSession) -> session_models.Session:
    """Whoever held it is refused the next time they write."""
    return session_models.Session.model_validate(await coordination.resuming.finish(actor, session, only_leave=True))


@router.post("/{session}/handoff", status_code=201, summary="Offer a session to somebody")
async def hand_over(
    coordination: InCoordination,
    actor: TheActor,
    session: RawSession,
    offer: session_models.HandOver,
    idempotency_key: IdempotencyKey = None,
) -> coordination_models.Handoff:
    """When they accept it is theirs."""
    offered = await coordination.resuming.hand_over(actor, offer.to, offer.note, session=session, key=idempotency_key)
    return coordination_models.Handoff.model_validate(offered)


@router.get("/{session}/summary", summary="The summaries of a session")
async def summary(coordination: InCoordination, actor: TheActor, session: RawSession) -> session_models.Summaries:
    """In order, and how far they go."""
    return session_models.Summaries.model_validate(await coordination.summing_up.show(actor, session))


@router.post("/{session}/summary", status_code=202, summary="Have a session summed up now")
async def sum_up(coordination: InCoordination, actor: TheActor, session: RawSession) -> session_models.Asked:
    """Only what no summary has yet; even while it is open."""
    return session_models.Asked.model_validate(await coordination.summing_up.ask(actor, session))
