"""What pods have to do with their sessions: one that runs holds its own."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from scrubjay.fleet.parties import session_party
from scrubjay.fleet.sessions import pod_holder
from scrubjay.ids import PodId, SessionId
from scrubjay.store import schema
from scrubjay.store.events import append_event
from scrubjay.store.pods import PodFacts
from scrubjay.store.sessions import describe_session, find_session, grant, open_session, renew, suspend
from scrubjay.store.summary_jobs import cancel_pending
from scrubjay.tape.record import Json

_POD = schema.pod.c
_PODS = select(_POD.id).where(_POD.session == bindparam("of")).order_by(_POD.created_us, _POD.id)


def follow_pod(connection: Connection, facts: PodFacts, *, ended: str | None, new: bool, wall_us: int) -> None:
    """Take up what a pod's being there, or its end, means for its session.

    A pod that runs while somebody else holds its session does not take it back: the event is ``session.contended``.
    """
    holder = pod_holder(facts.id)
    session = find_session(connection, facts.session)
    if session is None:
        open_session(
            connection,
            id=facts.session,
            holder=None if ended is not None else holder,
            held_by=facts.name,
            name=facts.name,
            agent=facts.agent,
            wall_us=wall_us,
        )
        return
    if new:
        describe_session(connection, session, name=facts.name, agent=facts.agent)
    if ended is not None:
        if session.state == "open" and session.holder == holder:
            suspend(connection, session, why=ended, wall_us=wall_us)
        return
    if session.state == "suspended":
        cancel_pending(connection, session, wall_us=wall_us)
        if session.holder == holder:
            renew(connection, session, wall_us=wall_us)
        else:
            owner = session_party(facts.session)
            grant(connection, session, holder, held_by=facts.name, how="resumed", owner=owner, wall_us=wall_us)
    elif session.state == "open" and session.holder != holder and new:
        data: Json = {"session": session.id, "by": facts.name, "held_by": session.held_by}
        append_event(connection, "session.contended", wall_us=wall_us, pod=facts.id, data=data)


def pods_of_session(connection: Connection, session: SessionId) -> list[PodId]:
    """All pods that a session ever had, in order."""
    return [PodId(pod) for pod in connection.execute(_PODS, {"of": session}).scalars()]
