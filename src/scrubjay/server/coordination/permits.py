"""Which pod somebody means, and whether they may do to it what they came for."""

from __future__ import annotations

from scrubjay.errors import NoSuchPod, ScopeMissing
from scrubjay.fleet.access import Action, Principal, may, scope_for
from scrubjay.fleet.parties import session_party
from scrubjay.ids import PodId
from scrubjay.server.coordination.actors import Actor
from scrubjay.server.coordination.reception import Reception
from scrubjay.server.refusals import not_allowed


class PodPermits:
    """The rules of access, applied to the pods there are and to what their agents have granted each other."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception

    async def find(self, principal: Principal, action: Action, raw: str) -> PodId:
        """The pod somebody means, if they may do this to it.

        Refused if nobody of their role ever may; NoSuchPod for a pod they do not know, as for one that does not exist;
        ScopeMissing for one they know and were not granted. That an agent has tried to type is kept in the events.
        """
        reception = self._reception
        if may(principal, action):
            return PodId(reception.tower.find(raw).report.id)
        scope = scope_for(principal.role, action)
        if scope is None:
            raise not_allowed(principal.role)
        actor = self._actor(principal)
        if actor is None:
            raise NoSuchPod(raw)
        known = reception.find(actor, raw)
        pod = PodId(known.report.id)
        if self.allows(principal, action, pod):
            return pod
        if action == "type":
            await reception.tower.audit("input.refused", pod, principal)
        if session_party(known.report.session) == actor.party:
            raise not_allowed(principal.role)  # nobody is bound to itself
        raise ScopeMissing(known.report.name, scope)

    def allows(self, principal: Principal, action: Action, pod: PodId) -> bool:
        """Whether somebody may do this to a pod as of now."""
        if may(principal, action):
            return True
        known, actor = self._reception.tower.pods.get(pod), self._actor(principal)
        if known is None or actor is None:
            return False
        return may(principal, action, pod, scopes=self._reception.scopes(actor, known))

    def _actor(self, principal: Principal) -> Actor | None:
        try:
            return self._reception.actor(principal)
        except NoSuchPod:  # its own was deleted, or has not come yet
            return None
