"""What every party may do to which terminal, and whom it knows, as the last event left it.

An agent knows whom it shares a channel or a binding with, pending ones included. Of anybody else it learns nothing, not
even that they exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from scrubjay.fleet.access import Scope
from scrubjay.fleet.bindings import ALIVE, SCOPES
from scrubjay.fleet.parties import Party

_NONE: frozenset[Scope] = frozenset()


class Standing:
    """Bindings and memberships, looked up without asking the catalog."""

    def __init__(self) -> None:
        self._granted: dict[tuple[Party, Party], frozenset[Scope]] = {}
        self._bound: dict[Party, set[Party]] = {}
        self._channels: dict[str, set[Party]] = {}
        self._memberships: dict[Party, set[str]] = {}

    def scopes(self, party: Party, target: Party) -> frozenset[Scope]:
        """What a party may do to another's terminal."""
        return self._granted.get((party, target), _NONE)

    def knows(self, party: Party, other: Party) -> bool:
        """Whether a party may hear of another."""
        if party == other or other in self._bound.get(party, ()):
            return True
        return any(other in self._channels[channel] for channel in self._memberships.get(party, ()))

    def acquaintances(self, party: Party) -> set[Party]:
        """Whom a party knows, itself included."""
        found = {party, *self._bound.get(party, ())}
        for channel in self._memberships.get(party, ()):
            found |= self._channels[channel]
        return found

    def learn_binding(self, initiator: Party, target: Party, state: str, granted: Iterable[str]) -> None:
        """Take a binding as it is."""
        pair = (initiator, target)
        if state in ALIVE:
            self._granted[pair] = frozenset(scope for scope in SCOPES if scope in granted)
            self._bound.setdefault(initiator, set()).add(target)
            self._bound.setdefault(target, set()).add(initiator)
            return
        self._granted.pop(pair, None)
        if (target, initiator) not in self._granted:
            self._bound.get(initiator, set[Party]()).discard(target)
            self._bound.get(target, set[Party]()).discard(initiator)

    def learn_member(self, channel: str, party: Party) -> None:
        """Take somebody as a member of a channel."""
        self._channels.setdefault(channel, set()).add(party)
        self._memberships.setdefault(party, set()).add(channel)

    def observe(self, kind: str, data: Mapping[str, object]) -> None:
        """An event of the fleet."""
        match kind.partition(".")[0], kind:
            case "binding", _:
                granted = cast("list[str]", data["granted"])
                self.learn_binding(_party(data, "initiator"), _party(data, "target"), str(data["state"]), granted)
            case _, "channel.joined":
                self.learn_member(str(data["channel"]), _party(data, "party"))
            case _, "channel.left":
                self._forget(str(data["channel"]), _party(data, "party"))
            case _, "channel.archived":
                for party in list(self._channels.get(str(data["channel"]), ())):
                    self._forget(str(data["channel"]), party)
            case _:
                pass

    def _forget(self, channel: str, party: Party) -> None:
        self._channels.get(channel, set[Party]()).discard(party)
        self._memberships.get(party, set[str]()).discard(channel)


def _party(data: Mapping[str, object], name: str) -> Party:
    return Party(str(data[name]))
