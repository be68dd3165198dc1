"""Who acts, whom they know, and what everybody is called."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scrubjay.errors import NotForRole
from scrubjay.fleet.access import Principal
from scrubjay.fleet.messages import ChannelKind
from scrubjay.fleet.parties import Party, kind_of
from scrubjay.ids import PodId
from scrubjay.tape.record import Json

HIDDEN = "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}hidden\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
"""What stands for somebody an agent does not know."""


@dataclass(frozen=True, slots=True)
class Actor:
    """Somebody who coordinates."""

    principal: Principal
    party: Party
    name: str
    pod: PodId | None = None

    @property
    def is_person(self) -> bool:
        """Whether it is a person, who sees everything."""
        return kind_of(self.party) == "person"

    def may_see(self, kind: ChannelKind, members: Collection[Party]) -> bool:
        """Whether they may hear of a channel of that kind, with those in it."""
        return self.is_person or kind == "open" or self.party in members

    def require_agent(self, what: str) -> None:
        """NotForRole for people, who do not do such things."""
        if self.is_person:
            raise NotForRole(f"only agents {what}", hint="use the token of a pod, or one of the role agent")

    def require_changing(self) -> None:
        """NotForRole for a viewer, who only looks."""
        if self.principal.role == "viewer":
            raise NotForRole("a viewer only looks", hint="use a token of the role operator")


class Resident(NamedTuple):
    """A pod, as far as others must know which one acts for a party; a tuple, because all of them are made at once."""

    pod: PodId
    name: str
    party: Party
    created_us: int
    over: bool


class Directory:
    """Which pod acts for which party, and what everybody is called, at one instant."""

    def __init__(self, residents: Iterable[Resident], agents: Mapping[Party, str]) -> None:
        self._agents = agents
        self._pods: dict[Party, Resident] = {}
        for resident in sorted(residents, key=lambda each: (not each.over, each.created_us, each.pod)):
            self._pods[resident.party] = resident  # the newest of those that run, or else the newest

    def pod(self, party: Party) -> PodId | None:
        """The pod that acts for a party."""
        resident = self._pods.get(party)
        return resident.pod if resident is not None else None

    def is_over(self, party: Party) -> bool:
        """Whether the pod of a party has ended, or there is none."""
        resident = self._pods.get(party)
        return resident is None or resident.over

    def name(self, party: Party, otherwise: str | None = None) -> str:
        """What people call a party; ``otherwise`` is what one that is gone was called."""
        match kind_of(party):
            case "pod":
                resident = self._pods.get(party)
                return resident.name if resident is not None else otherwise or party[:8]
            case "agent":
                return self._agents.get(party, party.partition(":")[2][:8])
            case "person" | "scrubjay":
                return party.partition(":")[2] or party


class View:
    """What somebody may see of who is who."""

    def __init__(
        self, directory: Directory, known: Collection[Party] | None = None, gone: Mapping[Party, str] = {}
    ) -> None:
        """``known`` are those an agent knows; None for a person, who knows everybody. ``gone`` names former pods."""
        self.directory, self._known, self._gone = directory, known, gone

    def remembering(self, gone: Mapping[Party, str]) -> View:
        """The same, with names for those that are gone."""
        return View(self.directory, self._known, gone)

    def knows(self, party: Party) -> bool:
        """Whether they may hear of a party. People and Scrubjay itself are no secret."""
        return self._known is None or party in self._known or kind_of(party) in ("person", "scrubjay")

    def name(self, party: Party) -> str:
        """What a party is called, or that it is hidden."""
        return self.directory.name(party, self._gone.get(party)) if self.knows(party) else HIDDEN

    def describe(self, prefix: str, party: Party | None) -> Json:
        """A party in the fields of something else: its name, its pod's id, and what it is."""
        if party is None:
            return {prefix: None}
        if not self.knows(party):
            return {prefix: HIDDEN}
        told: Json = {prefix: self.name(party), f"{prefix}_kind": kind_of(party)}
        pod = self.directory.pod(party)
        return told if pod is None else told | {f"{prefix}_pod": pod}
