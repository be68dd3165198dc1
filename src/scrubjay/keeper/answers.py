"""Who answers what the agent asks its terminal, and up to where that was done. Pure.

Either the pod's own terminal answers, a client that has asked to, or whichever terminals persons have attached. Exactly
once by arithmetic: an answer names the offset of the tape it answers up to, and none is taken for what was answered.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from scrubjay.keeper.clients import Client

# A program that has asked and still waits has no patience to lose. One that went on would take what comes for keys.
LATE_US = 30_000_000


class NotAnswerable(Exception):
    """An answer that must not be typed."""


class Answers:
    """How far what the agent asked was answered."""

    TAKE_OVER_S = 5.0  #: from the end of the pod's terminal, which may be about to come back, until persons' answer
    _TAKE_OVER_US = int(TAKE_OVER_S * 1e6) - 1000  # a timer may be that early

    def __init__(self) -> None:
        self.terminal: Client | None = None  #: the pod's own
        self.by_persons = True  #: whether persons' terminals answer
        self.answered = 0  #: the offset before which nothing is left to answer
        self._stale = self._mark = self._mark_at = self._left_at = 0

    def begin(self, terminal: Client, *, end: int, now: int, quiet_us: int, persons: bool) -> tuple[int, Client | None]:
        """Let a client be the pod's terminal; from which offset on, and whose place it takes.

        ``end`` is that of the tape, on which nothing was shown for ``quiet_us``; ``persons`` whether any is attached.
        """
        self.pass_time(end, now)
        if quiet_us >= LATE_US or (self.by_persons and persons):
            self._stale = end
        self.answered = max(self.answered, self._stale)
        before, self.terminal = self.terminal, terminal
        self.by_persons = False
        return self.answered, None if before is terminal else before

    def check(self, client: Client, offset: int, *, end: int) -> None:
        """NotAnswerable unless the client may answer up to an offset."""
        if client is not self.terminal:
            raise NotAnswerable("another terminal answers for this pod")
        if offset > end:
            raise NotAnswerable(f"the tape ends at {end}: nothing was asked at {offset}")
        if offset <= self.answered:
            raise NotAnswerable(f"everything up to {self.answered} is answered already")

    def pass_time(self, end: int, now: int) -> None:
        """Give up what nobody has answered for a while."""
        if now - self._mark_at >= LATE_US:
            self._stale, self._mark, self._mark_at = self._mark, end, now

    def end(self, client: Client, now: int) -> bool:
        """A client has left; whether that was the pod's terminal."""
        if client is not self.terminal:
            return False
        self.terminal, self._left_at = None, now
        return True

    def take_over(self, now: int) -> bool:
        """Let persons' terminals answer, if the pod's is gone for long enough; whether they do from now on."""
        if self.by_persons or self.terminal is not None or now - self._left_at < self._TAKE_OVER_US:
            return False
        self.by_persons = True
        return True

    def last_person_left(self, end: int) -> None:
        """No person's terminal is attached any more."""
        if self.by_persons:
            self.answered = end
