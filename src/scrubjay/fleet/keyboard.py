"""Who may type into which pod: one at a time, and each grant has a higher epoch than the one before. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from scrubjay.errors import KeyboardHeld, NotHolder
from scrubjay.ids import PodId


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to type."""

    holder: str  #: one connection, not one person: a person may look from several
    name: str  #: for people
    epoch: int


class Keyboards:
    """The keyboards of all pods."""

    def __init__(self) -> None:
        self._grants: dict[PodId, Grant] = {}
        self._last_epochs: dict[PodId, int] = {}

    def holder(self, pod: PodId) -> Grant | None:
        """Who may type now."""
        return self._grants.get(pod)

    def require_free(self, pod: PodId, holder: str, *, takeover: bool) -> None:
        """KeyboardHeld if somebody else types and it is not to be taken over."""
        grant = self._grants.get(pod)
        if grant is not None and grant.holder != holder and not takeover:
            raise KeyboardHeld(grant.name)

    def next_epoch(self, pod: PodId, wall_us: int) -> int:
        """The epoch of a grant that is made now.

        From the clock, not a count of ours: a pod may have been typed into by another server, or before its catalog was
        lost, and takes nothing of an earlier epoch.
        """
        epoch = max(wall_us, self._last_epochs.get(pod, 0) + 1)
        self._last_epochs[pod] = epoch
        return epoch

    def grant(self, pod: PodId, holder: str, name: str, epoch: int) -> None:
        """Let somebody type. Grants may be decided in one order and made in another: the highest epoch stays."""
        current = self._grants.get(pod)
        if current is None or current.epoch < epoch:
            self._grants[pod] = Grant(holder, name, epoch)

    def release(self, pod: PodId, holder: str) -> bool:
        """Let nobody type; False if it was not ``holder`` who could."""
        grant = self._grants.get(pod)
        if grant is None or grant.holder != holder:
            return False
        del self._grants[pod]
        return True

    def require_holder(self, pod: PodId, holder: str) -> Grant:
        """The grant of who wants to type; NotHolder if it is another's or nobody's."""
        grant = self._grants.get(pod)
        if grant is None or grant.holder != holder:
            raise NotHolder(grant.name if grant is not None else None)
        return grant

    def forget(self, pod: PodId) -> None:
        """A pod is gone."""
        self._grants.pop(pod, None)
        self._last_epochs.pop(pod, None)
