"""Handing an output over."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from scrubjay.errors import BadInput, HandoffUnfit, NoSuchHandoff
from scrubjay.fleet.handoffs import FILES_MAX, KEY_MAX, NOTE_MAX, Handoff, State
from scrubjay.fleet.messages import check_text
from scrubjay.ids import SessionId, new_record_id
from scrubjay.server.coordination.actors import Actor, View
from scrubjay.server.coordination.descriptions import describe_handoff
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.sessions.sessions import Sessions
from scrubjay.store import handoffs as store
from scrubjay.store.messages import acknowledge_about
from scrubjay.tape.record import Json

_PATH_MAX = 1000
_TAKEABLE: tuple[State, ...] = ("offered", "accepted")


class Handoffs:
    """What is offered, and who takes it."""

    def __init__(self, reception: Reception, sessions: Sessions) -> None:
        self._reception, self._sessions = reception, sessions

    async def offer(
        self,
        actor: Actor,
        *,
        note: str,
        to: str | None = None,
        artifact: str | None = None,
        files: Sequence[str] = (),
        commit: str | None = None,
        key: str | None = None,
    ) -> Json:
        """Offer something to a pod, or to whoever waits for the artifact of that key."""
        reception, view = self._reception, self._reception.view(actor)
        if to is None and artifact is None:
            raise BadInput("say whom it is for", hint="give to=POD, or artifact=KEY for whoever waits for that")
        handoff = Handoff(
            new_record_id(),
            actor.party,
            check_text(note, NOTE_MAX, "note"),
            recipient=reception.party(actor, to) if to is not None else None,
            key=check_text(artifact, KEY_MAX, "artifact's key") if artifact is not None else None,
            files=_check_files(files),
            commit=check_text(commit, KEY_MAX, "commit") if commit is not None else None,
        )
        if handoff.recipient == actor.party:
            raise BadInput("nobody hands over to itself", hint="name another pod")

        def body(connection: Connection) -> Json:
            offered, met = store.offer_handoff(connection, handoff, wall_us=reception.wall_us)
            return describe_handoff(offered, view) | {"met": [view.name(wait.waiter) for wait in met]}

        return await reception.change(actor, "offer", key, body)

    async def accept(self, actor: Actor, handoff: str, *, key: str | None = None) -> Json:
        """Take what is offered, by its id or the artifact's key; a person takes what is for one pod on its behalf."""
        reception, view = self._reception, self._reception.view(actor)

        def body(connection: Connection) -> Json:
            found = self._find(connection, actor, handoff)
            taker = found.recipient if actor.is_person and found.recipient is not None else actor.party
            taken = store.accept_handoff(connection, found, taker, wall_us=reception.wall_us)
            acknowledge_about(connection, actor.party, "handoff", found.id, wall_us=reception.wall_us)
            if taken.session is None or taker in found.takers:
                return describe_handoff(taken, view)
            session = self._sessions.hand_over_in(connection, actor, taker, SessionId(taken.session))
            return describe_handoff(taken, view) | {"epoch": session.epoch, "last_seq": session.last_seq}

        return await reception.change(actor, f"accept {handoff}", key, body)

    async def decline(self, actor: Actor, handoff: str, *, key: str | None = None) -> Json:
        """Do not take what was offered to oneself, or offer it no longer."""
        reception, view = self._reception, self._reception.view(actor)

        def body(connection: Connection) -> Json:
            found = self._find(connection, actor, handoff)
            if found.offered_by == actor.party:
                return describe_handoff(store.withdraw_handoff(connection, found, wall_us=reception.wall_us), view)
            if found.recipient is None and not actor.is_person:
                raise HandoffUnfit(found.id, "it is for whoever needs it")
            return describe_handoff(
                store.decline_handoff(connection, found, actor.party, wall_us=reception.wall_us), view
            )

        return await reception.change(actor, f"decline {handoff}", key, body)

    async def list(self, actor: Actor, *, at_us: int | None = None, everything: bool = False) -> list[Json]:
        """What is offered, of an agent to it or by it; with ``everything`` also what was taken."""
        reception = self._reception
        view = reception.view(actor, await reception.directory_at(at_us))

        def body(connection: Connection) -> list[Json]:
            found = [
                handoff
                for handoff in store.list_handoffs(connection, at_us=at_us)
                if (everything or handoff.state == "offered") and _concerns(handoff, actor, view)
            ]
            parties = {party for each in found for party in (each.offered_by, each.recipient, *each.takers) if party}
            named = reception.remember(connection, view, parties)
            return [describe_handoff(handoff, named) for handoff in found]

        return await reception.tower.database.read(body)

    def _find(self, connection: Connection, actor: Actor, raw: str) -> Handoff:
        """A handoff by its id, by the beginning of it, or the newest of a key; NoSuchHandoff for those of others."""
        view = self._reception.view(actor)
        mine = [found for found in store.find_handoffs(connection, raw) if _concerns(found, actor, view)]
        if len(mine) == 1:
            return mine[0]
        keyed = store.artifact_for(connection, raw, actor.party)
        if keyed is None and actor.is_person:  # what is for one pod
            there = [each for each in store.list_handoffs(connection) if each.key == raw and each.state in _TAKEABLE]
            keyed = there[-1] if there else None
        if keyed is None or not _concerns(keyed, actor, view):
            raise NoSuchHandoff(raw)
        return keyed


def _concerns(handoff: Handoff, actor: Actor, view: View) -> bool:
    if actor.is_person or actor.party in (handoff.offered_by, handoff.recipient):
        return True
    return handoff.recipient is None and view.knows(handoff.offered_by)


def _check_files(files: Sequence[str]) -> tuple[str, ...]:
    if len(files) > FILES_MAX:
        raise BadInput(f"{len(files)} files are more than {FILES_MAX}", hint="name a folder, or a commit")
    return tuple(check_text(path, _PATH_MAX, "path") for path in files)
