"""Asking for a terminal, granting it, taking it back."""

from __future__ import annotations

from sqlalchemy import Connection

from scrubjay.errors import NoSuchBinding, NotForRole
from scrubjay.fleet.bindings import Binding, parse_scopes
from scrubjay.fleet.messages import check_text
from scrubjay.fleet.parties import Party, kind_of, session_party
from scrubjay.fleet.waits import REASON_MAX
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.descriptions import describe_binding
from scrubjay.server.coordination.reception import Reception
from scrubjay.store import bindings as store
from scrubjay.store.messages import acknowledge_about
from scrubjay.tape.record import Json


class Bindings:
    """What agents may do to each other's terminals."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception

    async def request(
        self,
        actor: Actor,
        *,
        target: str,
        scopes: list[str],
        initiator: str | None = None,
        reason: str | None = None,
        accept: bool = False,
        key: str | None = None,
    ) -> Json:
        """Ask for scopes on a pod: an agent for itself, a person for the pod ``initiator``.

        With ``accept`` a person grants them in the same moment.
        """
        reception, wanted = self._reception, parse_scopes(scopes)
        asking = self._initiator(actor, initiator)
        known = reception.find(actor, target)
        reception.tower.require_running(known)
        if accept and not actor.is_person:
            raise NotForRole("nobody grants what they ask for themselves", hint="the other pod or a person accepts it")
        why = _check_reason(reason)
        party, view = session_party(known.report.session), reception.view(actor)

        def body(connection: Connection) -> Json:
            binding = store.request_binding(
                connection,
                initiator=asking,
                target=party,
                scopes=wanted,
                by=actor.name,
                reason=why,
                wall_us=reception.wall_us,
            )
            if accept and binding.pending:
                binding = store.accept_binding(connection, binding, by=actor.name, wall_us=reception.wall_us)
            return describe_binding(binding, view)

        return await reception.change(actor, "request binding", key, body)

    async def answer(
        self,
        actor: Actor,
        binding: str,
        *,
        accept: bool,
        scopes: list[str] | None = None,
        reason: str | None = None,
        key: str | None = None,
    ) -> Json:
        """Grant what is pending, or some of it, or refuse it: the target itself, or a person."""
        reception = self._reception
        some = parse_scopes(scopes) if scopes is not None else None
        why, view = _check_reason(reason), reception.view(actor)

        def body(connection: Connection) -> Json:
            found = self._find(connection, actor, binding)
            if not actor.is_person and found.target != actor.party:
                raise NotForRole("only the other side answers what you ask for", hint="wait for its answer")
            if accept:
                kept = store.accept_binding(connection, found, by=actor.name, scopes=some, wall_us=reception.wall_us)
            else:
                kept = store.reject_binding(connection, found, by=actor.name, answer=why, wall_us=reception.wall_us)
            acknowledge_about(connection, actor.party, "binding", found.id, wall_us=reception.wall_us)
            return describe_binding(kept, view)

        return await reception.change(actor, f"answer {binding}", key, body)

    async def unbind(self, actor: Actor, binding: str, *, reason: str | None = None, key: str | None = None) -> Json:
        """End a binding: either side, or a person."""
        reception, view = self._reception, self._reception.view(actor)
        why = _check_reason(reason)

        def body(connection: Connection) -> Json:
            found = self._find(connection, actor, binding)
            kept = store.unbind(connection, found, by=actor.name, answer=why, wall_us=reception.wall_us)
            return describe_binding(kept, view)

        return await reception.change(actor, f"unbind {binding}", key, body)

    async def list(
        self,
        actor: Actor,
        *,
        pod: str | None = None,
        initiator: str | None = None,
        target: str | None = None,
        at_us: int | None = None,
        ended: bool = False,
    ) -> list[Json]:
        """The bindings that are alive, of an agent its own; with ``ended`` the others too.

        Only those of ``pod``, whichever side it is, and those of an ``initiator`` or on a ``target``, if given.
        """
        reception = self._reception
        either, one, other = (None if raw is None else reception.party(actor, raw) for raw in (pod, initiator, target))
        view = reception.view(actor, await reception.directory_at(at_us))

        def body(connection: Connection) -> list[Json]:
            found = [
                binding
                for binding in store.list_bindings(connection, at_us=at_us, ended=ended)
                if _concerns(binding, actor)
                and either in (None, binding.initiator, binding.target)
                and one in (None, binding.initiator)
                and other in (None, binding.target)
            ]
            parties = {party for binding in found for party in (binding.initiator, binding.target)}
            named = reception.remember(connection, view, parties)
            return [describe_binding(binding, named) for binding in found]

        return await reception.tower.database.read(body)

    def _initiator(self, actor: Actor, raw: str | None) -> Party:
        if actor.is_person:
            if raw is None:
                raise NotForRole("a person needs no binding", hint="say which pod asks for it")
            party = self._reception.party(actor, raw)
            if kind_of(party) == "pod":  # one that has ended would be seen to wait for it
                self._reception.tower.require_running(self._reception.find(actor, raw))
            return party
        if raw is not None and self._reception.party(actor, raw) != actor.party:
            raise NotForRole("an agent asks for itself only", hint="leave the initiator out")
        return actor.party

    def _find(self, connection: Connection, actor: Actor, raw: str) -> Binding:
        found = store.find_bindings(connection, raw)
        mine = [binding for binding in found if _concerns(binding, actor)]
        if len(mine) != 1:
            raise NoSuchBinding(raw)
        return mine[0]


def _check_reason(reason: str | None) -> str | None:
    return None if reason is None else check_text(reason, REASON_MAX, "reason")


def _concerns(binding: Binding, actor: Actor) -> bool:
    return actor.is_person or actor.party in (binding.initiator, binding.target)
