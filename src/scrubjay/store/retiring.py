"""What becomes of everything somebody had with others when it is no more: an agent's last pod or token, a channel."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from scrubjay.fleet.messages import Channel
from scrubjay.fleet.parties import Party, agent_party, session_party
from scrubjay.fleet.waits import Archived, Attended, Ended, Stopped
from scrubjay.ids import PodId
from scrubjay.store import schema
from scrubjay.store.bindings import bindings_of, unbind
from scrubjay.store.channels import archive_channel, channels_of, inbox_id, leave_channel
from scrubjay.store.happenings import happen
from scrubjay.store.parties import REVOKED, end_of

_POD = schema.pod.c
_SESSION = select(_POD.session).where(_POD.id == bindparam("of"))
_LEFT = select(_POD.id).where(_POD.session == bindparam("of"), _POD.until_event.is_(None)).limit(1)


def retire_pod(connection: Connection, pod: PodId, *, wall_us: int) -> None:
    """End the waits, bindings and memberships of a pod that was removed, unless its session goes on in another.

    Where only pods that have ended are left of the session, it can still be gone on with.
    """
    session = connection.execute(_SESSION, {"of": pod}).scalar_one_or_none()
    if session is None:
        return
    party = session_party(session)
    end, left = end_of(connection, party), connection.execute(_LEFT, {"of": session}).first() is not None
    if end is None:
        happen(connection, Attended(party, pod), wall_us=wall_us)
    else:
        happen(connection, Stopped(party, end) if left else Ended(party, end), wall_us=wall_us)
    if left:
        return
    _part(connection, party, "its pod was deleted", wall_us=wall_us)


def retire_agent(connection: Connection, token: str, *, wall_us: int) -> None:
    """End the waits, bindings and memberships of an agent outside pods whose token was revoked."""
    party = agent_party(token)
    happen(connection, Ended(party, REVOKED), wall_us=wall_us)
    _part(connection, party, "its token was revoked", wall_us=wall_us)


def retire_channel(connection: Connection, channel: Channel, *, by: Party, wall_us: int) -> bool:
    """Archive a channel, and end the waits for what would have been said there; False if it is archived already."""
    if not archive_channel(connection, channel, by=by, wall_us=wall_us):
        return False
    happen(connection, Archived(channel.id), wall_us=wall_us)
    return True


def _part(connection: Connection, party: Party, why: str, *, wall_us: int) -> None:
    for binding in bindings_of(connection, party):
        unbind(connection, binding, by="scrubjay", answer=why, wall_us=wall_us)
    for channel in channels_of(connection, party):
        if channel.id != inbox_id(party):  # what it was told stays its own
            leave_channel(connection, channel, party, wall_us=wall_us)
