"""What was found where a pod's work is to go on: what a person should know, and what is in the way. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scrubjay.errors import LeaseHeld, ResumeRefused
from scrubjay.tape.record import Json

Kind = Literal[
    "held",  # a running pod has the session
    "open",  # somebody else has the conversation open
    "name",  # a running pod of another session has the name
    "imported",  # it never ran here
    "worktree",  # its worktree is not there
    "folder",  # its folder is not there
    "dirty",  # there are changes that are not committed
    "moved",  # HEAD is not where the pod left it
    "branch",  # another branch is checked out
    "merge",  # a merge or the like waits to be finished
    "unlooked",  # git could not say how the worktree is
    "agent",  # the program is not there
    "conversation",  # which it is, or its files, are missing
    "unchecked",  # nobody can tell whether the conversation is there
    "new_conversation",  # another one is begun
    "no_conversation",  # there is none to go on with
    "secret",  # an argument was hidden and is not known
    "environment",  # a variable was given whose value is not known
    "elsewhere",  # this machine never had the pod
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing."""

    kind: Kind
    text: str  #: a sentence, without its full stop
    stops: bool = False  #: whether it is in the way
    hint: str | None = None  #: what to do about it

    def describe(self) -> Json:
        """The finding for a program."""
        return {"kind": self.kind, "text": self.text, "stops": self.stops, "hint": self.hint}

    def __str__(self) -> str:
        """The finding for a person."""
        return self.text if self.hint is None else f"{self.text}; {self.hint}"


def refuse(name: str, session: str, findings: Sequence[Finding]) -> None:
    """LeaseHeld or ResumeRefused with everything that is in the way; nothing if nothing is."""
    stopping = [finding for finding in findings if finding.stops]
    if not stopping:
        return
    hint = "; ".join(finding.hint for finding in stopping if finding.hint is not None) or None
    if all(finding.kind == "held" for finding in stopping):
        raise LeaseHeld(session, stopping[0].text.removesuffix(" has the session"), hint=hint)
    raise ResumeRefused(name, tuple(finding.text for finding in stopping), hint=hint)
